"""The path of one record, hop by hop, with its times, partition, epoch, offset and transaction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from harness.judge.reasons import DOUBT
from harness.model import events as kinds
from harness.model import states
from harness.model.events import FaultPhase, RulePhase, TransactionOutcome
from harness.model.places import Removal
from harness.model.prediction import by_name
from harness.model.scenario import Role
from harness.model.states import LEFT, State
from harness.report.page.lines import Lines, attempt_of, in_topic
from harness.report.page.seen import seen_of
from harness.report.page.usual import usually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from harness.judge.record_row import RecordRow
    from harness.model.history import Event

OfPlace: TypeAlias = (
    kinds.Stored | kinds.Removed | kinds.Recorded | kinds.Absorbed | kinds.Fetched | kinds.Delivered
)
"""Events about a copy, in a log or elsewhere."""
Copy: TypeAlias = tuple[object, ...]
"""The name of a copy; empty if a line names none."""
MS_NS = 1_000_000
RUNNER = "runner"
"""Who writes the lines of lostack's own runner."""


@dataclass(frozen=True, slots=True)
class Hop:
    """One step: ``ms`` since the cell began (null: found when everything was at rest), who says so,
    what happened.

    ``copy`` is the letter of the copy it is about. ``bad`` marks what did not work out.
    """

    ms: float | None
    by: str
    text: str
    copy: str = ""
    bad: bool = False


@dataclass(frozen=True, slots=True)
class RecordPath:
    """One record: its fate, what the history shows of it in one sentence, and its hops.

    ``usually``: what usually does this, which no line of the history shows; empty if unknown.
    """

    record: str
    key: str
    position: int
    fate: str
    """``lost``, ``duplicated``, or the state at rest."""
    sentence: str
    hops: tuple[Hop, ...]
    usually: str = ""


def anomalous(rows: Sequence[RecordRow]) -> list[RecordRow]:
    """Return the rows of the record table that were lost, set aside or recorded more than once, in
    the order of their names.
    """
    found = [
        row
        for row in rows
        if row["state"] in (State.LOST, State.SET_ASIDE) or row["recordings"] > 1
    ]
    return sorted(found, key=lambda row: by_name(row["record"]))


class Paths:
    """The paths of one cell's records; an index over its events."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.lines = Lines(events)
        self._transactions: dict[str, list[kinds.Transaction]] = {}
        for event in self.lines.of(kinds.Transaction):
            if event.outcome != TransactionOutcome.BEGUN:
                self._transactions.setdefault(event.transaction, []).append(event)
        self._restarted = bool(self.lines.restarts(str(Role.PRODUCER)))

    def of(self, row: RecordRow) -> RecordPath:
        """Return the path of a record, given its row in the account's record table."""
        events = self.lines.about(str(row["record"]))
        letters = _letters(events)
        hops = [hop for event in events if (hop := self._hop(event, letters))]
        hops += [self._told(event) for event in self._outcomes(events)]
        hops += self._positions(events, letters)
        hops += [self._step(event, letter) for event, letter in self._steps(events, letters)]
        timed = sorted((hop for hop in hops if hop.ms is not None), key=lambda hop: hop.ms or 0.0)
        rest = [hop for hop in hops if hop.ms is None]
        first = [hop for hop in rest if hop.by == "source"]
        ordered = (*first, *timed, *(hop for hop in rest if hop.by != "source"))
        fate, sentence = _fate(row)
        if seen := seen_of(row, self.lines):
            sentence += f"; {seen}"
        return RecordPath(
            str(row["record"]),
            str(row["key"]),
            int(row["position"]),
            fate,
            sentence,
            ordered,
            usually(row, restarted=self._restarted),
        )

    def _ms(self, event: Event) -> float:
        return self._since(event.t)

    def _since(self, t: int) -> float:
        return round((t - self.lines.zero) / MS_NS, 1)

    def _hop(self, event: Event, letters: Mapping[Copy, str]) -> Hop | None:
        told = _TEXTS.get(type(event))
        if told is None or _is_armed(event):
            return None
        by, text, bad = told(event)
        return Hop(
            None if isinstance(event, _AT_REST) else self._ms(event),
            by or event.by,
            text,
            letters.get(_copy(event), ""),
            bad,
        )

    def _outcomes(self, events: Iterable[Event]) -> list[kinds.Transaction]:
        """Return what became of the transactions that the record was sent in."""
        attempts = {attempt for attempt in map(attempt_of, events) if attempt}
        names = sorted({attempt.rpartition(".")[0] for attempt in attempts})
        return [event for name in names for event in self._transactions.get(name, ())]

    def _told(self, event: kinds.Transaction) -> Hop:
        error = f" ({event.error})" if event.error else ""
        text = f"transaction {event.transaction} {event.outcome}{error}"
        good = (TransactionOutcome.COMMITTED, TransactionOutcome.BEGUN)
        return Hop(self._ms(event), event.by, text, bad=event.outcome not in good)

    def _positions(self, events: Iterable[Event], letters: Mapping[Copy, str]) -> Iterator[Hop]:
        """Yield, per log copy in the topic, the first position that each group saved past it."""
        for copy in filter(in_topic, events):
            for saved in self.lines.past(copy):
                text = f"position saved past it: {saved.words}"
                yield Hop(self._since(saved.t), "wire", text, letters.get(_copy(copy), ""))

    def _steps(
        self, events: Iterable[Event], letters: Mapping[Copy, str]
    ) -> list[tuple[kinds.Batch, str]]:
        """Return, per log copy in the topic, the steps of the batches that read it."""
        return [
            (step, letters.get(_copy(event), ""))
            for event in filter(in_topic, events)
            for step in self.lines.of(kinds.Batch)
            if step.partition == event.partition
            and step.offset <= (event.offset or 0) < step.position
        ]

    def _step(self, event: kinds.Batch, letter: str) -> Hop:
        return Hop(self._ms(event), event.by, f"batch {event.batch}: {event.phase}", letter)


