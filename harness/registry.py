"""The explicit registries: what can be selected by name, and suggestions for a wrong name."""

from __future__ import annotations

import difflib
import importlib
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from packaging.version import InvalidVersion, Version

from harness.abilities import ABILITIES, needs_of
from harness.model.cell import client_name, system_name
from harness.model.scenario import NotApplicable, Scenario
from harness.plugins import load_brought
from harness.systems import GROUP
from harness.systems.listing import declaration, listed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.interfaces import Launcher, System
    from harness.model.cell import Cell

RUNTIMES = ("process", "docker")

T = TypeVar("T")


def described(name: str) -> System:
    """Return what a system (``name``, or ``name==version``) declares of itself.

    Raises:
        UnknownNameError: there is no such system.
    """
    return declaration(known(system_name(name), listed(), "system"))


def declared() -> tuple[System, ...]:
    """Return every system."""
    return tuple(described(name) for name in listed())


def default_systems() -> tuple[str, ...]:
    """Return the systems that run if none is named. Each runs its own pipelines."""
    return tuple(system.name for system in declared() if system.by_default)


def real() -> tuple[str, ...]:
    """Return every real system: all but the simulated ones."""
    return tuple(system.name for system in declared() if not system.simulated)


def engines() -> tuple[str, ...]:
    """Return the systems that are fetched and run only if they are named: all but the default and simulated ones."""
    return tuple(system.name for system in declared() if not system.by_default and not system.simulated)


def needed_by(name: str) -> tuple[str, ...]:
    """Return the systems that one needs to run: its transport and itself.

    >>> needed_by("spark"), needed_by("kafka==4.2.0")
    (('kafka', 'spark'), ('kafka',))
    """
    system = described(name)
    return (system.name,) if system.transport is None else (*needed_by(system.transport), system.name)


def runs(system: str, scenario: Scenario) -> bool:
    """Say whether a system can run a scenario's pipeline, on its transport."""
    return described(system).runs(scenario)


