"""Sets of records that only a history of a queue tells: those that were unfinished when a
connection or the broker ended.

Each set is an upper bound of what a correct broker may deliver again, or lose, because of the
fault.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, TypeVar

from harness.model import events as kinds
from harness.model.events import ConnPhase, DrainPhase, NodePhase, Outcome
from harness.model.places import Removal
from harness.model.prediction import Select
from harness.model.scenario import BROKERS, Role
from harness.model.sign import Sign
from harness.model.states import Hop

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.model.history import History

    A = TypeVar("A", bound=kinds.Event)

IN_HAND: Final = Select("in-hand")
"""The records that a consumer got over a connection that ended before the broker answered their
acknowledgement.

The broker delivers them again, unless their acknowledgement had arrived.
"""
ON_THE_WAY: Final = Select("on-the-way")
"""The records that may be lost with a connection, because the sender asks for no answer or the
reader sends none.

Either the broker has no copy of the record, nor of anything that was sent after it on its
connection. Or the broker removed the record as acknowledged, and neither the record nor a later one
had reached a program when a reader's connection ended.
"""
UNREAD_NS: Final = 200_000_000
"""For how long (ns) an acknowledgement without an answer may be unread at a broker that is then
killed.
"""


def given_selections(history: History, _target: str) -> dict[Select, frozenset[str]]:
    """Return both selections; nothing if the history has no count of a queue.

    If the protocol does not answer acknowledgements, one that arrived counts as answered. But it
    does not count if its program says that it failed, or if it arrived just before the broker died.
    """
    if not any(True for _ in history.of(kinds.Counted)):
        return {}
    said = list(history.of(kinds.Acknowledged))
    answered = any(event.outcome is not None for event in said)
    deaths = [] if answered else list(broker_deaths(history))
    done = {
        (_connection(event.request), event.record)
        for event in said
        if event.reached
        and event.outcome == (Outcome.TAKEN if answered else None)
        and not any(0 <= death - event.t < UNREAD_NS for death in deaths)
    }
    gone = {
        event.conn for event in _while_it_ran(history, kinds.Conn) if event.phase == ConnPhase.CLOSE
    }
    given = {
        (str(event.conn), event.record)
        for event in history.of(kinds.Fetched)
        if event.reached and event.conn in gone and event.record
    }
    failed = {event.record for event in history.of(kinds.Saved) if event.record and event.error}
    in_hand = frozenset({record for _, record in given - done} | failed)
    return {IN_HAND: in_hand, ON_THE_WAY: frozenset(_unstored(history) | _unread(history))}


UNTAKEN: Final = Select("untaken")
"""What who sends once, and acknowledges first, may lose when servers come and go: the records of
which no broker has told their sender that it has them, and those :data:`IN_HAND`. For systems that
know it: :func:`untaken` is among their selections.
"""


def untaken(history: History, target: str) -> dict[Select, frozenset[str]]:
    """Return the records that were sent and not answered, or refused, and those in hand."""
    taken = {e.record for e in history.of(kinds.ProduceAnswer) if e.reached and not e.error}
    sent = {e.record for e in history.of(kinds.Sent, kinds.Unsent)}
    in_hand = given_selections(history, target).get(IN_HAND, frozenset())
    return {UNTAKEN: frozenset(record for record in sent - taken if record) | in_hand}


UNFINISHED: Final = Select("unfinished")
"""What may come twice when a broker dies: the records :data:`IN_HAND`, and those that a sender had
no answer for on a connection. It sends these again, and the broker may have them. For systems that
know it: :func:`unfinished` is among their selections.
"""


def unfinished(history: History, target: str) -> dict[Select, frozenset[str]]:
    """Return the records that were sent over a connection which ended without an answer to them,
    and those in hand.
    """
    answered = {e.request for e in history.of(kinds.ProduceAnswer) if e.reached}
    unanswered = {
        e.record for e in history.of(kinds.Sent) if e.record and e.request not in answered
    }
    in_hand = given_selections(history, target).get(IN_HAND, frozenset())
    return {UNFINISHED: frozenset(unanswered) | in_hand}


OUTLIVED: Final = Sign(
    "outlived-its-broker",
    "the broker answered this record's send, died, and delivered it when it was back",
)
"""For systems that know it: :func:`outlived` is among their signs."""


def outlived(history: History) -> dict[Sign, frozenset[str]]:
    """Return the records that a broker still had when it was back."""
    deaths = list(broker_deaths(history))
    answered = {
        e.record
        for e in history.of(kinds.ProduceAnswer)
        if e.error == 0 and any(e.t < death for death in deaths)
    }
    given = (e for e in history.of(kinds.Fetched) if e.reached and any(e.t > t for t in deaths))
    return {OUTLIVED: frozenset(e.record for e in given if e.record and e.record in answered)}


SERVED_ON: Final = Sign(
    "served-on",
    "the broker answered this record's send, or its acknowledgement, while one of its servers was "
    "dead, or after another one had begun to lead",
)
"""For systems of several servers: :func:`served_on` is among their signs."""


def served_on(history: History) -> dict[Sign, frozenset[str]]:
    """Return the records that a broker of several servers took without one of them, or by a later
    leader.
    """
    down: dict[str, int] = {}
    times: list[tuple[int, float]] = []
    for event in history.of(kinds.Node):
        if event.role in BROKERS and event.phase == NodePhase.EXITED:
            down[event.node] = event.t
        elif event.phase == NodePhase.STARTED and event.node in down:
            times.append((down.pop(event.node), event.t))
    first: dict[str, str] = {}
    times += [
        (said.t, math.inf)
        for said in history.of(kinds.Leadership)
        if said.leader and first.setdefault(said.topic, said.leader) != said.leader
    ]
    taken = [(e.record, e.t) for e in history.of(kinds.ProduceAnswer) if e.error == 0]
    taken += [(e.record, e.t) for e in history.of(kinds.Acknowledged) if e.outcome == Outcome.TAKEN]
    return {
        SERVED_ON: frozenset(
            record for record, t in taken if record and any(a < t < b for a, b in times)
        )
    }


def broker_deaths(history: History) -> Iterator[int]:
    """Yield the times (monotonic ns) at which a process of a broker was gone while the pipeline
    ran.
    """
    for event in _while_it_ran(history, kinds.Node):
        if event.phase == NodePhase.EXITED and event.role in BROKERS:
            yield event.t


def _while_it_ran(history: History, kind: type[A]) -> Iterator[A]:
    """Yield the events of a kind before the end of the drain: after it all connections end, which
    means nothing.
    """
    ends = [event.t for event in history.of(kinds.Drain) if event.phase != DrainPhase.BEGUN]
    yield from (event for event in history.of(kind) if not ends or event.t < ends[0])


def _connection(request: str | None) -> str:
    """Return the connection of a request, from its id."""
    return (request or "").partition(":")[0]


def _unstored(history: History) -> set[str]:
    """Return the records without a copy, if nothing that was sent after them on their connection
    has a copy, either.

    A record that was answered, or that precedes a stored one on its connection, had reached the
    broker.
    """
    stored = {event.record for event in history.of(kinds.Stored) if event.hop == Hop.TOPIC}
    arrived = stored | {
        event.record for event in history.of(kinds.ProduceAnswer) if event.error == 0
    }
    behind: dict[str, set[str]] = {}
    for event in history.of(kinds.Sent):
        tail = behind.setdefault(_connection(event.request), set())
        if event.record in arrived:
            arrived |= tail
            tail.clear()
        else:
            tail.add(event.record)
    return {event.record for event in history.of(kinds.Offered)} - arrived


def _unread(history: History) -> set[str]:
    """Return the records removed as acknowledged that no program had got when a reader's connection
    ended.

    No later record may have reached a program by then: a connection loses only the end of what it
    carries.
    """
    ends = [
        event.t
        for event in _while_it_ran(history, kinds.Conn)
        if event.phase == ConnPhase.CLOSE and event.role == Role.CONSUMER
    ]
    at = {event.record: event.position for event in history.of(kinds.Offered)}
    had: dict[str, int] = {}
    for event in history.of(kinds.Delivered):
        if event.record is not None:
            had.setdefault(event.record, event.t)
    sent = {event.record: event.t for event in history.of(kinds.Sent)}
    acknowledged = {e.record for e in history.of(kinds.Removed) if e.why == Removal.ACK}
    taken = at.keys() & sent.keys() & acknowledged
    found = set()
    for record in taken - had.keys():
        overtaken = min(
            (t for other, t in had.items() if at.get(other, 0) > at[record]), default=None
        )
        if any(sent[record] < end and (overtaken is None or end < overtaken) for end in ends):
            found.add(record)
    return found