_AT_REST: Final = (
    kinds.Offered,
    kinds.Stored,
    kinds.Recorded,
    kinds.Absorbed,
    kinds.Removed,
    kinds.Moved,
)


def _is_armed(event: Event) -> bool:
    """Whether the event only arms a rule or a fault, or disarms a rule."""
    match event:
        case kinds.Rule():
            return event.phase in (RulePhase.ARMED, RulePhase.DISARMED)
        case kinds.Fault():
            return event.phase == FaultPhase.ARMED
    return False


def _copy(event: Event) -> Copy:
    """Return the identity of the copy that an event is about: its position in a log, else its
    place.
    """
    if isinstance(event, OfPlace):
        if event.offset is not None:
            return event.partition, event.epoch, event.offset
        return _at_place(event.place)
    match event:
        case kinds.Acked() | kinds.Failpoint() if event.offset is not None:
            return event.partition, None, event.offset
        case kinds.ProduceAnswer() if event.offset is not None:
            return None, None, event.offset
        case kinds.ProduceAnswer() | kinds.Moved() | kinds.Rule():
            return _at_place(event.place or None)
    return ()


def _at_place(place: str | None) -> Copy:
    return () if place is None else ("place", place)


def _letters(events: Iterable[Event]) -> dict[Copy, str]:
    """Name the copies of the topic, or queue, between producer and consumer: A, B, ... One that was
    moved keeps its letter.
    """
    events = list(events)
    copies = dict.fromkeys(
        _copy(event)
        for event in events
        if isinstance(event, kinds.Stored) and event.hop == states.Hop.TOPIC
    )
    moves = [event for event in events if isinstance(event, kinds.Moved)]
    for move in moves:
        copies.pop(("place", move.to), None)
    if len(copies) <= 1:
        return {}
    letters = {copy: _letter(number) for number, copy in enumerate(copies)}
    for move in moves:
        letters["place", move.to] = letters.get(_copy(move), "")
    return letters


def _letter(number: int) -> str:
    """Name a copy.

    >>> _letter(0), _letter(25), _letter(26)
    ('A', 'Z', '27')
    """
    return chr(ord("A") + number) if number < 26 else str(number + 1)  # noqa: PLR2004 - the alphabet


def _fate(row: RecordRow) -> tuple[str, str]:
    if row["state"] == State.LOST:
        return "lost", f"lost: {row['last_hop']}{f', {DOUBT}' if row.get('in_doubt') else ''}"
    if row["recordings"] > 1:
        stored, delivered = row["stored_twice"], row["delivered_twice"]
        ways = [f"{stored} stored twice"] if stored else []
        ways += [f"{delivered} delivered twice"] if delivered else []
        return "duplicated", f"recorded {row['recordings']} times: {', '.join(ways)}"
    absorbed = f", {row['absorbed']} more absorbed" if row["absorbed"] else ""
    comma = "" if row["state"] == State.STALLED else ","
    why = f"{comma} {row['why']}" if row.get("why") else ""
    doubt = f", {DOUBT}" if row.get("in_doubt") and row["state"] in LEFT else ""
    return str(row["state"]), f"{row['state']}{why}{doubt}{absorbed}"


Text: TypeAlias = tuple[str, str, bool]
"""The observer (empty: the writer of the line), what happened, and whether it failed."""


def _at(event: OfPlace | kinds.Moved) -> str:
    """Return the place of a copy, or that it is unknown."""
    if isinstance(event, kinds.Moved) or event.offset is None:
        return event.place or "an unknown place"
    epoch = f" epoch {event.epoch}" if event.epoch is not None else ""
    return f"partition {event.partition}{epoch} offset {event.offset}"


def _in_log(event: OfPlace) -> str:
    """Return a copy's position in a log; empty for a copy elsewhere."""
    return f": {_at(event)}" if event.offset is not None else ""


def _sent(event: kinds.OfSend) -> Text:
    number = event.producer_id
    who = (
        f", producer id {number} epoch {event.producer_epoch} sequence {event.sequence}"
        if number not in (-1, None)
        else ""
    )
    attempt = f", attempt {event.attempt}" if event.attempt else ""
    stopped = isinstance(event, kinds.Unsent)
    partition = f" partition {event.partition}" if event.partition is not None else ""
    text = f"{'never arrived' if stopped else 'sent'}: {event.topic}{partition}"
    return "wire", f"{text}, request {event.request}{attempt}{who}", stopped


