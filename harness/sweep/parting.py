"""Where a run with a fault parts from the runs without it, and how often its neighbours broke.

Both are derived from saved histories. The runs of a sweep have one load, so a frame about a record
has the same name in all of them (:mod:`harness.sweep.steps`). Those of a check have loads of their
own: a record has the name of the one in its place in the run with the fault. Two kinds of frames
tell runs apart: one that no run without the fault has, and one that all of them have and the run
with the fault lacks. Frames that only some runs without the fault have tell nothing, nor do frames
before the fault.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from harness.model.events import FaultPhase
from harness.model.history import HISTORY, HistoryError, read_history
from harness.model.struck import first_at
from harness.sweep.acts import severity, words
from harness.sweep.outcomes import hit_of
from harness.sweep.phases import name_of
from harness.sweep.steps import Step, trace
from harness.wire.rules import Direction

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from harness.model.cell import Cell
    from harness.model.history import History
    from harness.saved import CellResult
    from harness.sweep.outcomes import Finding, Outcome
    from harness.sweep.steps import NamedFrame, Trace


FEWEST: Final = 2
"""How many runs without the fault are needed at least, to compare one with them."""


class Difference(StrEnum):
    """How a frame tells the run with the fault from the runs without it."""

    ADDED = "added"
    """No run without the fault has it."""
    MISSING = "missing"
    """Every run without the fault has it."""
    REFUSED = "refused"
    """A refusal that no run without the fault has."""


@dataclass(frozen=True, slots=True)
class Parting:
    """The first frame of a role that tells the runs apart.

    ``frame``: its number (from 1) among the frames of the run with the fault; of a missing one the
    number of the frame behind which it is missing.
    """

    step: Step
    how: Difference
    frame: int
    error: str = ""

    @property
    def sentence(self) -> str:
        """Return it in words, without a full stop."""
        frame = words(self.step)
        if self.how is Difference.REFUSED:
            return f"at frame {self.frame} {frame} is refused by {self.error}, as in none of them"
        if self.how is Difference.MISSING:
            return f"{_behind(self.frame)} there is not {frame}, as in each of them"
        return f"at frame {self.frame} there is {frame}, as in none of them"

    def plain(self) -> dict[str, object]:
        """Return it as plain data."""
        return {
            "role": self.step.role,
            "step": str(self.step),
            "how": str(self.how),
            "frame": self.frame,
            "error": self.error or None,
            "words": self.sentence,
        }


def _behind(frame: int) -> str:
    return f"behind frame {frame}" if frame else "before the first frame"


@dataclass(frozen=True, slots=True)
class RunDivergence:
    """How a run with a fault compares with the nearest run without it.

    ``nearest``: that run's name: the one that is left the latest, and of equals the first.
    ``at_frame``: whether the fault struck at a frame, and not between two, as at a failpoint or a
    durable write. ``struck``: that frame's number (from 1), or that of the last frame before the
    fault; 0: none came before it. ``partings``: the first of each role, the earliest first; empty
    if nothing tells the runs apart.
    """

    nearest: str
    frames: int
    struck: int
    at_frame: bool
    partings: tuple[Parting, ...]

    def lines(self) -> Iterator[str]:
        """Yield it in words, a line for each fact."""
        where = f"at frame {self.struck}" if self.at_frame else _behind(self.struck)
        yield (
            f"the fault struck {where} of {self.frames}; "
            f"the nearest run without it is {self.nearest}"
        )
        if not self.partings:
            yield "no frame about a record tells this run from those without the fault"
        for each in self.partings:
            yield (f"the {each.step.role} parts from the runs without it: {each.sentence}")

    def plain(self) -> dict[str, object]:
        """Return it as plain data."""
        return {
            "nearest": self.nearest,
            "frames": self.frames,
            "struck": self.struck,
            "at_frame": self.at_frame,
            "partings": [each.plain() for each in self.partings],
        }


@dataclass(frozen=True, slots=True)
class Without:
    """A run without the fault. ``key``: its cell's; ``called``: what its records are called in the
    run with the fault, where that has other names for them.
    """

    history: History
    key: str
    called: Mapping[str, str] = field(default_factory=dict)

    def trace(self) -> Trace:
        """Return its frames, by the names that the run with the fault has for their records."""
        return trace(self.history, self.key, self.called)


@dataclass(frozen=True, slots=True)
class Rate:
    """How many of some proved points broke the promise, or were stuck."""

    broke: int
    ran: int

    def __str__(self) -> str:
        """Return it as text.

        >>> str(Rate(1, 3))
        '1 of 3'
        """
        return f"{self.broke} of {self.ran}"


@dataclass(frozen=True, slots=True)
class NeighbourOutcomes:
    """How the proved points around a finding's first point came out.

    ``earlier``, ``later``: the same act at the same kind of frame, before it and behind it in the
    run. ``weaker``: acts that do less, at the same kind of frame; of a point with two faults, the
    first fault alone.
    """

    earlier: Rate
    later: Rate
    weaker: Rate

    @property
    def sentence(self) -> str:
        """Return it in words, without a full stop."""
        return (
            f"neighbours that broke or stood still: {self.earlier} earlier, {self.later} later, "
            f"{self.weaker} weaker"
        )

    def plain(self) -> dict[str, object]:
        """Return it as plain data."""
        return {
            name: {"broke": rate.broke, "ran": rate.ran}
            for name, rate in (
                ("earlier", self.earlier),
                ("later", self.later),
                ("weaker", self.weaker),
            )
        }


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """What a finding's first point is compared with. ``parted``: null where a history that it needs
    cannot be read.
    """

    parted: RunDivergence | None
    neighbours: NeighbourOutcomes

    def lines(self) -> Iterator[str]:
        """Yield it in words, a line for each fact."""
        if self.parted is not None:
            yield from self.parted.lines()
        yield self.neighbours.sentence

    def plain(self) -> dict[str, object]:
        """Return it as plain data."""
        return {
            "parted": None if self.parted is None else self.parted.plain(),
            "neighbours": self.neighbours.plain(),
        }


def counterfactual(
    finding: Finding, outcomes: Iterable[Outcome], cell: Cell, dry: Iterable[CellResult]
) -> Counterfactual:
    """Compare a finding's first point, of which ``cell`` is the cell, with the ``dry`` runs, and
    with its neighbours among all ``outcomes``.
    """
    compared = parted_from(
        finding.first.directory, cell, {each.plan.scenario: (each, cell) for each in dry}
    )
    return Counterfactual(compared, neighbours(finding, outcomes))


def parted_from(
    directory: Path, cell: Cell, dry: Mapping[str, tuple[CellResult, Cell]]
) -> RunDivergence | None:
    """Compare a saved run of ``cell`` with saved runs without its fault, by name, each with the
    cell whose load it had.

    A run of another number of records is left out. Returns ``None`` if fewer than two are there,
    if a history cannot be read, or if the fault did not strike: of one run nobody knows which
    frames it has by chance.
    """
    records = cell.load().records
    try:
        faulty = read_history(directory / HISTORY)
        runs = {
            name: Without(
                read_history(result.directory / HISTORY, result.plan.id),
                result.plan.key,
                {theirs.id: ours.id for theirs, ours in zip(its, records, strict=True)},
            )
            for name, (result, its_cell) in dry.items()
            if len(its := its_cell.load().records) == len(records)
        }
    except HistoryError:
        return None
    damaged = faulty.damage or any(run.history.damage for run in runs.values())
    if damaged or len(runs) < FEWEST:
        return None
    return parted(faulty, cell.key, runs, {record.id: record.key for record in records})


def parted(
    faulty: History,
    key: str,
    dry: Mapping[str, Without],
    keys: Mapping[str, str],
) -> RunDivergence | None:
    """Compare a run with a fault with runs without it of as many records.

    ``key``: its cell's; ``dry``: the runs without it by name; ``keys``: the key of each record.
    Returns ``None`` if there is no run without the fault, or if the fault did not strike.
    """
    run = trace(faulty, key)
    found_at = _struck_at(faulty, run)
    traces = {name: each.trace() for name, each in dry.items()}
    if found_at is None or not traces:
        return None
    struck, at_frame = found_at
    usual = frozenset[Step]().union(*(each.names for each in traces.values()))
    stable = frozenset.intersection(*(each.names for each in traces.values()))
    refused = {kind for each in traces.values() for kind, _ in _refusals(each)}
    added = list(_added(run, struck if at_frame else struck + 1, usual, refused))
    found = {
        name: _first_of_each_role([*_missing(run, struck, each, stable, keys), *added])
        for name, each in traces.items()
    }
    nearest = max(found, key=lambda name: _alike(found[name], len(run.frames)))
    return RunDivergence(nearest, len(run.frames), struck, at_frame, found[nearest])


def _alike(partings: Sequence[Parting], frames: int) -> int:
    return partings[0].frame if partings else frames + 1


def _first_of_each_role(partings: Iterable[Parting]) -> tuple[Parting, ...]:
    """Return the first parting of each role, the earliest first."""
    first: dict[str, Parting] = {}
    for each in sorted(partings, key=lambda parting: parting.frame):
        first.setdefault(each.step.role, each)
    return tuple(first.values())


def _struck_at(history: History, run: Trace) -> tuple[int, bool] | None:
    """Return the number of the frame at which the fault struck, and true; if it struck at none, of
    the last frame before it, and false.
    """
    hit = hit_of(history)
    if hit is not None:
        mine = name_of(hit)
        at = [number for number, frame in _numbered(run) if name_of(frame.line) == mine]
        if at:
            return at[0], True
    since = hit.t if hit is not None else first_at(history, FaultPhase.FIRED)
    if since is None:
        return None
    before = (number for number, frame in _numbered(run) if frame.line.t <= since)
    return max(before, default=0), False


def _numbered(run: Trace) -> enumerate[NamedFrame]:
    return enumerate(run.frames, 1)


def _added(
    run: Trace, since: int, usual: frozenset[Step], refused: set[tuple[str, str, str]]
) -> Iterator[Parting]:
    """Yield the frames from the fault on that no run without it has. ``since``: the number of the
    first.
    """
    for number, frame in _numbered(run):
        if number >= since and frame.names and not usual.intersection(frame.names):
            yield Parting(frame.names[0], Difference.ADDED, number)
    for kind, (number, step) in _refusals(run):
        if number >= since and kind not in refused:
            yield Parting(step, Difference.REFUSED, number, kind[-1])


def _refusals(run: Trace) -> Iterator[tuple[tuple[str, str, str], tuple[int, Step]]]:
    """Yield the refused answers about records: role, API and error, and the number and step of
    each.
    """
    passed: Counter[tuple[tuple[str, str, Direction], str]] = Counter()
    for number, frame in _numbered(run):
        for record in frame.line.records or ():
            if frame.line.dir == Direction.RESPONSE and frame.line.error:
                role, api, way = frame.kind
                step = Step(
                    role, api, way, passed[frame.kind, record] + 1, record, protocol=frame.protocol
                )
                yield (role, api, str(frame.line.error)), (number, step)
                break
        passed.update((frame.kind, name.record) for name in frame.names if name.record)


def _missing(
    run: Trace, struck: int, dry: Trace, stable: frozenset[Step], keys: Mapping[str, str]
) -> Iterator[Parting]:
    """Yield the frames that every run without the fault has and this one lacks.

    Each is missing behind the latest frame about its record that comes before it there; if there
    is none, behind the latest of its role and API. What this run had left out before the fault
    struck is no effect of the fault: a frame of the same kind about a later record of the key had
    come by then.
    """
    numbers = {name: number for number, frame in _numbered(run) for name in frame.names}
    steps = [
        next((name for name in names if name in numbers), names[0])
        for frame in dry.frames
        if (names := [name for name in frame.names if name in stable])
    ]
    over: set[tuple[tuple[str, str, str], str | None]] = set()
    passed_by: set[Step] = set()
    for step in reversed(steps):
        kind = step.kind, keys.get(step.at)
        if numbers.get(step, struck) < struck:
            over.add(kind)
        elif step not in numbers and kind in over and kind[1] is not None:
            passed_by.add(step)
    last: dict[object, int] = {}
    for step in steps:
        near = step.at, (step.role, step.api)
        if step in numbers:
            last |= {each: max(last.get(each, 0), numbers[step]) for each in near}
        elif step not in passed_by:
            before = next((last[each] for each in near if each in last), 0)
            yield Parting(step, Difference.MISSING, max(struck, before))


def neighbours(finding: Finding, outcomes: Iterable[Outcome]) -> NeighbourOutcomes:
    """Return how the proved points around a finding's first point came out."""
    first = finding.first
    ran = [one for one in outcomes if one.proved and one.point.id != first.point.id]
    alike = [one for one in ran if _kind(one) == _kind(first)]
    return NeighbourOutcomes(
        _rate(one for one in alike if one.point.place < first.point.place),
        _rate(one for one in alike if one.point.place > first.point.place),
        _rate(one for one in ran if _weaker(one, first)),
    )


def _rate(outcomes: Iterable[Outcome]) -> Rate:
    broke = [one.signature.broken for one in outcomes]
    return Rate(sum(broke), len(broke))


def _kind(one: Outcome) -> tuple[str, str, str, str]:
    where = one.where
    return where.role, where.api, where.direction, where.act


def _weaker(one: Outcome, than: Outcome) -> bool:
    if one.point.second is not None:
        return False
    if than.point.second is not None:
        return (one.point.step, one.point.act) == (than.point.step, than.point.act)
    return _kind(one)[:3] == _kind(than)[:3] and severity(one.point.act) < severity(than.point.act)
