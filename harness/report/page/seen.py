"""What a history shows of a lost or duplicated record, in one sentence; and what usually does this.

The sentence is made of lines of the history only: each of its parts names an act, who did it and
when. Why a program did so stands in no history: :func:`usually` says what most often does, and is
always shown apart from the sentence, marked as such.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

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
Part: TypeAlias = "tuple[int | None, str]"
"""A part of a sentence, and the monotonic time (ns) of what it tells; ``None``: it tells how
something was at rest.
"""


@dataclass(frozen=True, slots=True)
class _Turn:
    """A process of a node ended, was paused, or came back."""

    t: int
    role: str
    node: str
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

    def lives(self, role: str, since: int, until: int | None = None) -> list[_Turn]:
        """Return what became of the processes of a role from a moment on, or between two."""
        return [
            turn
            for turn in self.turns
            if turn.role == role and turn.t >= since and (until is None or turn.t <= until)
        ]

    def brokers(self, since: int, until: int | None = None) -> list[_Turn]:
        """Return what became of the brokers from a moment on, or between two."""
        found = (turn for role in BROKERS for turn in self.lives(str(role), since, until))
        return sorted(found, key=lambda turn: turn.t)

    def disposed(self) -> list[Event]:
        """Return the lines of rules that kept a frame from arriving for good."""
        delivered = {
            (rule.get("conn"), rule.get("corr"), rule.get("dir"))
            for rule in self.rules
            if rule.get("phase") == "delivered"
        }
        return [
            rule
            for rule in self.rules
            if rule.get("phase") in DISPOSED
            and not rule.get("forward")
            and (rule.get("conn"), rule.get("corr"), rule.get("dir")) not in delivered
        ]


def _records(event: Event) -> Iterable[str]:
    many = event["records"] if isinstance(event.get("records"), list) else [event.get("record")]
    return [record for record in many if isinstance(record, str)]


def _turn(event: Event) -> _Turn | None:
    """Return what a line about a node says of its process; ``None`` if it says nothing here."""
    phase = event.get("phase")
    of = event["t"], str(event.get("role")), str(event.get("node"))
    if phase == "started" and (event.get("incarnation") or 1) > 1:
        return _Turn(*of, "was started again", starts=True)
    if phase == "paused":
        return _Turn(*of, "was paused")
    if phase == "resumed":
        return _Turn(*of, "went on", starts=True)
    if phase != "exited" or (event.get("status") == 0 and not event.get("asked")):
        return None  # who has done all its work ends with status 0
    return _Turn(*of, how_it_ended(event))


def seen_of(row: Mapping[str, Any], lines: Lines) -> str:
    """Say in one sentence what the history shows of a record, in the order of time; empty if
    nothing went wrong.
    """
    told = lines.by_record.get(str(row["record"]), [])
    if row["state"] in (State.LOST, State.SET_ASIDE):
        parts = _lost(row, told, lines)
    elif row["recordings"] > 1:
        parts = _twice(row, told, lines)
    else:
        return ""
    return "; ".join(_in_order(parts))


def _in_order(parts: Iterable[Part]) -> list[str]:
    """Return the words of the parts in the order of time. What was at rest stays behind what it was
    told after.

    >>> _in_order([(3, "sent"), (None, "stored"), (7, "killed"), (5, "answered")])
    ['sent', 'stored', 'answered', 'killed']
    """
    times, last = [], -1
    for t, words in parts:
        last = max(last, -1 if t is None else t)
        times.append((last if t is None else t, words))
    return [words for _, words in sorted(times, key=lambda part: part[0])]


def _lost(row: Mapping[str, Any], told: Sequence[Event], lines: Lines) -> Iterator[Part]:
    hop = row["last_hop"]
    if hop in (LastHop.NEVER_SENT, LastHop.SENT, LastHop.ACKED):
        yield from _before_the_log(hop, told, lines)
    elif hop == LastHop.ABORTED:
        yield from _stored(told)
        yield from _outcomes(told, lines)
        yield from _afterwards(told, lines, kinds.SENT)
    else:
        yield from _stored(told)
        yield from _removed(told)
        yield from _read(hop, told, lines)


def _before_the_log(hop: str, told: Sequence[Event], lines: Lines) -> Iterator[Part]:
    """What a record that is in no log shows: it was given, sent, answered."""
    sent = [event for event in told if event["event"] == kinds.SENT]
    unsent = [event for event in told if event["event"] == kinds.UNSENT]
    if not sent and not unsent:
        yield from _unseen(hop, told, lines)
    for event in unsent:
        yield event["t"], _stopped(event, lines)
    yield from _sends(sent, lines)
    yield from _answers(told, lines)
    yield from _forgotten(sent, lines)
    yield from _afterwards(told, lines, kinds.SENT)
    if hop != LastHop.NEVER_SENT:
        yield None, "at rest no log has a copy of it"


def _unseen(hop: str, told: Sequence[Event], lines: Lines) -> Iterator[Part]:
    """A record that no request was seen to carry: what the program says of it."""
    unseen = "no request with it was seen on the wire"
    taken = next((event for event in told if event["event"] == kinds.TAKEN), None)
    if hop == LastHop.SENT:
        yield taken["t"] if taken else None, f"the program says that it sent it, but {unseen}"
    elif taken:
        yield taken["t"], f"taken from the source at {lines.at(taken)}, and {unseen}"
    else:
        yield None, unseen


def _stopped(event: Event, lines: Lines) -> str:
    """Say what kept a request from the broker: lostack's fault, or the end of its connection."""
    conn, _, corr = str(event.get("request")).partition(":")
    mine = [
        rule
        for rule in lines.disposed()
        if str(rule.get("conn")) == conn
        and str(rule.get("corr")) == corr
        and rule.get("dir") == "request"
    ]
    if mine:
        return f"its request was {_disposed(mine[-1])} by lostack's fault at {lines.at(mine[-1])}"
    return f"its request of {lines.at(event)} did not reach the broker"


