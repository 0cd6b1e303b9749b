"""Selects cells by the options of a command line: scenarios, semantics, clients, seeds."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness import registry
from harness.model.cell import DEFAULT_RECORDS, LEAST_RECORDS, MOST_RECORDS, Cell, expand
from harness.model.failures import UsageError
from harness.model.scenario import Suite
from harness.model.semantics import Semantic
from harness.saved import NotRun

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from harness.interfaces import Launcher
    from harness.model.scenario import Scenario

MOST_SEEDS = 1000


class SelectionError(UsageError):
    """The options select no cell, or a number is outside its limits; the message is one line that
    says what to do.
    """


@dataclass(frozen=True)
class Selection:
    """The cells to run, and those that do not apply, with their reasons."""

    cells: tuple[Cell, ...]
    not_applicable: tuple[NotRun, ...]
    seeds: tuple[int, ...]
    records: int

    def systems(self) -> tuple[Launcher, ...]:
        """Return the systems of the cells, in their order."""
        return systems_of(self.cells)


def systems_of(cells: Iterable[Cell]) -> tuple[Launcher, ...]:
    """Return the systems of cells, in their order."""
    return tuple(
        registry.system(*each)
        for each in dict.fromkeys((cell.system, cell.runtime) for cell in cells)
    )


def select(
    scenarios: Sequence[Scenario],
    *,
    only: Sequence[str] = (),
    semantics: Sequence[str] = (),
    seeds: Sequence[int] = (1,),
    records: int = DEFAULT_RECORDS,
    system: str | None = None,
    clients: Sequence[str] = (),
    runtime: str = "process",
    suite: str = Suite.NIGHT,
) -> Selection:
    """Expand scenarios into cells of ``system``, or, if that is ``None``, of each system that has
    pipelines of its own.

    Keep the cells whose id matches one of ``only`` (a glob, or a part of the id); if ``only`` is
    empty, those of ``suite``.

    Raises:
        SelectionError: no cell fits, or none applies.
        UnknownNameError: a system, client or suite is unknown.
    """
    chosen = choose(
        scenarios,
        only=only,
        semantics=semantics,
        seeds=seeds,
        records=records,
        system=system,
        clients=clients,
        runtime=runtime,
        suite=suite,
    )
    run = tuple(cell for cell in chosen if registry.inapplicable(cell) is None)
    rest = tuple(not_run(cell) for cell in chosen if registry.inapplicable(cell) is not None)
    if not run:
        raise SelectionError(f"no cell to run: {rest[0].id} does not apply: {rest[0].because}")
    return Selection(run, rest, tuple(seeds), records)


def choose(
    scenarios: Sequence[Scenario],
    *,
    only: Sequence[str] = (),
    semantics: Sequence[str] = (),
    seeds: Sequence[int] = (1,),
    records: int = DEFAULT_RECORDS,
    system: str | None = None,
    clients: Sequence[str] = (),
    runtime: str = "process",
    suite: str = Suite.NIGHT,
) -> tuple[Cell, ...]:
    """Return the selected cells, at least one, those that do not apply included.

    Raises:
        SelectionError: no cell is left, or a number is outside its limits.
        UnknownNameError: a system, client or suite is unknown.
    """
    check_numbers(records, seeds)
    named = dict.fromkeys(semantics)
    wanted = [Semantic(registry.known(name, list(Semantic), "semantic")) for name in named] or list(
        Semantic
    )
    most = Suite(registry.known(suite, list(Suite), "suite"))
    everything = [
        cell
        for name in registry.systems(runtime, system)
        for client in registry.clients_of(name, clients)
        for cell in expand(
            [one for one in scenarios if registry.runs(name, one) and (only or most.has(one))],
            semantics=wanted,
            seeds=seeds,
            records=records,
            system=name,
            client=client,
            runtime=runtime,
        )
    ]
    chosen = tuple(
        cell
        for cell in everything
        if not only or any(matches(cell.id, pattern) for pattern in only)
    )
    if not everything:
        raise SelectionError(
            "no cell is selected: "
            f"{_nothing(scenarios, registry.systems(runtime, system), clients, most)}"
        )
    for pattern in only:
        if not any(matches(cell.id, pattern) for cell in everything):
            near = registry.suggestion(
                pattern, dict.fromkeys(cell.scenario.id for cell in everything)
            )
            raise SelectionError(f"no cell matches {pattern!r}; {near} (lostack list shows all)")
    if not chosen:
        raise SelectionError("no cell is selected: no scenario has these semantics")
    return chosen


def _nothing(
    scenarios: Sequence[Scenario], systems: Sequence[str], clients: Sequence[str], most: Suite
) -> str:
    """Say why a product of scenarios is empty."""
    if not any(registry.clients_of(system, clients) for system in systems):
        return f"{' or '.join(systems)} has no client {' or '.join(clients)}"
    theirs = [one for one in scenarios for system in systems if registry.runs(system, one)]
    if theirs and not any(most.has(one) for one in theirs):
        suites = list(Suite)
        least = min((one.suite for one in theirs), key=suites.index)
        return (
            f"{' and '.join(systems)} has {len(theirs)} scenarios, none of them in the suite "
            f"{most}: use --suite {least}"
        )
    return "no scenario has these semantics"


def matches(cell_id: str, pattern: str) -> bool:
    """Say whether a pattern selects a cell: by its whole id, a glob of it or of its end from any
    ``/`` on, or whole words of it.

    >>> cell = "kafka/kafka-python/plain/ack-lost/at-least-once/process/s1"
    >>> patterns = ("ack-lost", "ack-lost/at-least-once", "*/ack-*/*", "plain/*", "ack", "lain/*")
    >>> [matches(cell, pattern) for pattern in patterns]
    [True, True, True, True, False, False]
    """
    if any(fnmatch.fnmatchcase(cell_id, glob) for glob in (pattern, f"*/{pattern}")):
        return True
    return f"/{pattern}/" in f"/{cell_id}/"


def not_run(cell: Cell) -> NotRun:
    """Return the report's row of a cell that does not apply."""
    because = registry.inapplicable(cell)
    if because is None:
        raise TypeError(f"{cell.id} applies")
    return NotRun(
        id=cell.id,
        scenario=cell.scenario.id,
        failure_point=cell.scenario.failure_point,
        pipeline=cell.pipeline,
        system=cell.system,
        client=cell.client,
        runtime=cell.runtime,
        semantic=cell.semantic,
        seed=cell.seed,
        because=because,
    )


def check_numbers(records: int, seeds: Iterable[int]) -> None:
    """Raise :class:`SelectionError` where a number lies outside the limits."""
    if not LEAST_RECORDS <= records <= MOST_RECORDS:
        raise SelectionError(
            f"--records {records}: a cell needs {LEAST_RECORDS} to {MOST_RECORDS} records, "
            "for load before, at and after the fault"
        )
    for seed in seeds:
        if seed < 0:
            raise SelectionError(f"--seed {seed}: a seed is 0 or more")
