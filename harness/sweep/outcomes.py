"""What came of the points that were run, and what follows: deviations, splits, findings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.faults.twice import BEHIND
from harness.judge.verdict import Kind
from harness.model import events as kinds
from harness.model.history import HISTORY, HistoryError, read_history
from harness.model.scenario import Role
from harness.model.states import State
from harness.sweep.classes import Why, class_of, deviations, splits
from harness.sweep.phases import name_of, phases
from harness.sweep.signature import Signature, signature_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from harness.model.history import Event, History
    from harness.saved import CellResult
    from harness.sweep.classes import Class
    from harness.sweep.points import Point


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one point. ``where``: its class by the phase in which it was hit, which may be another than was planned."""

    point: Point
    why: Why
    planned: Class
    where: Class
    signature: Signature
    reason: str
    directory: Path
    seconds: float
    ended: bool = False
    """The program at the source has ended by itself, by an error, and nobody starts it again: no load follows such a fault."""

    @property
    def proved(self) -> bool:
        """Whether its fault has a proof: a point without one was not run.

        Where the source's program has ended by itself, whether a record that was under way still moves is a matter of time: what
        is left in the source proves as little as if none had.
        """
        left = self.ended and self.signature.verdict == Kind.STUCK and State.LEFT_IN_SOURCE in self.signature.states
        return self.signature.verdict != Kind.VOID and not left


@dataclass(frozen=True, slots=True)
class Finding:
    """What is broken alike: one finding, however many points show it. ``points`` in the order of the run."""

    signature: Signature
    points: tuple[Outcome, ...]

    @property
    def first(self) -> Outcome:
        """The point that it is told by: the earliest one."""
        return self.points[0]


def outcome_of(result: CellResult, point: Point, why: Why, planned: Class, usual: frozenset[str]) -> Outcome:
    """Return what came of a point, by its saved cell."""
    try:
        history: History | None = read_history(result.directory / HISTORY, result.plan.id)
    except HistoryError:
        history = None
    phase = None if history is None else _hit_in(history, point)
    signature = Signature(str(result.verdict.kind)) if history is None else signature_of(result, history, usual)
    where = planned if phase is None else class_of(point, phase)
    ended = history is not None and source_ended(history)
    return Outcome(point, why, planned, where, signature, result.verdict.reason, result.directory, result.seconds, ended)


def hit_of(history: History, rule: str = "fault") -> Event | None:
    """Return the line of the hit of a fault's own rule."""
    return next((e for e in history.of(kinds.RULE) if e.get("phase") == "hit" and e["rule"] == rule), None)


def _hit_in(history: History, point: Point) -> str | None:
    """Return in which phase the fault was hit: of two, the second one."""
    hit = hit_of(history, "fault" if point.second is None else f"{BEHIND}fault")
    return None if hit is None else phases(history).get(name_of(hit))


def source_ended(history: History) -> bool:
    """Say whether the program that takes from the source has ended by itself, by an error, behind the fault.

    That is the producer; in a pipeline that has none, any program. A consumer that ends leaves nothing in the source.
    """
    since = next((e["t"] for e in history.of(kinds.FAULT) if e.get("phase") == "fired"), None)
    nodes = [(e, e["role"]) for e in history.of(kinds.NODE)]
    at_source = {Role.PRODUCER} & {role for _, role in nodes} or {role for _, role in nodes}
    ends = (e for e, role in nodes if role in at_source and e.get("phase") == "exited" and e.get("status") and not e.get("asked"))
    return since is not None and any(e["t"] > since for e in ends)


@dataclass(frozen=True)
class Outcomes:
    """All outcomes of a sweep. ``classes``: those of all points, by the phases of the dry run."""

    classes: Mapping[Class, Sequence[Point]]
    all: tuple[Outcome, ...]

    @property
    def unproved(self) -> tuple[Outcome, ...]:
        """Points whose fault has no proof."""
        return tuple(one for one in self.all if not one.proved)

    @property
    def sampled(self) -> tuple[Outcome, ...]:
        """Points that the classes had pruned."""
        return tuple(one for one in self.all if one.why is Why.SAMPLE and one.proved)

    @property
    def chosen(self) -> tuple[Outcome, ...]:
        """Points that stand for a class, or for what a class was split into."""
        return tuple(one for one in self.all if one.why is not Why.SAMPLE and one.proved)

    def inside(self) -> dict[Class, tuple[Point, ...]]:
        """Return the points of each class where they were hit; those that were not run, where they are planned."""
        moved = {one.point.id: one.where for one in self.all if one.proved}
        found: dict[Class, list[Point]] = {each: [] for each in self.classes}
        for each, points in self.classes.items():
            for point in points:
                found.setdefault(moved.get(point.id, each), []).append(point)
        return {each: tuple(sorted(points, key=lambda point: point.place)) for each, points in found.items() if points}

    def by_id(self) -> dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]]:
        """Return the coarse outcome of each point that counts."""
        return {one.point.id: one.signature.outcome for one in self.all if one.proved}

    def deviations(self) -> dict[Class, tuple[Point, ...]]:
        """Return, by class, the points that came out otherwise than its first one."""
        return deviations(self.inside(), self.by_id())

    def splits(self) -> Iterator[tuple[Point, Class]]:
        """Yield the points to be run next, each with its class: between two that came out differently, the middle one."""
        ran, outcome = {one.point.id for one in self.all}, self.by_id()
        for each, points in self.inside().items():
            yield from ((point, each) for point in splits(points, outcome) if point.id not in ran)

    def findings(self) -> tuple[Finding, ...]:
        """Return what is broken, or stuck: those with one signature together, the one with most points first."""
        found: dict[Signature, list[Outcome]] = {}
        for one in sorted(self.all, key=lambda one: one.point.place):
            if one.signature.broken and one.proved:
                found.setdefault(one.signature, []).append(one)
        made = (Finding(signature, tuple(points)) for signature, points in found.items())
        return tuple(sorted(made, key=lambda finding: -len(finding.points)))

    def unseen(self) -> tuple[Class, ...]:
        """Return the classes of which no point has been run with a proof, but for those that end their program."""
        told = [one for one in self.all if one.proved or one.ended]
        ran = {one.where for one in told} | {one.planned for one in told}
        return tuple(each for each in self.classes if each not in ran)


def merged(one: Outcomes, other: Outcomes) -> Outcomes:
    """Return the outcomes of two parts of a sweep as one. A point that both have run counts once, as the first one saw it."""
    classes = {
        each: tuple({point.id: point for of in (one, other) for point in of.classes.get(each, ())}.values())
        for each in {**one.classes, **other.classes}
    }  # fmt: skip
    ran = {outcome.point.id for outcome in one.all}
    return Outcomes(classes, one.all + tuple(outcome for outcome in other.all if outcome.point.id not in ran))


def line_of(frames: int, outcomes: Outcomes) -> str:
    """Return the one line that says how much was run, and of how much."""
    points = sum(len(inside) for inside in outcomes.classes.values())
    deviating = sum(len(inside) for inside in outcomes.deviations().values())
    return (
        f"{frames} frames, {points} points, {len(outcomes.classes)} classes, {len(outcomes.chosen)} run, "
        f"{len(outcomes.sampled)} sampled, {deviating} deviations, {len(outcomes.unproved)} without proof"
    )