def _disposed(rule: Event) -> str:
    return "refused" if rule.get("phase") == "answered" else "discarded"


def _by_role(events: Sequence[Event], lines: Lines, default: str) -> dict[str, list[Event]]:
    """Return the events by the role on whose connection they were seen."""
    found: dict[str, list[Event]] = {}
    for event in events:
        found.setdefault(lines.role(event, default), []).append(event)
    return found


def _sends(sent: Sequence[Event], lines: Lines) -> Iterator[Part]:
    """How often and when each role sent it."""
    by_role = _by_role(sent, lines, str(Role.PRODUCER))
    for role, events in by_role.items():
        yield _times(f"sent by the {role}" if len(by_role) > 1 else "sent", events, lines)


def _times(word: str, events: Sequence[Event], lines: Lines) -> Part:
    """Say how often and when something happened.

    >>> _times("sent", [{"t": 0}], Lines([]))
    (0, 'sent at 0.0 s')
    """
    moments = [lines.at(event) for event in events]
    if len(moments) == 1:
        return events[0]["t"], f"{word} at {moments[0]}"
    often = f"{word} {len(moments)} times, first at {moments[0]} and last at {moments[-1]}"
    return events[0]["t"], often


def _answers(told: Sequence[Event], lines: Lines) -> Iterator[Part]:
    """What the program was told of it."""
    answers = [event for event in told if event["event"] == kinds.PRODUCE_ANSWER]
    for event in answers[-1:]:
        error = event.get("error")
        said = f"the broker refused it (error {error})" if error else "the broker acknowledged it"
        lost = ", and the answer never reached the client" if event.get("reached") is False else ""
        yield event["t"], f"{said} at {lines.at(event)}{lost}"
    if not answers and any(event["event"] == kinds.SENT for event in told):
        yield None, "no answer to it was seen"
    words = {kinds.REFUSED: "refused", kinds.UNKNOWN: "nothing certain"}
    for event in [event for event in told if event["event"] in words][-1:]:
        error = f": {event['error']}" if event.get("error") else ""
        said = f"at {lines.at(event)} the program was told: {words[event['event']]}{error}"
        yield event["t"], said


def _forgotten(sent: Sequence[Event], lines: Lines) -> Iterator[Part]:
    """A power loss: the file of a partition that it was sent to lost bytes after that."""
    first: dict[str, int] = {}
    for event in sent:
        first.setdefault(f"{event.get('topic')}-{event.get('partition')}", event["t"])
    for loss in lines.forgot:
        shorter = (loss.get("bytes_after") or 0) < (loss.get("bytes_before") or 0)
        if shorter and first.get(str(loss.get("file")), loss["t"]) < loss["t"]:
            words = f"at {lines.at(loss)} its log went back to what had been flushed"
            yield loss["t"], words
            return


