"""What a history shows of a lost or duplicated record, in one sentence; and what usually does this.

The sentence is made of lines of the history only: each of its parts names an act, who did it and
when. Why a program did so stands in no history: :func:`usually` says what most often does, and is
always shown apart from the sentence, marked as such.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.judge.deaths import how_it_ended
from harness.model import events as kinds
from harness.model.prediction import examples
from harness.model.scenario import BROKERS, Role
from harness.model.states import Hop, LastHop, State

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from harness.model.history import Event

MOST_LIVES = 3
"""How many ends and starts of programs a sentence names."""
DISPOSED = frozenset({"discarded", "dropped", "cut", "answered"})
"""What a rule does to a frame that then never arrives."""


@dataclass(frozen=True, slots=True)
class _Turn:
    """A process of a role ended, was paused, or came back."""

    t: int
    role: str
    words: str
    starts: bool = False


class Lines:
    """The lines of a history that sentences are made of, found once for all records of a cell."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.zero: int = events[0]["t"] if events else 0
        self.by_record: dict[str, list[Event]] = {}
        self._of: dict[str, list[Event]] = {}
        for event in events:
            self._of.setdefault(event["event"], []).append(event)
            for record in _records(event):
                self.by_record.setdefault(record, []).append(event)
        drained = [e["t"] for e in self.of(kinds.DRAIN) if e.get("phase") != "begun"]
        lives = [e for e in self.of(kinds.NODE) if not drained or e["t"] < drained[0]]
        self.turns = list(filter(None, map(_turn, lives)))  # later ends are of the harness
        self.saved = self.arrived(kinds.COMMITTED)
        self.sends = self.of(kinds.SENT)
        self.fetches = self.arrived(kinds.FETCHED)
        self.rules = [e for e in self.of(kinds.RULE) if e.get("rule") not in kinds.WAVES]
        faults = self.of(kinds.FAULT)
        self.forgot = [e for e in faults if e.get("phase") == "forgot"]
        self.fired = next((e["t"] for e in faults if e.get("phase") == "fired"), None)
        copies = self.of(kinds.STORED)
        self.topics = {str(e.get("topic")) for e in copies if e.get("hop") == Hop.TOPIC}
        self._conns = {e.get("conn"): str(e.get("role")) for e in self.of(kinds.FRAME)}

    def of(self, kind: str) -> list[Event]:
        """Return the lines of a kind."""
        return self._of.get(kind, [])

    def arrived(self, kind: str) -> list[Event]:
        """Return the lines of a kind but for those of frames that never arrived."""
        return [event for event in self.of(kind) if event.get("reached") is not False]

    def at(self, event: Event | _Turn) -> str:
        """Say when something happened, in seconds since the cell began."""
        t: int = event.t if isinstance(event, _Turn) else event["t"]
        return f"{(t - self.zero) / 1e9:.1f} s"

    def role(self, event: Event, default: str) -> str:
        """Return the role of the program on whose connection a record passed."""
        conn = event.get("conn")
        if conn is None:
            name = str(event.get("request")).partition(":")[0]
            conn = int(name) if name.isdecimal() else name
        return self._conns.get(conn, default)

    def lives(self, role: str, since: int) -> list[_Turn]:
        """Return what became of the processes of a role from a moment on."""
        return [turn for turn in self.turns if turn.role == role and turn.t >= since]

    def brokers(self, since: int) -> list[_Turn]:
        """Return what became of the brokers from a moment on."""
        roles = {str(role) for role in BROKERS}
        return [turn for turn in self.turns if turn.role in roles and turn.t >= since]


def _records(event: Event) -> Iterable[str]:
    many = event["records"] if isinstance(event.get("records"), list) else [event.get("record")]
    return [record for record in many if isinstance(record, str)]


def _turn(event: Event) -> _Turn | None:
    """Return what a line about a node says of its process; ``None`` if it says nothing here."""
    phase, role = event.get("phase"), str(event.get("role"))
    if phase == "started" and (event.get("incarnation") or 1) > 1:
        return _Turn(event["t"], role, "was started again", starts=True)
    if phase == "paused":
        return _Turn(event["t"], role, "was paused")
    if phase == "resumed":
        return _Turn(event["t"], role, "went on", starts=True)
    if phase != "exited":
        return None
    return _Turn(event["t"], role, how_it_ended(event))


def seen_of(row: Mapping[str, Any], lines: Lines) -> str:
    """Say in one sentence what the history shows of a record; empty if nothing went wrong."""
    told = lines.by_record.get(str(row["record"]), [])
    if row["state"] in (State.LOST, State.SET_ASIDE):
        parts = _lost(row, told, lines)
    elif row["recordings"] > 1:
        parts = _twice(row, told, lines)
    else:
        return ""
    return "; ".join(part for part in parts if part)