def clients_of(system: str, wanted: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the clients, of those ``wanted`` (``name`` or ``name==version``), that a system talks through.

    >>> clients_of("kafka"), clients_of("spark"), clients_of("kafka", ["confluent-kafka==2.3.0", "spark-sql-kafka"])
    (('kafka-python',), ('spark-sql-kafka',), ('confluent-kafka==2.3.0',))

    Raises:
        UnknownNameError: no system talks through one of them.
    """
    wanted, clients = tuple(dict.fromkeys(wanted)), dict.fromkeys(client for each in declared() for client in each.clients)
    for client in wanted:
        name = known(client_name(client), clients, "client")
        if client != name and not _is_version(client.partition("==")[2]):
            raise UnknownNameError(f"{client} names no version: write {name}==2.3.0, or {name} for the one that is installed")
    mine = described(system).clients
    return tuple(client for client in wanted if client_name(client) in mine) if wanted else mine[:1]


def _is_version(text: str) -> bool:
    try:
        Version(text)
    except InvalidVersion:
        return False
    return text == text.strip()


def inapplicable(cell: Cell) -> str | None:
    """Say why a cell does not apply; ``None`` where it does.

    By theory, because its system cannot do what its fault asks for, or because this machine has not what it needs.
    """
    if isinstance(cell.expectation, NotApplicable):
        return cell.expectation.because
    if system_name(cell.system) not in listed():  # a declared pipeline's: its failure points are those that it has
        return None
    system = described(cell.system)
    return _unable(system, cell) or system.lacks(cell)


def _unable(system: System, cell: Cell) -> str | None:
    """Say which ability a system lacks that the fault of a cell needs."""
    missing = next((each for each in needs_of(cell.scenario.fault) if each not in system.abilities(cell)), None)
    if missing is None:
        return None
    does = ABILITIES.get(missing, f"has {missing.__name__}")
    return f"the fault {cell.scenario.fault.id} needs a system that {does}: {system.name} is none, here"


class UnknownNameError(Exception):
    """A name that is in no registry; the message suggests what was probably meant."""


def scenarios() -> tuple[Scenario, ...]:
    """Return every scenario, by the systems that declare them."""
    named = ((system.name, system.scenarios) for system in declared() if system.scenarios)
    return tuple(each for name, where in named for each in load_brought(GROUP, name, where, tuple, _wrong_among))


def _wrong_among(found: tuple[object, ...]) -> str | None:
    """Say what is wrong with the scenarios that a system names, or ``None``."""
    known = [each for each in found if isinstance(each, Scenario)]
    if len(known) < len(found):
        none = next(each for each in found if not isinstance(each, Scenario))
        return f"of its scenarios one is none: {none!r:.40}"
    counts = Counter(f"{each.pipeline.name}/{each.id}" for each in known)
    return next((f"of its scenarios {count} are called {called}" for called, count in counts.items() if count > 1), None)


def baseline() -> Path:
    """Return the file of known breaks that stands beside the scenarios."""
    return Path(str(importlib.import_module("harness.scenarios").__file__)).with_name("baseline.toml")


def system(name: str, runtime: str = "process") -> Launcher:
    """Return a system by its name (``name``, or ``name==version``), in a runtime.

    Raises:
        UnknownNameError: there is no such system.
    """
    return described(name).launch(runtime, name.partition("==")[2] or None)


def systems(runtime: str, name: str | None = None) -> tuple[str, ...]:
    """Return the systems selected in a runtime: the named one, or the default ones that run there.

    Raises:
        UnknownNameError: the named system does not run in this runtime.

    >>> systems("process", "kafka==4.2.0"), systems("docker")
    (('kafka==4.2.0',), ('kafka', 'spark'))
    """
    known(runtime, RUNTIMES, "runtime")
    there = {each.name: each for each in declared() if runtime in each.runtimes}
    if name is None:
        return tuple(each.name for each in there.values() if each.by_default)
    if described(name).name not in there:
        raise UnknownNameError(f"{name} does not run in runtime {runtime}; what does: {', '.join(there)}")
    if name != system_name(name):
        _check_version(name, runtime)
    return (name,)


def _check_version(name: str, runtime: str) -> None:
    """Refuse a version of a system that cannot be had. Raises :class:`UnknownNameError`."""
    own, version = described(name), name.partition("==")[2]
    if not own.versions():
        having = ", ".join(each.name for each in declared() if each.versions())
        raise UnknownNameError(f"{name}: {own.name} has no versions to choose from here; what has: {having}")
    if version not in own.versions():
        raise UnknownNameError(f"{name}: the sums of its jars are not known; what there is: {', '.join(own.versions())}")
    if runtime != "process" and own.image:
        image = f"LOSTACK_IMAGE_{own.image.upper()}"
        raise UnknownNameError(f"{name} runs in runtime process only; in {runtime} it is the image's ({image})")


def known(name: str, names: Iterable[str], what: str) -> str:
    """Return ``name`` if it is one of ``names``.

    >>> known("at-last-once", ["at-least-once", "at-most-once"], "semantic")
    Traceback (most recent call last):
    harness.registry.UnknownNameError: no semantic is called at-last-once; did you mean at-least-once or at-most-once?

    Raises:
        UnknownNameError: it is none; the line names the nearest.
    """
    names = list(names)
    if name in names:
        return name
    raise UnknownNameError(f"no {what} is called {name}; {suggestion(name, names)}")


def suggestion(name: str, names: Iterable[str]) -> str:
    """Suggest what was probably meant, or list what there is."""
    names = list(names)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    if near:
        return f"did you mean {' or '.join(near)}?"
    return f"there are: {', '.join(names[:12])}{', ...' if len(names) > 12 else ''}"  # noqa: PLR2004 - a line's worth
