"""Sets of records that only a history of a queue tells: those that were unfinished when a
connection or the broker ended.

Each set is an upper bound of what a correct broker may deliver again, or lose, because of the
fault.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from harness.model import events as kinds
from harness.model.events import ConnPhase, DrainPhase, NodePhase, Outcome
from harness.model.places import Removal
from harness.model.prediction import Select
from harness.model.scenario import Role
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


def broker_deaths(history: History) -> Iterator[int]:
    """Yield the times (monotonic ns) at which a broker's process was gone while the
    pipeline ran.
    """
    for event in _while_it_ran(history, kinds.Node):
        if event.phase == NodePhase.EXITED and event.role == Role.BROKER:
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
