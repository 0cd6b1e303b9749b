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

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from harness.judge import reasons
from harness.judge.claims import broken_invariants, broken_order, wrong_totals
from harness.judge.course import Course
from harness.judge.guarantees import Guarantees
from harness.judge.logs import broken_log, went_elsewhere
from harness.judge.movement import Movement, copies_between, counted, movement_of
from harness.judge.readers import told_of
from harness.judge.rows import Rows
from harness.judge.rules import Rule
from harness.judge.signs import Signs, common_signs
from harness.model import events as kinds
from harness.model.history import History
from harness.model.prediction import SELECTS, Permitted, Prediction, Select, examples
from harness.model.semantics import PROMISES, Anomaly
from harness.model.states import Hop, State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from harness.judge.accounting import Account
    from harness.judge.proof import Knowledge
    from harness.judge.readers import Readers
    from harness.model.plan import Plan

UNSURE = ("patience", "learnt")
"""Reasons for a drain to rest: something was missing or not acknowledged, and nothing was known to
be on its way.
"""
LONG_S = 1.0
"""The shortest silence that the verdict mentions, if something came after it. In seconds."""
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
    """A verdict and the one sentence that explains it. ``green``: kept, or a control convicted as
    predicted.

    ``stops``: the control must be stuck, not broken. ``by_fault``: false where a promise is broken
    in a run that proves nothing about its fault. ``effect``: false where nothing was predicted, and
    the fault harmed no record and left no trace on its target: the promise was kept, and nothing
    shows that it was tested.
    """

    kind: Kind
    reason: str
    control: bool = False
    as_predicted: bool = True
    fired: int = 0
    stops: bool = False
    by_fault: bool = True
    effect: bool = True
    rule: Rule = Rule.KEPT
    """The rule that decided."""

    @property
    def green(self) -> bool:
        """Whether the cell is a success."""
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

    rows, verdict = (
        Rows(()),
        Verdict(Kind.VOID, because, plan.control, as_predicted=False, rule=Rule.INSTRUMENT),
    )
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
    verdict = _verdict(plan, history, found, signs, knowledge, readers=rows.readers)
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


def _verdict(
    plan: Plan,
    history: History,
    found: Account,
    signs: Signs,
    knowledge: Knowledge,
    *,
    readers: Readers,
) -> Verdict:
    """Apply the rules in their order; the first that matches is the verdict."""
    course = Course(plan, history, found, signs, knowledge)
    fired = 1 if course.fired_at is not None and course.misfire() is None else 0
    select = dict(plan.select)
    for told in knowledge.selections:
        select |= told(history, plan.target)
    contradiction = _contradiction(plan, found, select)
    blind = course.instrument()
    objection = None if blind else course.experiment()
    # a control is convicted by a sound run, of what is predicted and of nothing else
    moving = (
        course.goes_on()
        if plan.stands
        else course.stuck() or course.unrest() or course.unhealthy_after()
    )
    wrong = None if blind else broken_log(plan, history, readers)
    guarantees = Guarantees(plan, history)
    unsound = blind or objection or moving or wrong
    as_predicted = (
        contradiction is None and not unsound and _anomalies(found) == frozenset(plan.also)
    )

    def forbidden() -> str | None:
        return _forbidden(plan, history, found, readers)

    def lost() -> str | None:
        return _lost(plan, history, found, course.drain) if course.drained() else None

    rules: tuple[tuple[Rule, Kind, Callable[[], str | None]], ...] = (
        (Rule.INSTRUMENT, Kind.VOID, lambda: blind),
        (
            Rule.LOG,
            Kind.BROKEN,
            lambda: wrong and "; ".join(filter(None, (wrong, forbidden(), lost()))),
        ),
        (Rule.FORBIDDEN, Kind.BROKEN, forbidden),
        (Rule.LOST, Kind.BROKEN, lost),
        (Rule.ORDER, Kind.BROKEN, lambda: broken_order(plan, found)),
        (Rule.GUARANTEES, Kind.BROKEN, guarantees.broken),
        (
            Rule.INVARIANTS,
            Kind.BROKEN,
            lambda: broken_invariants(history) if course.drained() else None,
        ),
        (Rule.EXPERIMENT, Kind.VOID, lambda: objection),
        (Rule.EFFECT, Kind.VOID, lambda: _no_effect(plan, found, select)),
        (Rule.STUCK, Kind.STUCK, course.stuck),
        (Rule.REST, Kind.VOID, course.unrest),
        (Rule.HEALTH, Kind.VOID, course.unhealthy_after),
        (Rule.ARRIVED, Kind.VOID, lambda: _nothing_arrived(plan, found)),
        (Rule.SIGN, Kind.VOID, lambda: _no_sign(plan, signs)),
        (Rule.PREDICTION, Kind.VOID, lambda: contradiction),
    )
    for rule, ruled, speaks in rules:
        kind, reason = ruled, speaks()
        if reason is not None:
            if kind is Kind.BROKEN:
                beside = (contradiction, None if objection else course.unhealthy_after())
                kind, reason = _of_another_cause(kind, reason, objection, control=plan.control)
                reason = "; ".join(text for text in (reason, *beside) if text)
            elif kind is Kind.VOID:
                reason = "; ".join(
                    (reason, *(remark for look in knowledge.remarks if (remark := look(history))))
                )
            by_fault = kind is not Kind.BROKEN or objection is None
            return Verdict(
                kind,
                reason,
                plan.control,
                as_predicted,
                fired,
                plan.stands,
                by_fault,
                rule=rule,
            )
    harmed = _missing(plan, found) or found.duplicated or found.over
    effect = not _anything_goes(plan) or bool(harmed or _effects(plan, history, signs))
    return Verdict(
        Kind.KEPT,
        "; ".join((_kept(plan, history, found, signs, course), *guarantees.told())),
        plan.control,
        as_predicted,
        fired,
        plan.stands,
        effect=effect,
    )


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