def _lost(row: Mapping[str, Any], told: Sequence[Event], lines: Lines) -> Iterator[str]:
    hop = row["last_hop"]
    if hop in (LastHop.NEVER_SENT, LastHop.SENT, LastHop.ACKED):
        yield from _before_the_log(hop, told, lines)
    elif hop == LastHop.ABORTED:
        yield from _stored(told, lines)
        yield from _outcomes(told, lines)
        yield from _afterwards(told, lines, kinds.SENT)
    else:
        yield from _stored(told, lines)
        yield from _removed(told)
        yield from _read(hop, told, lines)


def _before_the_log(hop: str, told: Sequence[Event], lines: Lines) -> Iterator[str]:
    """What a record that is in no log shows: it was given, sent, answered."""
    sent = [event for event in told if event["event"] == kinds.SENT]
    unsent = [event for event in told if event["event"] == kinds.UNSENT]
    taken = next((event for event in told if event["event"] == kinds.TAKEN), None)
    if not sent and not unsent:
        given = f"taken from the source at {lines.at(taken)}, and " if taken else ""
        yield f"{given}no request with it was seen on the wire"
    for event in unsent:
        yield _stopped(event, lines)
    if sent:
        yield _times("sent", sent, lines)
    yield from _answers(told, lines)
    yield from _forgotten(lines)
    yield from _afterwards(told, lines, kinds.SENT)
    if hop != LastHop.NEVER_SENT:
        yield "at rest no log has a copy of it"


def _stopped(event: Event, lines: Lines) -> str:
    """Say what kept a request from the broker: lostack's fault, or the end of its connection."""
    conn, _, corr = str(event.get("request")).partition(":")
    mine = [
        rule
        for rule in lines.rules
        if str(rule.get("conn")) == conn
        and str(rule.get("corr")) == corr
        and rule.get("dir") == "request"
        and rule.get("phase") in DISPOSED
    ]
    if mine:
        word = "refused" if mine[-1].get("phase") == "answered" else "discarded"
        return f"its request was {word} by lostack's fault at {lines.at(mine[-1])}"
    return f"its request of {lines.at(event)} did not reach the broker"


def _times(word: str, events: Sequence[Event], lines: Lines) -> str:
    """Say how often and when something happened.

    >>> _times("sent", [{"t": 0}], Lines([]))
    'sent at 0.0 s'
    """
    moments = [lines.at(event) for event in events]
    if len(moments) == 1:
        return f"{word} at {moments[0]}"
    return f"{word} {len(moments)} times, first at {moments[0]} and last at {moments[-1]}"


def _answers(told: Sequence[Event], lines: Lines) -> Iterator[str]:
    """What the program was told of it."""
    answers = [event for event in told if event["event"] == kinds.PRODUCE_ANSWER]
    for event in answers[-1:]:
        error = event.get("error")
        said = f"the broker refused it (error {error})" if error else "the broker acknowledged it"
        lost = ", and the answer never reached the client" if event.get("reached") is False else ""
        yield f"{said} at {lines.at(event)}{lost}"
    if not answers and any(event["event"] == kinds.SENT for event in told):
        yield "no answer to it was seen"
    words = {kinds.REFUSED: "refused", kinds.UNKNOWN: "nothing certain"}
    for event in [event for event in told if event["event"] in words][-1:]:
        error = f": {event['error']}" if event.get("error") else ""
        yield f"at {lines.at(event)} the program was told: {words[event['event']]}{error}"


def _forgotten(lines: Lines) -> Iterator[str]:
    """A power loss: files went back to what was flushed."""
    if lines.forgot:
        yield f"at {lines.at(lines.forgot[0])} its log went back to what had been flushed"


