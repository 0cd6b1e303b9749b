"""The registries of everything that a user can select by name, and suggestions for a wrong name."""

from __future__ import annotations

import difflib
import importlib
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from packaging.version import InvalidVersion, Version

from harness.abilities import ABILITIES, abilities_for, needs_of
from harness.model.cell import client_name, system_name
from harness.model.scenario import NotApplicable, Scenario
from harness.plugins import load_brought
from harness.systems import GROUP
from harness.systems.listing import declaration, listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from harness.interfaces import Launcher, System
    from harness.model.cell import Cell

RUNTIMES = ("process", "docker")

T = TypeVar("T")


def described(name: str) -> System:
    """Return the declaration of a system (``name``, or ``name==version``).

    Raises:
        UnknownNameError: there is no such system.
    """
    return declaration(known(system_name(name), listed(), "system"))


def declared() -> tuple[System, ...]:
    """Return the declaration of every system."""
    return tuple(described(name) for name in listed())


def default_systems() -> tuple[str, ...]:
    """Return the systems that run if the user names none. Each runs its own pipelines."""
    return tuple(system.name for system in declared() if system.by_default)


def real() -> tuple[str, ...]:
    """Return the names of all systems except the simulated ones."""
    return tuple(system.name for system in declared() if not system.simulated)


def engines() -> tuple[str, ...]:
    """Return the systems that are fetched and run only if the user names them: all but the default
    and simulated ones.
    """
    return tuple(
        system.name for system in declared() if not system.by_default and not system.simulated
    )


def needed_by(name: str) -> tuple[str, ...]:
    """Return the systems that must be started for a system: its transport, if it has one, and
    itself.

    >>> needed_by("spark"), needed_by("kafka==4.2.0")
    (('kafka', 'spark'), ('kafka',))
    """
    system = described(name)
    return (
        (system.name,) if system.transport is None else (*needed_by(system.transport), system.name)
    )


def runs(system: str, scenario: Scenario) -> bool:
    """Return whether a system, with its transport, can run a scenario's pipeline."""
    return described(system).can_run(scenario)


def clients_of(system: str, wanted: Iterable[str] = ()) -> tuple[str, ...]:
    """Return those of the ``wanted`` clients (``name`` or ``name==version``) that a system
    supports; by default its first one.

    >>> clients_of("kafka"), clients_of("spark")
    (('kafka-python',), ('spark-sql-kafka',))
    >>> clients_of("kafka", ["confluent-kafka==2.3.0", "spark-sql-kafka"])
    ('confluent-kafka==2.3.0',)

    Raises:
        UnknownNameError: no system supports one of the clients, its version is malformed, or it
            cannot be fetched.
    """
    wanted = tuple(dict.fromkeys(wanted))
    clients = dict.fromkeys(client for each in declared() for client in each.clients)
    for client in wanted:
        name = known(client_name(client), clients, "client")
        if client != name and not _is_version(client.partition("==")[2]):
            raise UnknownNameError(
                f"{client} names no version: write {name}==2.3.0, or {name} for the one that is "
                "installed"
            )
    own = described(system)
    if not wanted:
        return own.clients[:1]
    mine = tuple(client for client in wanted if client_name(client) in own.clients)
    for client in mine:
        _check_client(own, client, system.partition("==")[2] or None)
    return mine


def _check_client(own: System, client: str, version: str | None) -> None:
    """Raise :class:`UnknownNameError` if the version in a client's name cannot be fetched."""
    name, _, wanted = client.partition("==")
    offered = own.client_versions(name, version) if wanted else None
    if offered is None or any(Version(wanted) == Version(each) for each in offered):
        return
    if not offered:
        raise UnknownNameError(
            f"{client}: {name} has the version that {own.name} has: leave =={wanted} out"
        )
    raise UnknownNameError(
        f"{client}: the checksums of its jars are not known; known versions: {', '.join(offered)}"
    )


def _is_version(text: str) -> bool:
    try:
        Version(text)
    except InvalidVersion:
        return False
    return text == text.strip()


def inapplicable(cell: Cell) -> str | None:
    """Say why a cell does not apply; return ``None`` if it does.

    Theory may exclude it, its system may lack an ability that its fault needs, or this machine may
    lack something.
    """
    if isinstance(cell.expectation, NotApplicable):
        return cell.expectation.because
    if (
        system_name(cell.system) not in listed()
    ):  # a declared pipeline's: its failure points are those that it has
        return None
    system = described(cell.system)
    return _unable(system, cell) or system.lacks(cell)


