"""The path of one record, hop by hop, with its times, partition, epoch, offset and transaction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.model import events as kinds
from harness.model.places import Removal
from harness.model.scenario import Role
from harness.model.states import State
from harness.report.page.lines import Lines, in_topic
from harness.report.page.seen import seen_of
from harness.report.page.usual import usually

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from harness.model.history import Event

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


def anomalous(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the rows of the record table that were lost, set aside or recorded more than once, in
    the order of the source.
    """
    found = [
        row
        for row in rows
        if row["state"] in (State.LOST, State.SET_ASIDE) or row["recordings"] > 1
    ]
    return sorted(found, key=lambda row: int(row["position"]))


class Paths:
    """The paths of one cell's records; an index over its events."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.lines = Lines(events)
        self._transactions: dict[str, list[Event]] = {}
        for event in self.lines.of(kinds.TRANSACTION):
            if event.get("outcome") != "begun":
                self._transactions.setdefault(str(event.get("transaction")), []).append(event)
        self._restarted = bool(self.lines.restarts(str(Role.PRODUCER)))

    def of(self, row: Mapping[str, Any]) -> RecordPath:
        """Return the path of a record, given its row in the account's record table."""
        events = self.lines.about(str(row["record"]))
        letters = _letters(events)
        hops = [self._hop(event, letters) for event in events]
        hops += [self._told(event) for event in self._outcomes(events)]
        hops += list(self._positions(events, letters))
        hops += [self._step(event, letter) for event, letter in self._steps(events, letters)]
        timed = sorted(
            (hop for hop in hops if hop and hop.ms is not None), key=lambda hop: hop.ms or 0.0
        )
        rest = [hop for hop in hops if hop and hop.ms is None]
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
        return self._since(event["t"])

    def _since(self, t: int) -> float:
        return round((t - self.lines.zero) / MS_NS, 1)

    def _hop(self, event: Event, letters: Mapping[tuple[object, ...], str]) -> Hop | None:
        told = _TEXTS.get(event["event"])
        if told is None or event.get("phase") in ("armed", "disarmed"):
            return None
        by, text, bad = told(event)
        rest = event["event"] in _AT_REST
        return Hop(
            None if rest else self._ms(event),
            by or str(event.get("by")),
            text,
            letters.get(_copy(event), ""),
            bad,
        )

    def _outcomes(self, events: Iterable[Event]) -> list[Event]:
        """Return what became of the transactions that the record was sent in."""
        attempts = {str(event["attempt"]) for event in events if event.get("attempt")}
        names = sorted({attempt.rpartition(".")[0] for attempt in attempts})
        return [event for name in names for event in self._transactions.get(name, ())]

    def _told(self, event: Event) -> Hop:
        outcome = str(event.get("outcome"))
        error = f" ({event['error']})" if event.get("error") else ""
        text = f"transaction {event.get('transaction')} {outcome}{error}"
        return Hop(
            self._ms(event), str(event.get("by")), text, bad=outcome not in ("committed", "begun")
        )

    def _positions(
        self, events: Iterable[Event], letters: Mapping[tuple[object, ...], str]
    ) -> Iterator[Hop]:
        """Yield, per log copy in the topic, the first position that each group saved past it."""
        for copy in filter(in_topic, events):
            for saved in self.lines.past(copy):
                text = f"position saved past it: {saved.words}"
                yield Hop(self._since(saved.t), "wire", text, letters.get(_copy(copy), ""))

    def _steps(
        self, events: Iterable[Event], letters: Mapping[tuple[object, ...], str]
    ) -> list[tuple[Event, str]]:
        """Return, per log copy in the topic, the steps of the batches that read it."""
        return [
            (step, letters.get(_copy(event), ""))
            for event in filter(in_topic, events)
            for step in self.lines.of(kinds.BATCH)
            if step.get("partition") == event.get("partition")
            and int(step.get("offset") or 0)
            <= int(event.get("offset") or 0)
            < int(step.get("position") or 0)
        ]

    def _step(self, event: Event, letter: str) -> Hop:
        return Hop(
            self._ms(event),
            str(event.get("by")),
            f"batch {event.get('batch')}: {event.get('phase')}",
            letter,
        )