def _afterwards(told: Sequence[Event], lines: Lines, what: str) -> Iterator[str]:
    """Lives of the program that a record was lost with, and what came of other records after that.

    ``what``: the event by which the program moves a record: it sent it, or was given it.
    """
    sending = what == kinds.SENT
    moved = (kinds.TAKEN, kinds.SENT, kinds.UNSENT) if sending else (kinds.FETCHED, kinds.DELIVERED)
    own = [event for event in told if event["event"] in moved]
    wired = [event for event in own if event["event"] not in (kinds.TAKEN, kinds.DELIVERED)]
    default = str(Role.PRODUCER if sending else Role.CONSUMER)
    role = lines.role(wired[0], default) if wired else default
    since = own[0]["t"] if own else lines.fired
    if since is None:
        return
    turns = lines.lives(role, since)
    if sending:
        yield from _ended("the broker", lines.brokers(since), lines)
    yield from _ended(f"the {role}", turns, lines)
    last = max((event["t"] for event in own), default=since)
    starts = [turn.t for turn in turns if turn.starts]
    after = max(last, starts[0] if starts else last)
    others = {
        event.get("record")
        for event in (lines.sends if sending else lines.fetches)
        if event["t"] > after
        and lines.role(event, role) == role
        and (not lines.topics or str(event.get("topic")) in lines.topics)
    } - {event.get("record") for event in own}
    others.discard(None)
    later = [event for event in own if event["t"] > after]
    word = "sent" if sending else "given"
    count = f"{len(others)} other{'' if len(others) == 1 else 's'}"
    if others and not later:
        subject = f"after that the {role} {'sent' if sending else 'was given'}"
        yield f"{subject} {count}, and this one never again"
    elif not others:
        yield f"nothing more was {word} after that"


def _ended(subject: str, turns: Sequence[_Turn], lines: Lines) -> Iterator[str]:
    if turns:
        said = [f"{turn.words} at {lines.at(turn)}" for turn in turns[:MOST_LIVES]]
        more = f" and so on ({len(turns)} times)" if len(turns) > MOST_LIVES else ""
        yield f"{subject} {', '.join(said)}{more}"


def _place(event: Event) -> str:
    if event.get("offset") is None:
        return str(event.get("place") or event.get("queue") or "an unknown place")
    return f"partition {event.get('partition')} offset {event['offset']}"


def _stored(told: Sequence[Event], lines: Lines) -> Iterator[str]:  # noqa: ARG001 - as the others
    copies = [e for e in told if e["event"] == kinds.STORED and e.get("hop") == Hop.TOPIC]
    if copies:
        places = examples({_place(copy) for copy in copies}, MOST_LIVES)
        yield f"stored at {places}" if len(copies) == 1 else f"stored {len(copies)} times: {places}"


def _outcomes(told: Sequence[Event], lines: Lines) -> Iterator[str]:
    attempts = {str(event["attempt"]).rpartition(".")[0] for event in told if event.get("attempt")}
    for event in lines.of(kinds.TRANSACTION):
        if event.get("outcome") != "begun" and str(event.get("transaction")) in attempts:
            error = f" ({event['error']})" if event.get("error") else ""
            yield f"its transaction was {event.get('outcome')} at {lines.at(event)}{error}"


def _removed(told: Sequence[Event]) -> Iterator[str]:
    for event in told:
        if event["event"] == kinds.REMOVED:
            yield f"the broker took it away from {_place(event)} ({event.get('why')})"
        elif event["event"] == kinds.MOVED:
            yield f"it was moved to {event.get('to')}"


def _read(hop: str | None, told: Sequence[Event], lines: Lines) -> Iterator[str]:
    """What a stored record shows behind its log: given to a reader, passed by a saved position."""
    given = _givings(told)
    lost = [e for e in told if e["event"] == kinds.FETCHED and e.get("reached") is False]
    for event in lost[:1]:
        yield f"the answer with it, at {lines.at(event)}, never reached the reader"
    if given:
        yield _times("given to a reader", given, lines)
    elif hop == LastHop.SKIPPED:
        yield "never given to a reader"
    yield from _passed(told, lines)
    if given or hop in (LastHop.SKIPPED, LastHop.DELIVERED):
        yield from _afterwards(told, lines, kinds.FETCHED)
    if hop == LastHop.DELIVERED:
        yield "the output has no row of it"


def _givings(told: Sequence[Event]) -> list[Event]:
    """Return when a reader got a record: by the wire, or if that saw nothing by the program."""
    wire = [e for e in told if e["event"] == kinds.FETCHED and e.get("reached") is not False]
    return wire or [e for e in told if e["event"] == kinds.DELIVERED]


def _passed(told: Sequence[Event], lines: Lines) -> Iterator[str]:
    """When a position was first saved past the record's copies, and if a fault kept that away."""
    for copy in (e for e in told if e["event"] == kinds.STORED and e.get("hop") == Hop.TOPIC):
        if copy.get("offset") is None:
            continue
        past = (
            saved
            for saved in lines.saved
            if saved.get("partition") == copy.get("partition")
            and str(saved.get("topic")) == str(copy.get("topic"))
            and int(saved.get("offset") or 0) > int(copy["offset"])
        )
        if first := next(past, None):
            yield f"the position was saved past it at {lines.at(first)} (to {first.get('offset')})"
        return
    for event in told:
        if event["event"] == kinds.ACKNOWLEDGED and event.get("outcome") is None:
            yield f"acknowledged ({event.get('how')}) at {lines.at(event)}"
            return