def _forbidden(plan: Plan, history: History, found: Account, readers: Readers) -> str | None:
    """Name the forbidden anomaly, other than loss, that was seen."""
    for anomaly in (Anomaly.DUPLICATED, Anomaly.PHANTOM, Anomaly.RESURRECTED, Anomaly.TORN):
        count = found.counts[anomaly]
        if count and anomaly in PROMISES[plan.semantic]:
            if anomaly is Anomaly.DUPLICATED:
                return f"{plan.semantic} forbids duplicates: {_duplicates(found)}"
            shown = (
                f", as {text!r}"
                if anomaly is Anomaly.PHANTOM and (text := _never_offered(history)) is not None
                else ""
            )
            read = told_of(readers.read_aborted()) if anomaly is Anomaly.RESURRECTED else ()
            return "; ".join((f"{count} {anomaly}{shown}, which {plan.semantic} forbids", *read))
    return None


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


def _missing(plan: Plan, found: Account) -> frozenset[str]:
    """Return the lost records. Records set aside count, unless dead letters are part of the
    pipeline.

    So do totals that have missed records, although a total does not say which.
    """
    missing = found.lost | found.short
    return missing if plan.dead_letters else missing | found.set_aside


def _lost(plan: Plan, history: History, found: Account, drain: kinds.Drain | None) -> str | None:
    if _missing(plan, found) and Anomaly.LOST in PROMISES[plan.semantic]:
        return "; ".join(
            (
                f"{plan.semantic} forbids loss: {_losses(found)}",
                *went_elsewhere(history, found.rows),
                *_unnamed(history),
                *_rested(drain),
            )
        )
    return None


def _unnamed(history: History) -> Iterator[str]:
    """Say which rows of the output are no results: they have no id, or columns that should have a
    value are empty.
    """
    for unnamed in history.of(kinds.Unnamed):
        yield f"{_rows_have(unnamed.count)} no id, as {unnamed.text!r}"
    for event in history.of(kinds.Unfilled):
        columns = (
            f"column{'s' if len(event.columns) > 1 else ''} {' and '.join(map(str, event.columns))}"
        )
        yield (
            f"{_rows_have(event.count)} nothing in {columns}, where every row had something "
            f"without a fault, as {event.text!r}"
        )


