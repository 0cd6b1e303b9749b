"""The verdict: what an account means for a promise. The rules apply in a fixed order; the first
that matches decides.

A run can be unsound in two ways. If the *instrument* was unsound, it has not seen everything, and
nothing is judged. If the *experiment* was unsound, everything was seen, but it proves nothing about
its fault. A forbidden anomaly is then still a broken promise, though not by this fault. Only a
control is void then: its promise is broken by nature.

Two exceptions. A missing *sign* of protection voids only a cell that would otherwise be kept: a
client that loses a record because it never repeated its request shows no sign either, and that is a
broken promise. And if the fault had a forbidden effect other than the predicted one, the verdict
does not claim that the effect had another cause.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from harness.judge.claims import broken_invariants, broken_order
from harness.judge.course import RunCourse
from harness.judge.guarantees import Guarantees
from harness.judge.kept import effects, kept_reason
from harness.judge.logs import broken_log, went_elsewhere
from harness.judge.movement import Movement, movement_of
from harness.judge.readers import told_of
from harness.judge.rows import Rows
from harness.judge.rules import Rule
from harness.judge.sentences import (
    duplicates,
    losses,
    lost_ids,
    predicts_nothing,
    rest_lines,
    unnamed,
)
from harness.judge.signs import Signs, common_signs
from harness.judge.windows import Strikes
from harness.model import events as kinds
from harness.model.history import History
from harness.model.prediction import SELECTS, Prediction, Select
from harness.model.semantics import PROMISES, Anomaly, forbids

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from harness.judge.accounting import Account
    from harness.judge.proof import Knowledge
    from harness.judge.readers import Readers
    from harness.model.plan import Plan

UNCLEAN = "unclean"
"""First word of the reason if a run without a fault shows an anomaly that its claim permits and
nobody declared.
"""


class Kind(StrEnum):
    """The four verdicts."""

    KEPT = "kept"
    BROKEN = "broken"
    STUCK = "stuck"
    VOID = "void"


WORST: tuple[Kind, ...] = (Kind.BROKEN, Kind.VOID, Kind.STUCK, Kind.KEPT)
"""From worst to best: the order in which verdicts are merged."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A verdict and the one sentence that explains it."""

    kind: Kind
    reason: str
    """One sentence: what was seen."""
    control: bool = False
    """Whether the cell must be broken, exactly as predicted."""
    as_predicted: bool = True
    """Whether a sound run has shown what was predicted, and no other anomaly."""
    fired: int = 0
    """1 if the fault fired as declared, else 0."""
    stops: bool = False
    """Whether the control must be stuck, not broken."""
    by_fault: bool = True
    """False where a promise is broken in a run that proves nothing about its fault."""
    effect: bool = True
    """False where nothing was predicted, and the fault harmed no record and left no trace on its
    target: the promise was kept, and nothing shows that it was tested.
    """
    rule: Rule = Rule.KEPT
    """The rule that decided."""

    @property
    def green(self) -> bool:
        """Whether the cell is a success: kept, or a control that was broken (or stuck) as
        predicted.
        """
        if self.control:
            return self.kind is (Kind.STUCK if self.stops else Kind.BROKEN) and self.as_predicted
        return self.kind is Kind.KEPT

    @property
    def label(self) -> str:
        """The word that reports show: ``convicted`` for a control that was broken as predicted."""
        if not self.control:
            return str(self.kind)
        if self.green:
            return "convicted"
        # a run that proves nothing acquits nobody
        return "not convicted" if self.kind in (Kind.KEPT, Kind.BROKEN) else str(self.kind)


@dataclass(frozen=True)
class Judgement:
    """Everything about one judged cell."""

    plan: Plan
    account: Account
    verdict: Verdict
    signs: Signs = field(default_factory=Signs)
    """Which records show which signs of protection."""
    movement: Movement = field(default_factory=Movement)
    """How readers moved. It decides nothing."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Further facts that systems report, by name, as plain data. A name is missing if the history
    has nothing for it.
    """


def merge(verdicts: list[Kind]) -> Kind:
    """Merge verdicts by worst.

    >>> merge([Kind.KEPT, Kind.VOID, Kind.STUCK])
    <Kind.VOID: 'void'>
    """
    return min(verdicts, key=WORST.index)