def _unable(system: System, cell: Cell) -> str | None:
    """Say which ability the fault of a cell needs and the system lacks; return ``None`` if it lacks
    none.
    """
    has = system.abilities(cell)
    missing = next((each for each in abilities_for(cell.scenario) if each not in has), None)
    if missing is None:
        return None
    fault = cell.scenario.fault
    whose = (
        f"the fault {fault.id}"
        if missing in needs_of(fault)
        else f"the scenario {cell.scenario.id}"
    )
    does = ABILITIES.get(missing, f"has {missing.__name__}")
    return f"{whose} needs a system that {does}: here {system.name} is not such a system"


class UnknownNameError(Exception):
    """A name is in no registry. The message suggests similar names."""


def scenarios() -> tuple[Scenario, ...]:
    """Return the scenarios of all systems, in the order of the systems."""
    return declared_in("scenarios", Scenario, _wrong_among)


def declared_in(
    part: str, kind: type[T], check: Callable[[tuple[T, ...]], str | None] = lambda _: None
) -> tuple[T, ...]:
    """Return what systems declare in the tuples that this field of their declarations names, in
    the order of the systems. ``check`` says what is wrong with one system's.

    Raises:
        EnvironmentFailure: a package's tuple cannot be loaded, or something is wrong with it. The
            message is one line.
    """

    def wrong(found: tuple[T, ...]) -> str | None:
        none = [each for each in found if not isinstance(each, kind)]
        if none:
            return f"its {part} hold something else than a {kind.__name__}: {none[0]!r:.40}"
        return check(found)

    named = ((system.name, str(getattr(system, part))) for system in declared())
    return tuple(
        each
        for name, where in named
        if where
        for each in load_brought(GROUP, name, where, tuple, wrong)
    )


def _wrong_among(found: tuple[Scenario, ...]) -> str | None:
    """Say what is wrong with the scenarios that a system declares; return ``None`` if
    nothing is.
    """
    counts = Counter(f"{each.pipeline.name}/{each.id}" for each in found)
    return next(
        (
            f"{count} of its scenarios have the same name {called}"
            for called, count in counts.items()
            if count > 1
        ),
        None,
    )


def baseline() -> Path:
    """Return the path of lostack's own file of known breaks, beside the scenarios."""
    return Path(str(importlib.import_module("harness.scenarios").__file__)).with_name(
        "baseline.toml"
    )


def system(name: str, runtime: str = "process") -> Launcher:
    """Return the launcher of a system (``name``, or ``name==version``) in a runtime.

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
        raise UnknownNameError(
            f"{name} does not run in runtime {runtime}; these do: {', '.join(there)}"
        )
    if name != system_name(name):
        _check_version(name, runtime)
    return (name,)


def _check_version(name: str, runtime: str) -> None:
    """Raise :class:`UnknownNameError` if a system does not offer the version in ``name``."""
    own, version = described(name), name.partition("==")[2]
    if not own.versions():
        having = ", ".join(each.name for each in declared() if each.versions())
        raise UnknownNameError(
            f"{name}: {own.name} has no versions to choose from; these systems have: {having}"
        )
    if version not in own.versions():
        raise UnknownNameError(
            f"{name}: the checksums of its jars are not known; known versions: "
            f"{', '.join(own.versions())}"
        )
    if runtime != "process" and own.image:
        image = f"LOSTACK_IMAGE_{own.image.upper()}"
        raise UnknownNameError(
            f"{name} can be chosen in runtime process only; in {runtime} the image sets the "
            f"version ({image})"
        )


def known(name: str, names: Iterable[str], what: str) -> str:
    """Return ``name`` if it is one of ``names``.

    >>> known("at-last-once", ["at-least-once", "at-most-once"], "semantic")
    Traceback (most recent call last):
    harness.registry.UnknownNameError: no semantic is called at-last-once; did you mean
    at-least-once or at-most-once?

    Raises:
        UnknownNameError: ``name`` is not among them. The message suggests similar names.
    """
    names = list(names)
    if name in names:
        return name
    raise UnknownNameError(f"no {what} is called {name}; {suggestion(name, names)}")


def suggestion(name: str, names: Iterable[str]) -> str:
    """Return a suggestion: the names most similar to ``name`` or, if there are none, the first 12
    of all.
    """
    names = list(names)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    if near:
        return f"did you mean {' or '.join(near)}?"
    return f"there are: {', '.join(names[:12])}{', ...' if len(names) > 12 else ''}"  # noqa: PLR2004 - a line's worth