def _twice(row: Mapping[str, Any], told: Sequence[Event], lines: Lines) -> Iterator[str]:
    """What a record shows that is recorded more than once."""
    if row["stored_twice"]:
        sent = [event for event in told if event["event"] == kinds.SENT]
        if sent:
            yield _times("sent", sent, lines)
            yield from _between(sent, lines, str(Role.PRODUCER))
        yield from _unheard(told, lines)
        yield from _stored(told, lines)
    if row["delivered_twice"]:
        given = _givings(told)
        yield _times("given to a reader", given, lines) if given else ""
        yield from _between(given, lines, str(Role.CONSUMER))
        yield from _kept_back(lines)
    yield f"the output has {row['recordings']} rows of it"


def _between(moves: Sequence[Event], lines: Lines, default: str) -> Iterator[str]:
    """What became of the program between the first time that it moved a record and the last."""
    if len(moves) > 1:
        role = lines.role(moves[0], default)
        turns = [t for t in lines.lives(role, moves[0]["t"]) if t.t <= moves[-1]["t"]]
        yield from _ended(f"in between the {role}", turns, lines)
        brokers = [t for t in lines.brokers(moves[0]["t"]) if t.t <= moves[-1]["t"]]
        yield from _ended("in between the broker", brokers, lines)


def _unheard(told: Sequence[Event], lines: Lines) -> Iterator[str]:
    """An acknowledgement that never reached the client."""
    for event in told:
        if event["event"] == kinds.PRODUCE_ANSWER and event.get("reached") is False:
            yield f"the answer of {lines.at(event)} never reached the client"
            return


def _kept_back(lines: Lines) -> Iterator[str]:
    """A commit that lostack's fault kept from the broker."""
    for rule in lines.rules:
        commits = "Commit" in str(rule.get("api")) or "ACK" in str(rule.get("api"))
        if rule.get("phase") in DISPOSED and rule.get("dir") == "request" and commits:
            request = f"the {rule.get('api')} request"
            yield f"{request} was discarded by lostack's fault at {lines.at(rule)}"
            return


MARKED = "what usually does this (no line of the history shows that it did here): {}"
"""How :func:`usually` is shown."""
_RESTARTED = (
    "the source's cursor, or the mark that a record is sent, is saved before the acknowledgement, "
    "and the program that starts again passes over the record"
)
_GAVE_UP = (
    "the program does not look at what a send returns, or gives up after its retries or its "
    "delivery time-out"
)
_USUALLY = {
    LastHop.ACKED: "acks=1 or acks=0, an unclean election, or a broker that lost what it had not "
    "flushed",
    LastHop.ABORTED: "the source's cursor is saved outside of the transaction, or records of an "
    "aborted transaction are not sent again",
    LastHop.SKIPPED: "a position is saved for records that were not read (a commit of the "
    "newest position, auto.offset.reset=latest where the group has no position), or kept in the "
    "program over a rebalance",
    LastHop.DELIVERED: "the position is saved before the result is recorded: auto-commit, a commit "
    "before the work, or work in another thread",
    LastHop.GIVEN_UP: "the message is acknowledged as it is dispatched, or automatically, before "
    "the work",
    LastHop.DELETED: "retention removed it before its reader came",
    LastHop.COMPACTED: "a later record of the same key took its place",
    LastHop.DUPLICATE: "a record's id, or its sequence number, was used again",
}


def usually(row: Mapping[str, Any], lines: Lines) -> str:
    """Say what usually does this to a record. No line of the history says that it did here."""
    if row["state"] == State.LOST and row["last_hop"] in (LastHop.NEVER_SENT, LastHop.SENT):
        role = str(Role.PRODUCER)
        return _RESTARTED if any(t.starts for t in lines.lives(role, lines.zero)) else _GAVE_UP
    if row["state"] == State.LOST:
        return _USUALLY.get(row["last_hop"], "")
    if row["recordings"] > 1:
        told = []
        if row["stored_twice"]:
            told.append(
                "the producer sends again what may have been stored (a retry without idempotence, "
                "or a source's cursor saved after the acknowledgement), and nothing recognises it"
            )
        if row["delivered_twice"]:
            told.append(
                "the result is recorded before the position is saved, and not in one transaction; "
                "the output has no key that refuses a repeat"
            )
        return "; ".join(told)
    return ""