def unjudged(plan: Plan, because: str, knowledge: Knowledge) -> Judgement:
    """Return the void judgement of a cell that has no readable history."""
    from harness.judge.accounting import account_of  # noqa: PLC0415 - pandas takes a second, and many a command judges nothing

    rows = Rows(())
    verdict = Verdict(Kind.VOID, because, plan.control, as_predicted=False, rule=Rule.INSTRUMENT)
    return Judgement(plan, account_of(rows), verdict, signs_of(rows, History((), ()), knowledge))


def judge(plan: Plan, history: History, knowledge: Knowledge) -> Judgement:
    """Account for a history and judge it. ``knowledge``: the proofs, signs and selections of faults
    and systems.
    """
    from harness.judge.accounting import account_of  # noqa: PLC0415

    rows = Rows(history.events)
    found = account_of(rows)
    signs = signs_of(rows, history, knowledge)
    details = {
        name: detail
        for name, tell in knowledge.details.items()
        if (detail := tell(history)) is not None
    }
    verdict = _Case(plan, history, found, signs, knowledge, rows.readers).verdict()
    return Judgement(
        plan,
        found,
        verdict,
        signs,
        movement_of(history, {row["record"]: row["recordings"] for row in found.rows}),
        details,
    )


def signs_of(rows: Rows, history: History, knowledge: Knowledge) -> Signs:
    """Return the signs of protection in a history: the common ones, and those that systems and
    faults know.
    """
    return Signs.merged((common_signs(rows), *(told(history) for told in knowledge.signs)))