def _rows_have(count: int) -> str:
    return "1 row of the output has" if count == 1 else f"{count} rows of the output have"


def _rested(drain: kinds.Drain | None) -> Iterator[str]:
    """Yield how long the drain rested, where something could still have come."""
    if drain is not None and drain.why in UNSURE:
        silent_s, rested_s = drain.gap or 0.0, drain.rested or 0.0
        gap = f", after a silence of {silent_s:.1f} s" if silent_s >= LONG_S else ""
        yield f"rested {rested_s:.0f} s{gap}"


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


def _contradiction(plan: Plan, found: Account, select: dict[Select, frozenset[str]]) -> str | None:
    parts = (
        (name, _against(prediction, seen, select))
        for name, prediction, seen in _columns(plan, found)
    )
    said = [f"{name}: {text}" for name, text in parts if text]
    unclean = "" if plan.evidence.trigger != "none" else f"{UNCLEAN}, for without a fault "
    return f"{unclean}the prediction is contradicted: {'; '.join(said)}" if said else None


def _columns(plan: Plan, found: Account) -> Iterator[tuple[str, Prediction, frozenset[str]]]:
    """Return what was predicted and what was seen, by column. Records left count only where some
    are predicted to be left.
    """
    yield "lost", plan.lost, _missing(plan, found)
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


def _losses(found: Account) -> str:
    lost = found.records[found.records["state"] == State.LOST]
    hops = [f"{examples(set(part['record']))} {hop}" for hop, part in lost.groupby("last_hop")]
    doubts = [row["record"] for row in found.rows if row["state"] == State.LOST and row["in_doubt"]]
    hops += [f"{examples(doubts)} {reasons.DOUBT}"] if doubts else []
    said = [f"{len(lost)} lost ({'; '.join(hops)})"] if hops else []
    said += wrong_totals(found, high=False)
    if found.set_aside:
        where = f" in {' and '.join(found.aside_in)}" if found.aside_in else ""
        why = reasons.told(row for row in found.rows if row["state"] == State.SET_ASIDE)
        said.append(
            f"{len(found.set_aside)} set aside{where} ({why or examples(found.set_aside)}: only "
            "dead letters are left)"
        )
    return "; ".join(said)


def _duplicates(found: Account) -> str:
    counts = found.counts
    ways = [
        f"{counts[name]} {text}"
        for name, text in (("stored_twice", "stored twice"), ("delivered_twice", "delivered twice"))
        if counts[name]
    ]
    named = len(found.duplicated)
    said = (
        [f"{counts['duplicated']} duplicated ({examples(found.duplicated)}: {', '.join(ways)})"]
        if named
        else []
    )
    return "; ".join((*said, *wrong_totals(found, high=True)))


def _anything_goes(plan: Plan) -> bool:
    """Whether a fault was planned without a prediction, as for a declared pipeline."""
    permitted = isinstance(plan.lost, Permitted) and isinstance(plan.duplicated, Permitted)
    return permitted and plan.sign is None and plan.evidence.trigger != "none"


def _repeats(history: History, record: str) -> Iterator[str]:
    """Yield what the wire saw more than once of a record. A user's program does not write down its
    attempts.

    A record may pass further topics, one of them several times, as those for retries: these are
    hops. Who sends a record on again into such a topic repeats itself only if it was given no other
    copy of it in between.
    """
    between = {e.topic or e.queue for e in history.of(kinds.Stored) if e.hop == Hop.TOPIC}
    asked: dict[str | None, set[str]] = defaultdict(set)
    given: Counter[tuple[object, ...]] = Counter()
    again = False
    for event in history.of(kinds.Sent, kinds.Unsent, kinds.Fetched):
        if event.record != record:
            continue
        if isinstance(event, kinds.Fetched):
            copy = (event.topic, event.at or event.place)
            given[copy] += 1
            if given[copy] == 1 and event.reached:
                asked = defaultdict(set, {t: asked[t] for t in asked if t in between})
        else:
            asked[event.topic].add(event.request)
            again = again or len(asked[event.topic]) > 1
    if again:
        yield "sent-again"
    if any(count > 1 for count in given.values()):
        yield "fetched-again"