def _answer(event: kinds.ProduceAnswer) -> Text:
    at = f" at offset {event.offset}" if event.offset is not None else ""
    error = event.error
    said = f"error {error}" if error else "nothing of it" if error is None else f"stored{at}"
    lost = event.reached is False
    return (
        "wire",
        f"the broker's answer: {said}{'; it never reached the client' if lost else ''}",
        lost or bool(error),
    )


def _fetched(event: kinds.Fetched) -> Text:
    lost = event.reached is False
    never = "; it never reached the client" if lost else ""
    return "wire", f"fetched{_in_log(event)}{never}", lost


def _delivered(event: kinds.Delivered) -> Text:
    again = ", again, as the broker says" if event.redelivered else ""
    return "", f"delivered{_in_log(event)}{again}", False


def _gone(event: kinds.Removed) -> Text:
    return "broker", f"taken away from {_at(event)}: {event.why}", event.why != Removal.ACK


def _moved(event: kinds.Moved) -> Text:
    return "broker", f"moved from {_at(event)} to {event.to}", False


def _stored(event: kinds.Stored) -> Text:
    seen = "" if event.visible else ", not visible (aborted, or its transaction is open)"
    attempt = f", attempt {event.attempt}" if event.attempt else ""
    by, where, waits = "log", event.topic, ""
    if event.offset is None:
        by, where = "queue", event.queue
        waits = f", waits: {event.waiting}" if event.waiting else ""
    return by, f"stored in {where}: {_at(event)}{attempt}{seen}{waits}", not event.visible


def _recorded(event: kinds.Recorded) -> Text:
    damaged = "" if event.intact else ", damaged"
    return "sink", f"recorded, row {event.order}: from {_at(event)}{damaged}", bool(damaged)


def _absorbed(event: kinds.Absorbed) -> Text:
    return "sink", f"absorbed: a copy from {_at(event)} was not recorded again", False


def _acked(event: kinds.Acked) -> Text:
    log = f"partition {event.partition} offset {event.offset}"
    where = f" at {log}" if event.offset is not None else ""
    return "", f"the program was told: acknowledged{where}", False


def _refused(event: kinds.OfAttempt) -> Text:
    error = f": {event.error}" if event.error else ""
    word = "refused" if isinstance(event, kinds.Refused) else "nothing certain"
    return "", f"the program was told: {word}{error}", True


_RULE: Final = {
    RulePhase.HIT: "{} struck at this {}",
    RulePhase.HELD: "{} held this {}",
    RulePhase.RELEASED: "{} let this {} go on",
    RulePhase.DELIVERED: "{} let this {} arrive late",
    RulePhase.DISCARDED: "{} discarded this {}",
    RulePhase.DROPPED: "{} dropped this {}",
    RulePhase.CUT: "{} cut the connection of this {}",
    RulePhase.DELAYED: "{} delayed this {}",
    RulePhase.DETACHED: "{} keeps this {} back, and lets the connection go on",
    RulePhase.ANSWERED: "{} answered this {} in the broker's name",
    RulePhase.UNANSWERED: "{} left this {} without an answer",
}


def _rule(event: kinds.Rule) -> Text:
    waves = event.rule in kinds.WAVES
    who = "lostack, to have load around the fault," if waves else "lostack's fault"
    return "wire", _RULE[event.phase].format(who, f"{event.api} {event.dir}"), not waves


def _taken(event: kinds.Taken) -> Text:
    """The program says that it has a record; or lostack that it gave the record to the program."""
    given = event.by == RUNNER
    if event.passed:
        later = f"transactions that began later: {', '.join(event.passed)}"
        return "lostack", f"committed to the table, behind {later}", False
    return ("lostack", "given to the program", False) if given else ("", "in hand", False)


def _offered(event: kinds.Offered) -> Text:
    return "source", f"offered, position {event.position}, key {event.key}", False


def _failpoint(event: kinds.Failpoint) -> Text:
    text = f"failpoint {event.name}, hit {event.hit}: {event.action} pid {event.pid}"
    return "", text, True


def _fault(event: kinds.Fault) -> Text:
    return "lostack", f"lostack's fault ({event.fault}): {event.phase}", True


_TEXTS: Final[Mapping[type[Event], Callable[[Any], Text]]] = {
    kinds.Offered: _offered,
    kinds.Taken: _taken,
    kinds.Sent: _sent,
    kinds.Unsent: _sent,
    kinds.ProduceAnswer: _answer,
    kinds.Fetched: _fetched,
    kinds.Acked: _acked,
    kinds.Refused: _refused,
    kinds.Unknown: _refused,
    kinds.Delivered: _delivered,
    kinds.Stored: _stored,
    kinds.Recorded: _recorded,
    kinds.Removed: _gone,
    kinds.Moved: _moved,
    kinds.Absorbed: _absorbed,
    kinds.Rule: _rule,
    kinds.Failpoint: _failpoint,
    kinds.Fault: _fault,
}
"""The text for each kind of event about a record."""