@dataclass
class _Case:
    """One cell before the judge: what the rules look at."""

    plan: Plan
    history: History
    found: Account
    signs: Signs
    knowledge: Knowledge
    readers: Readers

    def __post_init__(self) -> None:
        plan, history, found = self.plan, self.history, self.found
        known = (plan, history, found, self.signs, self.knowledge)
        self.course, self.strikes = RunCourse(*known), Strikes(*known)
        self.guarantees = Guarantees(plan, history)
        self.select = dict(plan.select)
        for told in self.knowledge.selections:
            self.select |= told(history, plan.target)
        self.contradiction = _contradiction(
            plan, found, self.select, _refused_though_stored(history)
        )
        self.blind = self.course.instrument()
        self.objection = None if self.blind else self.strikes.objection()
        self.stopped = self.objection and self.strikes.stopped(self.course.stuck())
        self.wrong_log = None if self.blind else broken_log(plan, history, self.readers)
        self.as_predicted = (
            self.contradiction is None
            and not self._unsound()
            and _anomalies(found) == frozenset(plan.also)
        )

    def _unsound(self) -> str | None:
        """Say why the run is unsound; a control is convicted by a sound run alone."""
        course = self.course
        moving = (
            course.goes_on()
            if self.plan.stands
            else course.stuck() or course.unrest() or course.unhealthy_after()
        )
        return self.blind or self.objection or moving or self.wrong_log

    def verdict(self) -> Verdict:
        """Apply the rules in their order; the first that matches is the verdict."""
        for rule, kind, speaks in self._rules():
            reason = speaks()
            if reason is not None:
                return self._ruled(rule, kind, reason)
        return self._kept()

    def _rules(self) -> tuple[tuple[Rule, Kind, Callable[[], str | None]], ...]:
        """Return the rules in their order: each with its verdict, and what says why it matches."""
        plan, found, course = self.plan, self.found, self.course
        return (
            (Rule.INSTRUMENT, Kind.VOID, lambda: self.blind),
            (Rule.LOG, Kind.BROKEN, self._log),
            (Rule.FORBIDDEN, Kind.BROKEN, self._forbidden),
            (Rule.LOST, Kind.BROKEN, self._lost),
            (Rule.ORDER, Kind.BROKEN, lambda: broken_order(plan, found)),
            (Rule.GUARANTEES, Kind.BROKEN, self.guarantees.broken),
            (Rule.INVARIANTS, Kind.BROKEN, self._invariants),
            (Rule.EXPERIMENT, Kind.VOID, lambda: None if self.stopped else self.objection),
            (Rule.EFFECT, Kind.VOID, lambda: _no_effect(plan, found, self.select)),
            (Rule.STUCK, Kind.STUCK, lambda: self.stopped or course.stuck()),
            (Rule.REST, Kind.VOID, course.unrest),
            (Rule.HEALTH, Kind.VOID, course.unhealthy_after),
            (Rule.ARRIVED, Kind.VOID, lambda: _nothing_arrived(plan, found)),
            (Rule.SIGN, Kind.VOID, lambda: _no_sign(plan, self.signs)),
            (Rule.PREDICTION, Kind.VOID, lambda: self.contradiction),
        )

    def _log(self) -> str | None:
        """Say what no sound log does, with what was lost or doubled."""
        if self.wrong_log is None:
            return None
        return _joined(self.wrong_log, self._forbidden(), self._lost())

    def _forbidden(self) -> str | None:
        """Name the forbidden anomaly, other than loss, that was seen."""
        promise, found = self.plan.semantic, self.found
        for anomaly in (Anomaly.DUPLICATED, Anomaly.PHANTOM, Anomaly.RESURRECTED, Anomaly.TORN):
            count = found.counts[anomaly]
            if not count or anomaly not in PROMISES[promise]:
                continue
            if anomaly is Anomaly.DUPLICATED:
                return f"{promise} forbids duplicates: {duplicates(found)}"
            text = _never_offered(self.history) if anomaly is Anomaly.PHANTOM else None
            shown = "" if text is None else f", as {text!r}"
            read = told_of(self.readers.read_aborted()) if anomaly is Anomaly.RESURRECTED else ()
            return _joined(f"{count} {anomaly}{shown}, which {promise} forbids", *read)
        return None

    def _lost(self) -> str | None:
        """Name the records that are lost although that is forbidden, once the drain has ended."""
        plan, found = self.plan, self.found
        if (
            not self.course.drained()
            or Anomaly.LOST not in PROMISES[plan.semantic]
            or not lost_ids(plan, found)
        ):
            return None
        return _joined(
            f"{plan.semantic} forbids loss: {losses(found)}",
            *went_elsewhere(self.history, found.rows),
            *unnamed(self.history),
            *rest_lines(self.course.drain),
        )

    def _invariants(self) -> str | None:
        return broken_invariants(self.history) if self.course.drained() else None

    def _ruled(self, rule: Rule, kind: Kind, reason: str) -> Verdict:
        """Return the verdict of the rule that matched."""
        by_fault = True
        if kind is Kind.BROKEN:
            of = _convicted(rule, self.plan, self.found, drained=self.course.drained())
            apart = self.objection and self.strikes.objection_to(of)
            by_fault = apart is None
            kind, reason = _of_another_cause(kind, reason, apart, control=self.plan.control)
            reason = _joined(
                reason,
                *self.strikes.named(of),
                self.contradiction,
                self.objection if by_fault else None,
                None if self.objection else self.course.unhealthy_after(),
            )
        elif kind is Kind.VOID:
            reason = _joined(reason, *(look(self.history) for look in self.knowledge.remarks))
        return self._said(kind, reason, by_fault=by_fault, rule=rule)

    def _kept(self) -> Verdict:
        """Return the verdict where no rule matches."""
        plan, found, signs = self.plan, self.found, self.signs
        harmed = lost_ids(plan, found) | found.duplicated | found.over
        effect = not predicts_nothing(plan) or bool(harmed or effects(plan, self.history, signs))
        kept = kept_reason(plan, self.history, found, signs, self.course)
        return self._said(Kind.KEPT, "; ".join((kept, *self.guarantees.told())), effect=effect)

    def _said(
        self,
        kind: Kind,
        reason: str,
        *,
        by_fault: bool = True,
        effect: bool = True,
        rule: Rule = Rule.KEPT,
    ) -> Verdict:
        return Verdict(
            kind,
            reason,
            self.plan.control,
            self.as_predicted,
            self.strikes.fired,
            self.plan.stands,
            by_fault,
            effect,
            rule,
        )


def _joined(*said: str | None) -> str:
    """Return what was said, in one line."""
    return "; ".join(each for each in said if each)


def _convicted(rule: Rule, plan: Plan, found: Account, *, drained: bool) -> frozenset[str]:
    """Return the records that a rule convicts, with those lost beside duplicates if both are
    forbidden; none, if it does not know which.
    """
    promise = PROMISES[plan.semantic]
    doubled = found.duplicated | found.over if Anomaly.DUPLICATED in promise else frozenset()
    missing = lost_ids(plan, found) if drained and Anomaly.LOST in promise else frozenset()
    named = rule is Rule.LOST or (rule is Rule.FORBIDDEN and doubled)
    return doubled | missing if named else frozenset()