_AT_REST = frozenset(
    {kinds.OFFERED, kinds.STORED, kinds.RECORDED, kinds.ABSORBED, kinds.REMOVED, kinds.MOVED}
)


def _copy(event: Event) -> tuple[object, ...]:
    """Name the copy that a line is about: by what is said of it where it stands in a log, else by
    its place.
    """
    if event.get("offset") is None:
        return ("place", event["place"]) if event.get("place") is not None else ()
    return event.get("partition"), event.get("epoch"), event.get("offset")


def _letters(events: Iterable[Event]) -> dict[tuple[object, ...], str]:
    """Name the copies of the topic, or queue, between producer and consumer: A, B, ... One that was
    moved keeps its letter.
    """
    events = list(events)
    copies = dict.fromkeys(
        _copy(event)
        for event in events
        if event["event"] == kinds.STORED and event.get("hop") == "topic"
    )
    for move in (event for event in events if event["event"] == kinds.MOVED):
        copies.pop(("place", move.get("to")), None)
    if len(copies) <= 1:
        return {}
    letters = {copy: _letter(number) for number, copy in enumerate(copies)}
    for move in (event for event in events if event["event"] == kinds.MOVED):
        letters["place", move.get("to")] = letters.get(_copy(move), "")
    return letters


def _letter(number: int) -> str:
    """Name a copy.

    >>> _letter(0), _letter(25), _letter(26)
    ('A', 'Z', '27')
    """
    return chr(ord("A") + number) if number < 26 else str(number + 1)  # noqa: PLR2004 - the alphabet


def _fate(row: Mapping[str, Any]) -> tuple[str, str]:
    if row["state"] == State.LOST:
        return "lost", f"lost: {row['last_hop']}"
    if row["recordings"] > 1:
        ways = [
            f"{int(row[name])} {text}"
            for name, text in (
                ("stored_twice", "stored twice"),
                ("delivered_twice", "delivered twice"),
            )
            if row[name]
        ]
        return "duplicated", f"recorded {int(row['recordings'])} times: {', '.join(ways)}"
    absorbed = f", {int(row['absorbed'])} more absorbed" if row["absorbed"] else ""
    return str(row["state"]), f"{row['state']}{absorbed}"


def _at(event: Event) -> str:
    """Say where a copy stands, or that nobody says it."""
    if event.get("offset") is None:
        return str(event.get("place") or "an unknown place")
    epoch = f" epoch {event['epoch']}" if event.get("epoch") is not None else ""
    return f"partition {event.get('partition')}{epoch} offset {event.get('offset')}"


def _sent(event: Event) -> tuple[str, str, bool]:
    number = event.get("producer_id", -1)
    who = (
        (
            f", producer id {number} epoch {event.get('producer_epoch')} sequence "
            f"{event.get('sequence')}"
        )
        if number != -1
        else ""
    )
    attempt = f", attempt {event['attempt']}" if event.get("attempt") else ""
    stopped = event["event"] == kinds.UNSENT
    partition = f" partition {event['partition']}" if event.get("partition") is not None else ""
    text = f"{'never arrived' if stopped else 'sent'}: {event.get('topic')}{partition}"
    return "wire", f"{text}, request {event.get('request')}{attempt}{who}", stopped


def _answer(event: Event) -> tuple[str, str, bool]:
    at = f" at offset {event['offset']}" if event.get("offset") is not None else ""
    error = event.get("error")
    said = f"error {error}" if error else "nothing of it" if error is None else f"stored{at}"
    lost = event.get("reached") is False
    return (
        "wire",
        f"the broker's answer: {said}{'; it never reached the client' if lost else ''}",
        lost or bool(event.get("error")),
    )


def _fetched(event: Event) -> tuple[str, str, bool]:
    lost = event.get("reached") is False
    at = f": {_at(event)}" if event.get("offset") is not None else ""
    return "wire", f"fetched{at}{'; it never reached the client' if lost else ''}", lost


def _delivered(event: Event) -> tuple[str, str, bool]:
    again = ", again, as the broker says" if event.get("redelivered") else ""
    at = f": {_at(event)}" if event.get("offset") is not None else ""
    return "", f"delivered{at}{again}", False