def _afterwards(told: Sequence[Event], lines: Lines, what: str) -> Iterator[Part]:
    """What became of the program behind its last move of the record, and how it moved others.

    ``what``: the event by which the program moves a record: it sent it, or was given it.
    """
    sending = what == kinds.SENT
    moved = (kinds.TAKEN, kinds.SENT) if sending else (kinds.FETCHED, kinds.DELIVERED)
    own = [event for event in told if event["event"] in moved]
    if sending:
        own = sorted((*own, *_kept_from_the_broker(told)), key=lambda event: int(event["t"]))
    wired = [event for event in own if event["event"] not in (kinds.TAKEN, kinds.DELIVERED)]
    default = str(Role.PRODUCER if sending else Role.CONSUMER)
    role = lines.role(wired[-1], default) if wired else default
    last = own[-1]["t"] if own else lines.fired
    if last is None:
        return
    if sending:
        yield from _ended("the broker", lines.brokers(last), lines)
    turns = lines.lives(role, last)
    yield from _ended(f"the {role}", turns, lines)
    named = (event["record"] for event in told if event["event"] in (*moved, kinds.UNSENT))
    record = next(named, None)
    others = [
        event
        for event in (lines.sends if sending else lines.fetches)
        if event["t"] > last
        and event.get("record") not in (None, record)
        and lines.role(event, role) == role
        and (not lines.topics or str(event.get("topic")) in lines.topics)
    ]
    if not others:
        yield None, f"nothing more was {'sent' if sending else 'given'} after that"
        return
    restarted = next((turn.t for turn in turns if turn.starts), last)
    since = restarted if any(event["t"] > restarted for event in others) else last
    count = len({event["record"] for event in others if event["t"] > since})
    subject = f"after that the {role} {'sent' if sending else 'was given'}"
    yield since, f"{subject} {count} other{'' if count == 1 else 's'}, and this one never again"


def _kept_from_the_broker(told: Sequence[Event]) -> list[Event]:
    """Return when requests with a record were held on their way, or if none was, when it was seen
    that they did not arrive. Of a held request that is seen only when it is discarded.
    """
    held = [
        event
        for event in told
        if event["event"] == kinds.RULE
        and event.get("phase") == "held"
        and event.get("dir") == "request"
    ]
    return held or [event for event in told if event["event"] == kinds.UNSENT]


def _ended(subject: str, turns: Sequence[_Turn], lines: Lines) -> Iterator[Part]:
    """Tell the turns of each node, up to its next start in one part. A node is named where the role
    has several.
    """
    nodes = {turn.node for turn in turns}
    for node in dict.fromkeys(turn.node for turn in turns):
        mine = [turn for turn in turns if turn.node == node]
        who = f"{subject} {node}" if len(nodes) > 1 else subject
        for first, second in _stretches(mine[:MOST_LIVES]):
            said = ", ".join(f"{turn.words} at {lines.at(turn)}" for turn in (first, *second))
            more = len(mine) > MOST_LIVES and (first, *second)[-1] is mine[MOST_LIVES - 1]
            yield first.t, f"{who} {said}{f' and so on ({len(mine)} times)' if more else ''}"


def _stretches(turns: Sequence[_Turn]) -> Iterator[tuple[_Turn, tuple[_Turn, ...]]]:
    """Yield each end with the start behind it."""
    at = 0
    while at < len(turns):
        both = at + 1 < len(turns) and not turns[at].starts and turns[at + 1].starts
        yield turns[at], tuple(turns[at + 1 : at + 2]) if both else ()
        at += 1 + both


def _place(event: Event) -> str:
    if event.get("offset") is None:
        return str(event.get("place") or event.get("queue") or "an unknown place")
    return f"partition {event.get('partition')} offset {event['offset']}"


def _stored(told: Sequence[Event]) -> Iterator[Part]:
    copies = [e for e in told if e["event"] == kinds.STORED and e.get("hop") == Hop.TOPIC]
    if copies:
        places = examples({_place(copy) for copy in copies}, MOST_LIVES)
        many = f"stored {len(copies)} times: {places}"
        yield None, f"stored at {places}" if len(copies) == 1 else many


def _outcomes(told: Sequence[Event], lines: Lines) -> Iterator[Part]:
    attempts = {str(event["attempt"]).rpartition(".")[0] for event in told if event.get("attempt")}
    for event in lines.of(kinds.TRANSACTION):
        if event.get("outcome") != "begun" and str(event.get("transaction")) in attempts:
            error = f" ({event['error']})" if event.get("error") else ""
            said = f"its transaction was {event.get('outcome')} at {lines.at(event)}{error}"
            yield event["t"], said


def _removed(told: Sequence[Event]) -> Iterator[Part]:
    for event in told:
        if event["event"] == kinds.REMOVED:
            yield None, f"the broker took it away from {_place(event)} ({event.get('why')})"
        elif event["event"] == kinds.MOVED:
            yield None, f"it was moved to {event.get('to')}"


