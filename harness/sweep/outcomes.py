"""The outcomes of the points that were run, and what follows from them: deviations, splits,
findings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.judge.verdict import Kind
from harness.model import events as kinds
from harness.model.events import FaultPhase, NodePhase, RulePhase
from harness.model.history import HISTORY, HistoryError, read_history
from harness.model.scenario import Role
from harness.model.semantics import Anomaly, forbids
from harness.model.states import State
from harness.model.struck import first_at
from harness.proofs.second import BEHIND
from harness.sweep.acts import REFUSE
from harness.sweep.classes import RunReason, class_of, deviations, splits
from harness.sweep.found import slug
from harness.sweep.phases import name_of, phases
from harness.sweep.signature import Signature, repeated_requests, signature_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from harness.model.history import History
    from harness.saved import CellResult
    from harness.sweep.classes import Class
    from harness.sweep.points import Point


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one point. ``where``: its class by the phase in which it was hit, which may be
    another than was planned.
    """

    point: Point
    why: RunReason
    planned: Class
    where: Class
    signature: Signature
    reason: str
    directory: Path
    seconds: float
    ended: bool = False
    """Whether the program at the source has ended by itself with an error, and is not started
    again: then no more load comes.
    """
    own: bool = False
    """Whether what the claim forbids happened to the record at which the fault struck, and not only
    to another one.
    """
    again: tuple[str, ...] = ()
    """Which requests about records were made again, with which of them, and how often
    (:func:`harness.sweep.signature.repeated_requests`).
    """
    once_more: bool = False
    """Whether the point is still to be run once more, on a broker of its own."""

    @property
    def proved(self) -> bool:
        """Whether the history proves that the fault struck. A point without a proof does not count
        as run.

        If the source's program has ended by itself, records are left in the source anyway. Then a
        stuck cell proves nothing.
        """
        left = (
            self.ended
            and self.signature.verdict == Kind.STUCK
            and State.LEFT_IN_SOURCE in self.signature.states
        )
        return self.signature.verdict != Kind.VOID and not left


@dataclass(frozen=True, slots=True)
class Finding:
    """Points that are broken in the same way: one finding. ``points`` are in the order of the run.

    ``ordinary``: the errors that programs are also told at kept points of the same acts. The
    signature is without them. ``saved``: the names of the scenario files that the sweep has.
    """

    signature: Signature
    points: tuple[Outcome, ...]
    ordinary: frozenset[str] = frozenset()
    saved: frozenset[str] = frozenset()

    @property
    def first(self) -> Outcome:
        """The point by which reports show the finding, and which is shrunk: the one that is most
        likely to show it again.

        A point that has a scenario file already stays. Else that is one whose own record is
        affected, because another record is affected by chance; then one that kills no broker,
        because what is under way when a broker dies is chance, too; of equals the earliest.
        """
        return min(
            self.points,
            key=lambda one: (
                slug(one.point.id) not in self.saved,
                not one.own,
                one.point.kills_broker,
            ),
        )


def outcome_of(
    result: CellResult, point: Point, why: RunReason, planned: Class, usual: frozenset[str]
) -> Outcome:
    """Return the outcome of a point from its saved cell."""
    try:
        history: History | None = read_history(result.directory / HISTORY, result.plan.id)
    except HistoryError:
        history = None
    phase = None if history is None else _hit_in(history, point)
    signature = (
        Signature(str(result.verdict.kind))
        if history is None
        else signature_of(result, history, usual)
    )
    where = planned if phase is None else class_of(point, phase)
    ended = history is not None and source_ended(history)
    own = history is not None and _is_own(result, point.step.at)
    return Outcome(
        point,
        why,
        planned,
        where,
        signature,
        result.verdict.reason,
        result.directory,
        result.seconds,
        ended,
        own,
        () if history is None else repeated_requests(history, hit_of(history)),
    )


def _is_own(result: CellResult, record: str) -> bool:
    """Say whether a record is among those that the verdict is about."""
    account, plan = result.judgement.account, result.plan
    if result.verdict.kind is Kind.STUCK:
        return any(
            row["record"] == record and row["state"] != State.RECORDED for row in account.rows
        )
    lost = account.lost if plan.dead_letters else account.lost | account.set_aside
    return (forbids(plan.semantic, Anomaly.LOST) and record in lost) or (
        forbids(plan.semantic, Anomaly.DUPLICATED) and record in account.duplicated
    )


def hit_of(history: History, rule: str = "fault") -> kinds.Rule | None:
    """Return the event of the hit of a fault's rule; ``None``: it was not hit."""
    return next(
        (e for e in history.of(kinds.Rule) if e.phase == RulePhase.HIT and e.rule == rule), None
    )


def _hit_in(history: History, point: Point) -> str | None:
    """Return in which phase the fault was hit: of two, the second one."""
    hit = hit_of(history, "fault" if point.second is None else f"{BEHIND}fault")
    return None if hit is None else phases(history).get(name_of(hit))


def source_ended(history: History) -> bool:
    """Say whether the program that takes records from the source ended by itself, with an error,
    after the fault.

    That program is the producer; in a pipeline without a producer, it is any program. A supervised
    program does not count: if it ends again and again, that is a finding.
    """
    since = first_at(history, FaultPhase.FIRED)
    nodes = list(history.of(kinds.Node))
    roles = {e.role for e in nodes}
    at_source = {str(Role.PRODUCER)} & roles or roles
    supervised = {e.node for e in nodes if e.supervised}
    ends = (
        e
        for e in nodes
        if e.role in at_source
        and e.phase == NodePhase.EXITED
        and e.status
        and not e.asked
        and e.node not in supervised
    )
    return since is not None and any(e.t > since for e in ends)