def _of_another_cause(
    kind: Kind, reason: str, objection: str | None, *, control: bool
) -> tuple[Kind, str]:
    """Return the verdict and the reason of a broken promise. ``objection``: why the run proves
    nothing about its fault; ``None``: it does, and both stay as they are.

    A control's promise is broken by nature, so without its fault that is no finding.
    """
    if objection is None:
        return kind, reason
    if control:
        return Kind.VOID, f"{objection}; so it convicts nobody that the promise is broken: {reason}"
    return kind, f"though not by this fault ({objection}): {reason}"


def _never_offered(history: History) -> str | None:
    """Return the beginning of the first payload that was never offered, of the sink or else of the
    topic, if it is known.
    """
    told = sorted(
        history.of(kinds.Recorded, kinds.Folded, kinds.Stored),
        key=lambda event: (isinstance(event, kinds.Stored), isinstance(event, kinds.Folded)),
    )
    texts = (e.text for e in told if not isinstance(e, kinds.Stored) or not e.foreign)
    return next((text for text in texts if text is not None), None)


def _anomalies(found: Account) -> frozenset[Anomaly]:
    """Return the anomalies seen besides loss and duplicates. Only a control may predict them."""
    return frozenset(
        a for a in (Anomaly.PHANTOM, Anomaly.RESURRECTED, Anomaly.TORN) if found.counts[a]
    )


def _nothing_arrived(plan: Plan, found: Account) -> str | None:
    """Say that nothing arrived at all, so that no promise was tested."""
    if plan.refused_by_client or found.counts["recorded"] or not found.counts["offered"]:
        return None
    return "not one record arrived: a pipeline that does nothing keeps any promise"


def _no_effect(plan: Plan, found: Account, select: dict[Select, frozenset[str]]) -> str | None:
    for name, prediction, seen in _columns(plan, found):
        # in a batch that began with the target, "those before it" are none: the sign has to speak
        # then
        if prediction.must_show() and not seen and _against(prediction, seen, select):
            return f"the fault fired without effect: {name} predicted {prediction.text()}, saw none"
    return None


def _no_sign(plan: Plan, signs: Signs) -> str | None:
    if plan.sign is None:
        return None
    seen = signs.of(plan.target)
    if plan.sign in seen:
        return None
    others = f" (seen: {', '.join(sorted(seen))})" if seen else ""
    return f"nothing shows that the protection worked: no {plan.sign} for {plan.target}{others}"


def _refused_though_stored(history: History) -> frozenset[str]:
    """Return the records of which a broker stored a copy, and named its place in an answer with an
    error, as when it is put out of its cluster before the answer. Who does not number
    its requests sends such a record again.
    """
    return frozenset(
        answer.record
        for answer in history.of(kinds.ProduceAnswer)
        if answer.error and answer.base_offset is not None and answer.base_offset >= 0
    )


def _contradiction(
    plan: Plan,
    found: Account,
    select: dict[Select, frozenset[str]],
    refused_though_stored: frozenset[str],
) -> str | None:
    """Say how what was seen contradicts the prediction. A duplicate other than the target that the
    semantic permits and the broker brought about by itself does not.
    """
    permits = not forbids(plan.semantic, Anomaly.DUPLICATED)
    own = (refused_though_stored - {plan.target}) if permits else frozenset()
    parts = (
        (name, _against(prediction, seen - own if name == "duplicated" else seen, select))
        for name, prediction, seen in _columns(plan, found)
    )
    said = [f"{name}: {text}" for name, text in parts if text]
    unclean = "" if plan.evidence.trigger != "none" else f"{UNCLEAN}, for without a fault "
    return f"{unclean}the prediction is contradicted: {'; '.join(said)}" if said else None


def _columns(plan: Plan, found: Account) -> Iterator[tuple[str, Prediction, frozenset[str]]]:
    """Return what was predicted and what was seen, by column. Records left count only where some
    are predicted to be left.
    """
    yield "lost", plan.lost, lost_ids(plan, found)
    yield "duplicated", plan.duplicated, found.duplicated | found.over
    if plan.left.must_show():
        yield "left", plan.left, found.left | found.stalled


def _against(
    prediction: Prediction, seen: frozenset[str], select: dict[Select, frozenset[str]]
) -> str | None:
    """Say how the records seen contradict a prediction; so does a set that the history does not
    have.
    """
    if {getattr(prediction, name, None) for name in SELECTS} - {None, *select}:
        return (
            f"predicted {prediction.text()}, but the history does not say which records these are"
        )
    return prediction.contradiction(seen, select)