def _kept(plan: Plan, history: History, found: Account, signs: Signs, course: Course) -> str:
    """Return the sentence that explains a kept promise."""
    if plan.refused_by_client:
        return "the client refused these settings; nothing was sent"
    counts = found.counts
    parts = [f"{counts['recorded']} of {counts['offered']} recorded"]
    if found.lost or found.set_aside or found.short:
        parts.append(_losses(found))
    beside = frozenset(
        row["record"] for row in found.rows if row["recordings"] > 0 and row["aside"] > 0
    )
    if beside:
        parts.append(f"{examples(beside)} recorded, and a copy of it set aside")
    if counts["duplicated"]:
        parts.append(_duplicates(found))
    parts += _unnamed(history)
    if plan.sign:
        parts.append(f"{plan.target} was protected ({plan.sign})")
    elif _anything_goes(plan) and plan.target not in _missing(plan, found) | found.duplicated:
        seen = _effects(plan, history, signs)
        if seen:
            parts.append(f"{plan.target}: {', '.join(seen)}")
        elif not (_missing(plan, found) or counts["duplicated"]):
            parts.append(f"no effect was seen on {plan.target}")
    parts += (
        [*_absorbed(history, found), *_held_back(history)]
        if _anything_goes(plan)
        else _held_back(history)
    )
    return "; ".join((*parts, *_circumstances(plan, course)))


def _circumstances(plan: Plan, course: Course) -> Iterator[str]:
    """Say under which circumstances a promise was kept."""
    if course.load and course.load.beside:
        with_it = (
            "1 record" if len(course.load.beside) == 1 else f"{len(course.load.beside)} records"
        )
        yield (
            f"nothing was sent before the fault: the load is {with_it} in one request with "
            f"{plan.target}"
        )
    if course.drain is not None and course.drain.tail:
        yield "no position is saved behind the last records: the next start reads them again"
    yield from _rested(course.drain)


def _effects(plan: Plan, history: History, signs: Signs) -> list[str]:
    """Return what shows that the fault affected its target, where nothing was predicted."""
    return sorted({*signs.of(plan.target), *_repeats(history, plan.target)})


def _absorbed(history: History, found: Account) -> Iterator[str]:
    """Say who absorbed the second copy of a record that was doubled on its way and is recorded
    once.
    """
    copies, doubled = copies_between(history)
    stored, visible = counted(copies), counted(copy for copy in copies if copy.visible)
    taken = _taken(history, {str(e.topic or e.queue) for e in copies})
    once = {row["record"] for row in found.rows if row["recordings"] == 1}
    by_broker = frozenset(
        record for record, times in taken.items() if times > 1 == stored[record] and record in once
    )
    behind = frozenset(record for record, times in visible.items() if times > 1 and record in once)
    if known := frozenset(doubled & once):
        yield (
            f"{examples(known)} sent twice: absorbed by the broker, which took the second for a "
            "duplicate"
        )
    if by_broker:
        yield (
            f"{examples(by_broker)} sent twice and stored once: absorbed by the broker, for the "
            "producer is idempotent"
        )
    if behind:
        yield (
            f"{examples(behind)} stored twice and recorded once: absorbed by the reader or a key "
            "in the output, or lost there"
        )


def _taken(history: History, topics: set[str]) -> Counter[str]:
    """Return how often a broker acknowledged each record, whether or not the answer arrived."""
    asked = {(e.request, e.record) for e in history.of(kinds.Sent) if e.topic in topics}
    told = {
        (e.request, e.record) for e in history.of(kinds.ProduceAnswer) if e.error == 0 or e.repeated
    }
    return Counter(record for _, record in asked & told)


def _held_back(history: History) -> Iterator[str]:
    """Say which readers were kept waiting by an open transaction."""
    for event in history.of(kinds.HeldBack):
        because = f" ({event.because})" if event.because else ""
        yield (
            f"for at least {event.seconds:.0f} s, readers of committed records of {event.log} "
            f"were given nothing behind a transaction that was left open{because}"
        )


__all__ = ["Judgement", "Kind", "Verdict", "judge", "merge", "signs_of", "unjudged"]
