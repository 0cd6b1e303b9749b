"""What lostack relies on of a package, and of the clients and dialects that it brings."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

from harness import registry
from harness.contract.package import speaker_of
from harness.pipelines.dialects import dialect_of
from harness.run.clients import brought_adapter
from harness.wire.spoken import load

if TYPE_CHECKING:
    from harness.contract.package import Package

IMPORTED_WITHIN_S = 120.0
LOOK = """
import importlib, json, sys, threading
module = importlib.import_module(sys.argv[1])
makes = [n for n in ("make_producer", "make_consumer") if callable(getattr(module, n, None))]
print(json.dumps([threading.active_count() - 1, makes]))
"""


def test_it_says_how_each_of_its_protocols_is_spoken(package: Package) -> None:
    """Else nobody can try them: :func:`~harness.contract.package.speaker_of` says what to do."""
    for protocol in package.protocols:
        assert speaker_of(protocol).name == protocol, (
            f"the speaker of {protocol} names another protocol: its first field is the name"
        )


def test_a_client_is_some_system_s(client: str) -> None:
    """A cell chooses it by its system."""
    systems = [each.name for each in registry.declared() if client in each.clients]
    assert systems, f"no system has the client {client}: name it in System.clients"


def test_a_client_makes_producers_and_consumers_and_nothing_else(client: str) -> None:
    """To import it starts no thread: a stage program is killed at exact places, and forks."""
    looked = subprocess.run(
        [sys.executable, "-c", LOOK, brought_adapter(client)],
        capture_output=True,
        text=True,
        check=False,
        timeout=IMPORTED_WITHIN_S,
    )
    assert looked.returncode == 0, f"the module of {client} cannot be imported: {looked.stderr}"
    threads, makes = json.loads(looked.stdout.splitlines()[-1])
    assert threads == 0, (
        f"to import the module of {client} starts {threads} threads: start them in make_producer "
        "and make_consumer"
    )
    assert makes == ["make_producer", "make_consumer"], (
        f"the module of {client} has {makes or 'neither'}: it needs the functions of "
        "harness.stages.clients.queues.QueueClient"
    )


def test_a_dialect_is_of_a_system(dialect: str) -> None:
    """Its name is SYSTEM.PROTOCOL."""
    system, _, protocol = dialect.partition(".")
    assert protocol, f"the dialect {dialect} has no protocol: name it SYSTEM.PROTOCOL"
    known = [each.name for each in registry.declared()]
    assert system in known, f"no system is called {system}, whose dialect {dialect} is"


def test_a_dialect_names_steps_that_its_wire_reads(dialect: str, package: Package) -> None:
    """In the direction in which they go."""
    system, _, protocol = dialect.partition(".")
    said = dialect_of(system, protocol)
    known = {each for name in {*package.protocols, protocol} for each in load(name).steps}
    steps = [*said.steps.values(), said.reads, *filter(None, (said.ends,))]
    steps += [(other, said.steps[at][1]) for at, more in said.others.items() for other in more]
    strange = sorted({f"{step} ({way})" for step, way in steps if (step, way) not in known})
    assert not strange, (
        f"the dialect {dialect} names steps that the package's protocols do not have: "
        f"{', '.join(strange)}; they are the keys of Protocol.steps"
    )