@dataclass(frozen=True)
class Outcomes:
    """All outcomes of a sweep. ``classes``: the classes of all points, by their phases in the dry
    run.
    """

    classes: Mapping[Class, Sequence[Point]]
    all: tuple[Outcome, ...]
    saved: frozenset[str] = frozenset()
    """The names of the scenario files that the sweep has, without their suffix."""

    @property
    def done(self) -> frozenset[str]:
        """The ids of the points that are not to be run again."""
        return frozenset(one.point.id for one in self.all if not one.once_more)

    @property
    def unproved(self) -> tuple[Outcome, ...]:
        """Points without a proof that their fault struck."""
        return tuple(one for one in self.all if not one.proved)

    @property
    def sampled(self) -> tuple[Outcome, ...]:
        """Points that were run only as a sample, to test the classes."""
        return tuple(one for one in self.all if one.why is RunReason.SAMPLE and one.proved)

    @property
    def chosen(self) -> tuple[Outcome, ...]:
        """Points that were run to represent a class, or a part of a class after a split."""
        return tuple(one for one in self.all if one.why is not RunReason.SAMPLE and one.proved)

    def inside(self) -> dict[Class, tuple[Point, ...]]:
        """Return the points of each class. A point is in the class in which it was hit; if not run,
        in its planned one.
        """
        moved = {one.point.id: one.where for one in self.all if one.proved}
        found: dict[Class, list[Point]] = {each: [] for each in self.classes}
        for each, points in self.classes.items():
            for point in points:
                found.setdefault(moved.get(point.id, each), []).append(point)
        return {
            each: tuple(sorted(points, key=lambda point: point.place))
            for each, points in found.items()
            if points
        }

    def by_id(self) -> dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]]:
        """Return the coarse outcome of each point with a proof, by the point's id."""
        return {one.point.id: one.signature.outcome for one in self.all if one.proved}

    def deviations(self) -> dict[Class, tuple[Point, ...]]:
        """Return, by class, the points whose outcome differs from that of the class's
        first point.
        """
        return deviations(self.inside(), self.by_id())

    def splits(self) -> Iterator[tuple[Point, Class]]:
        """Yield the points to run next, each with its class: the middle one between two points with
        different outcomes.
        """
        done, outcome = self.done, self.by_id()
        for each, points in self.inside().items():
            yield from ((point, each) for point in splits(points, outcome) if point.id not in done)

    def findings(self) -> tuple[Finding, ...]:
        """Return the findings: broken or stuck points, grouped by signature, the largest group
        first.

        An error that programs are also told at kept points of the same act does not tell findings
        apart: whether a program hears of it depends on timing. A refusal is never one finding with
        another act: the program was answered, and decided itself.
        """
        ordinary: dict[str, set[str]] = {}
        for one in self.all:
            if one.signature.verdict == Kind.KEPT:
                ordinary.setdefault(one.where.act, set()).update(one.signature.errors)
        found: dict[tuple[Signature, bool], list[Outcome]] = {}
        for one in sorted(self.all, key=lambda one: one.point.place):
            if one.signature.broken and one.proved:
                signature = one.signature.without(frozenset(ordinary.get(one.where.act, ())))
                found.setdefault((signature, one.point.act.startswith(REFUSE)), []).append(one)
        made = (
            Finding(
                signature,
                tuple(points),
                frozenset().union(*(ordinary.get(one.where.act, ()) for one in points)),
                self.saved,
            )
            for (signature, _), points in found.items()
        )
        return tuple(sorted(made, key=lambda finding: -len(finding.points)))

    def unseen(self) -> tuple[Class, ...]:
        """Return the classes without any proved point, except those whose faults end their program
        for good.
        """
        told = [one for one in self.all if one.proved or one.ended]
        ran = {one.where for one in told} | {one.planned for one in told}
        return tuple(each for each in self.classes if each not in ran)


def merged(one: Outcomes, other: Outcomes) -> Outcomes:
    """Return the outcomes of two parts of a sweep as one. If both have run a point, the outcome in
    ``one`` counts.

    Scenario files are those of ``one``.
    """
    classes = {
        each: tuple(
            {point.id: point for of in (one, other) for point in of.classes.get(each, ())}.values()
        )
        for each in {**one.classes, **other.classes}
    }
    ran = {outcome.point.id for outcome in one.all}
    both = one.all + tuple(outcome for outcome in other.all if outcome.point.id not in ran)
    return Outcomes(classes, both, one.saved)


def line_of(frames: int, outcomes: Outcomes) -> str:
    """Return one line with the numbers of frames, points and classes, and how many
    points were run.
    """
    points = sum(len(inside) for inside in outcomes.classes.values())
    deviating = sum(len(inside) for inside in outcomes.deviations().values())
    return (
        f"{frames} frames, {points} points, {len(outcomes.classes)} classes, "
        f"{len(outcomes.chosen)} run, {len(outcomes.sampled)} sampled, {deviating} deviations, "
        f"{len(outcomes.unproved)} without proof"
    )
