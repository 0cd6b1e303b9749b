"""The explicit registries: what can be selected by a name, and what was probably meant by a wrong one."""

from __future__ import annotations

import difflib
import importlib
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

from packaging.version import InvalidVersion, Version

from harness.core.cell import client_name, system_name
from harness.core.scenario import Deployment, NotApplicable
from harness.setup.kafka import kafka_versions
from harness.setup.postgres import why_no_postgres

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.core.cell import Cell
    from harness.core.scenario import Scenario
    from harness.interfaces import System

SYSTEMS = {
    "kafka": "harness.systems.kafka.system:KafkaSystem",
    "memory": "harness.systems.memory:MemorySystem",
    "spark": "harness.systems.spark.system:SparkSystem",
}
"""Systems under test by name: ``module:class``, imported only when used."""
DEFAULT_SYSTEMS = ("kafka", "spark")
"""The systems that are run where none is named; each runs the pipelines that are its own."""
RUNTIMES = ("process", "docker")
IN_CONTAINERS = ("kafka", "spark")
"""The systems that run in containers too; as processes all do."""
CLIENTS = {
    "kafka-python": ("kafka", "memory"),
    "confluent-kafka": ("kafka",),
    "java": ("kafka",),
    "spark-sql-kafka": ("spark",),
}
"""The systems of each client; the first client of a system is the one that is used where none is named.

A system that nobody names here has the first one.
"""

T = TypeVar("T")


def engines() -> tuple[str, ...]:
    """Return the systems that are run only where they are named, and fetched only then: all but the default ones and ours.

    >>> engines()
    ()
    """
    return tuple(name for name in SYSTEMS if name not in {*DEFAULT_SYSTEMS, "memory"})


def runs(system: str, scenario: Scenario) -> bool:
    """Whether a system can run a scenario's pipeline, on what it needs under it."""
    system = system_name(system)
    if scenario.deployment.clustered and system != "kafka":
        return False
    if system == "memory" and (scenario.group == "transactions" or scenario.pipeline.on_server):
        return False  # it simulates outcomes, not the protocol's requests
    return scenario.pipeline.streaming == (system == "spark")


def clients_of(system: str, wanted: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the clients, of those ``wanted`` (``name`` or ``name==version``), that a system talks through.

    >>> clients_of("kafka"), clients_of("spark"), clients_of("kafka", ["confluent-kafka==2.3.0", "spark-sql-kafka"])
    (('kafka-python',), ('spark-sql-kafka',), ('confluent-kafka==2.3.0',))

    Raises :class:`UnknownNameError`.
    """
    wanted = tuple(dict.fromkeys(wanted))
    for client in wanted:
        name = known(client_name(client), CLIENTS, "client")
        if client != name and not _is_version(client.partition("==")[2]):
            raise UnknownNameError(f"{client} names no version: write {name}==2.3.0, or {name} for the one that is installed")
    mine = [name for name, systems in CLIENTS.items() if system_name(system) in systems] or list(CLIENTS)[:1]
    return tuple(client for client in wanted if client_name(client) in mine) if wanted else tuple(mine[:1])


def _is_version(text: str) -> bool:
    try:
        Version(text)
    except InvalidVersion:
        return False
    return text == text.strip()


def inapplicable(cell: Cell) -> str | None:
    """Say why a cell does not apply: by theory, or because this machine has no server for it; ``None`` where it does."""
    if isinstance(cell.expectation, NotApplicable):
        return cell.expectation.because
    if cell.scenario.deployment is Deployment.APART and cell.runtime != "process":
        return "a controller apart from the brokers runs in runtime process only, so far"
    if cell.scenario.pipeline.on_server and cell.runtime == "process":
        return why_no_postgres()
    return None


class UnknownNameError(Exception):
    """A name that is in no registry; the message suggests what was probably meant."""


def scenarios() -> tuple[Scenario, ...]:
    """Return every scenario."""
    return tuple(importlib.import_module("harness.scenarios").ALL)


def baseline() -> Path:
    """Return the file of known breaks that stands beside the scenarios."""
    return Path(str(importlib.import_module("harness.scenarios").__file__)).with_name("baseline.toml")


def system(name: str, runtime: str = "process") -> System:
    """Return a system by its name (``name``, or ``name==version``), in a runtime. Raises :class:`UnknownNameError`."""
    module, _, attribute = SYSTEMS[known(system_name(name), SYSTEMS, "system")].partition(":")
    make = getattr(importlib.import_module(module), attribute)
    if name != system_name(name):
        return cast("System", make(runtime, version=name.partition("==")[2]))
    return cast("System", make() if runtime == "process" else make(runtime))


def systems(runtime: str, name: str | None = None) -> tuple[str, ...]:
    """Return the systems that are meant in a runtime: the named one, or the default ones that run there.

    Raises :class:`UnknownNameError` where the named one does not.

    >>> systems("process", "kafka==4.2.0"), systems("docker")
    (('kafka==4.2.0',), ('kafka', 'spark'))
    """
    there = tuple(SYSTEMS) if known(runtime, RUNTIMES, "runtime") == "process" else IN_CONTAINERS
    if name is None:
        return tuple(each for each in DEFAULT_SYSTEMS if each in there)
    if known(system_name(name), SYSTEMS, "system") not in there:
        raise UnknownNameError(f"{name} does not run in runtime {runtime}; what does: {', '.join(there)}")
    if name != system_name(name):
        _check_version(name, runtime)
    return (name,)


def _check_version(name: str, runtime: str) -> None:
    """Refuse a version of a system that cannot be had. Raises :class:`UnknownNameError`."""
    system, _, version = name.partition("==")
    if system != "kafka":
        raise UnknownNameError(f"{name}: only kafka has versions to choose from here")
    if version not in kafka_versions():
        raise UnknownNameError(f"{name}: the sums of its jars are not known; what there is: {', '.join(kafka_versions())}")
    if runtime != "process":
        raise UnknownNameError(f"{name} runs in runtime process only; in {runtime} it is the image's (LOSTACK_IMAGE_KAFKA)")


def known(name: str, names: Iterable[str], what: str) -> str:
    """Return ``name`` if it is one of ``names``.

    >>> known("at-last-once", ["at-least-once", "at-most-once"], "semantic")
    Traceback (most recent call last):
    harness.registry.UnknownNameError: no semantic is called at-last-once; did you mean at-least-once or at-most-once?
    """
    names = list(names)
    if name in names:
        return name
    raise UnknownNameError(f"no {what} is called {name}; {suggestion(name, names)}")


def suggestion(name: str, names: Iterable[str]) -> str:
    """Say what was probably meant, or what there is."""
    names = list(names)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    if near:
        return f"did you mean {' or '.join(near)}?"
    return f"there are: {', '.join(names[:12])}{', ...' if len(names) > 12 else ''}"  # noqa: PLR2004 - a line's worth