def _gone(event: Event) -> tuple[str, str, bool]:
    return (
        "broker",
        f"taken away from {_at(event)}: {event.get('why')}",
        event.get("why") != Removal.ACK,
    )


def _moved(event: Event) -> tuple[str, str, bool]:
    return "broker", f"moved from {_at(event)} to {event.get('to')}", False


def _stored(event: Event) -> tuple[str, str, bool]:
    seen = "" if event.get("visible") else ", not visible (aborted, or its transaction is open)"
    attempt = f", attempt {event['attempt']}" if event.get("attempt") else ""
    if event.get("offset") is None:
        waits = f", waits: {event['waiting']}" if event.get("waiting") else ""
        return (
            "queue",
            f"stored in {event.get('queue')}: {_at(event)}{attempt}{seen}{waits}",
            not event.get("visible"),
        )
    return (
        "log",
        f"stored in {event.get('topic')}: {_at(event)}{attempt}{seen}",
        not event.get("visible"),
    )


def _recorded(event: Event) -> tuple[str, str, bool]:
    damaged = "" if event.get("intact", True) else ", damaged"
    return "sink", f"recorded, row {event.get('order')}: from {_at(event)}{damaged}", bool(damaged)


def _told(word: str, *, bad: bool) -> Any:
    def text(event: Event) -> tuple[str, str, bool]:
        error = f": {event['error']}" if event.get("error") else ""
        where = f" at {_at(event)}" if event.get("offset") is not None else ""
        return "", f"the program was told: {word}{where}{error}", bad

    return text


_RULE = {
    "hit": "{} struck at this {}",
    "held": "{} held this {}",
    "released": "{} let this {} go on",
    "delivered": "{} let this {} arrive late",
    "discarded": "{} discarded this {}",
    "dropped": "{} dropped this {}",
    "cut": "{} cut the connection of this {}",
    "delayed": "{} delayed this {}",
    "detached": "{} keeps this {} back, and lets the connection go on",
    "answered": "{} answered this {} in the broker's name",
    "unanswered": "{} left this {} without an answer",
}


def _rule(event: Event) -> tuple[str, str, bool]:
    waves = event.get("rule") in kinds.WAVES
    who = "lostack, to have load around the fault," if waves else "lostack's fault"
    frame = f"{event.get('api')} {event.get('dir')}"
    phase = str(event.get("phase"))
    return "wire", _RULE.get(phase, f"{{}}: {phase}, {{}}").format(who, frame), not waves


def _taken(event: Event) -> tuple[str, str, bool]:
    """The program says that it has a record; or lostack that it gave the record to the program."""
    given = event.get("by") == RUNNER
    return ("lostack", "given to the program", False) if given else ("", "in hand", False)


_TEXTS: dict[str, Any] = {
    kinds.OFFERED: lambda e: (
        "source",
        f"offered, position {e.get('position')}, key {e.get('key')}",
        False,
    ),
    kinds.TAKEN: _taken,
    kinds.SENT: _sent,
    kinds.UNSENT: _sent,
    kinds.PRODUCE_ANSWER: _answer,
    kinds.FETCHED: _fetched,
    kinds.ACKED: _told("acknowledged", bad=False),
    kinds.REFUSED: _told("refused", bad=True),
    kinds.UNKNOWN: _told("nothing certain", bad=True),
    kinds.DELIVERED: _delivered,
    kinds.STORED: _stored,
    kinds.RECORDED: _recorded,
    kinds.REMOVED: _gone,
    kinds.MOVED: _moved,
    kinds.ABSORBED: lambda e: (
        "sink",
        f"absorbed: a copy from {_at(e)} was not recorded again",
        False,
    ),
    kinds.RULE: _rule,
    kinds.FAILPOINT: lambda e: (
        "",
        f"failpoint {e.get('name')}, hit {e.get('hit')}: {e.get('action')} pid {e.get('pid')}",
        True,
    ),
    kinds.FAULT: lambda e: (
        "lostack",
        f"lostack's fault ({e.get('fault')}): {e.get('phase')}",
        True,
    ),
}