def _read(hop: str | None, told: Sequence[Event], lines: Lines) -> Iterator[Part]:
    """What a stored record shows behind its log: given to a reader, passed by a saved position."""
    given = _givings(told)
    lost = [e for e in told if e["event"] == kinds.FETCHED and e.get("reached") is False]
    for event in lost[:1]:
        yield event["t"], f"the answer with it, at {lines.at(event)}, never reached the reader"
    if given:
        yield _times("given to a reader", given, lines)
    elif hop == LastHop.SKIPPED:
        yield None, "never given to a reader"
    yield from _passed(told, lines)
    if given or hop in (LastHop.SKIPPED, LastHop.DELIVERED):
        yield from _afterwards(told, lines, kinds.FETCHED)
    if hop == LastHop.DELIVERED:
        yield None, "the output has no row of it"


def _givings(told: Sequence[Event]) -> list[Event]:
    """Return when a reader got a record: by the wire, or if that saw nothing by the program."""
    wire = [e for e in told if e["event"] == kinds.FETCHED and e.get("reached") is not False]
    return wire or [e for e in told if e["event"] == kinds.DELIVERED]


def _passed(told: Sequence[Event], lines: Lines) -> Iterator[Part]:
    """When positions were first saved past all copies of the record, or it was acknowledged."""
    copies = [
        copy
        for copy in told
        if copy["event"] == kinds.STORED
        and copy.get("hop") == Hop.TOPIC
        and copy.get("offset") is not None
    ]
    past = [_first_past(copy, lines) for copy in copies]
    if copies:
        passed = [saved for saved in past if saved is not None]
        if len(passed) == len(copies):
            last = max(passed, key=lambda saved: int(saved["t"]))
            it = "it" if len(copies) == 1 else "the last of its copies"
            where = f"{lines.at(last)} (to {last.get('offset')})"
            yield last["t"], f"the position was saved past {it} at {where}"
        return
    for event in told:
        if event["event"] == kinds.ACKNOWLEDGED and event.get("outcome") is None:
            yield event["t"], f"acknowledged ({event.get('how')}) at {lines.at(event)}"
            return


def _first_past(copy: Event, lines: Lines) -> Event | None:
    """Return the first saved position past a copy; ``None``: there is none."""
    return next(
        (
            saved
            for saved in lines.saved
            if saved.get("partition") == copy.get("partition")
            and str(saved.get("topic")) == str(copy.get("topic"))
            and int(saved.get("offset") or 0) > int(copy["offset"])
        ),
        None,
    )


def _twice(row: Mapping[str, Any], told: Sequence[Event], lines: Lines) -> Iterator[Part]:
    """What a record shows that is recorded more than once."""
    if row["stored_twice"]:
        sent = [event for event in told if event["event"] == kinds.SENT]
        yield from _sends(sent, lines)
        for role, events in _by_role(sent, lines, str(Role.PRODUCER)).items():
            yield from _between(events, lines, role)
        yield from _unheard(told, lines)
        yield from _stored(told)
    if row["delivered_twice"] and (given := _givings(told)):
        yield _times("given to a reader", given, lines)
        role = lines.role(given[0], str(Role.CONSUMER))
        yield from _between(given, lines, role)
        yield from _kept_back(role, given, lines)
    yield None, f"the output has {row['recordings']} rows of it"


def _between(moves: Sequence[Event], lines: Lines, role: str) -> Iterator[Part]:
    """What became of the program between the first time that it moved a record and the last."""
    if len(moves) > 1:
        first, last = moves[0]["t"], moves[-1]["t"]
        yield from _ended(f"in between the {role}", lines.lives(role, first, last), lines)
        yield from _ended("in between the broker", lines.brokers(first, last), lines)


def _unheard(told: Sequence[Event], lines: Lines) -> Iterator[Part]:
    """An acknowledgement that never reached the client."""
    for event in told:
        if event["event"] == kinds.PRODUCE_ANSWER and event.get("reached") is False:
            yield event["t"], f"the answer of {lines.at(event)} never reached the client"
            return


def _kept_back(role: str, given: Sequence[Event], lines: Lines) -> Iterator[Part]:
    """A commit of the reader that lostack's fault kept from the broker, between the first time that
    it was given the record and the last.
    """
    for rule in lines.disposed():
        api = str(rule.get("api"))
        commits = rule.get("dir") == "request" and ("Commit" in api or "ACK" in api)
        between = given[0]["t"] <= rule["t"] <= given[-1]["t"]
        if commits and between and rule.get("role") == role:
            word = _disposed(rule)
            said = f"the {api} request was {word} by lostack's fault at {lines.at(rule)}"
            yield rule["t"], said
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
