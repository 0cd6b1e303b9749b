"""What only the history of a queue tells, of any broker: which records it had not done with when a connection ended.

Each is an upper bound: what a fault may make a broker give again, or lose, if that keeps its word in everything else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.model import events as kinds
from harness.model.places import Removal
from harness.model.prediction import Select
from harness.model.scenario import Role
from harness.model.states import Hop

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.model.history import Event, History

IN_HAND: Final = Select("in-hand")
"""The records that a connection gave to a consumer before it ended, and whose acknowledgement was not answered there.

Their acknowledgement may have arrived: then nobody gives them again. Or it has not: then they are given again.
"""
ON_THE_WAY: Final = Select("on-the-way")
"""The records that a sender who asks for no answer, or a reader who has to give none, may lose with a connection.

Either no broker has a copy, nor one of what was sent behind it on its connection. Or a broker has taken it off its queue as
acknowledged, and neither it nor what came behind it had come to a program when a reader's connection ended.
"""
UNREAD_NS: Final = 200_000_000
"""For how long an acknowledgement that nobody answers may lie unread at a broker that is then killed."""


def given_selections(history: History, _target: str) -> dict[Select, frozenset[str]]:
    """Return those selections; nothing where no broker has counted what waits in a queue.

    Where a protocol answers no acknowledgement, one that has arrived counts as answered; one that its program calls failed never,
    nor one that has arrived just before its broker died.
    """
    if not any(True for _ in history.of(kinds.COUNTED)):
        return {}
    said = list(history.of(kinds.ACKNOWLEDGED))
    answered = any(event["outcome"] is not None for event in said)
    deaths = [] if answered else list(broker_deaths(history))
    done = {
        (event["request"].partition(":")[0], event["record"]) for event in said
        if event["reached"] and event["outcome"] == ("taken" if answered else None)
        and not any(0 <= death - event["t"] < UNREAD_NS for death in deaths)
    }  # fmt: skip
    gone = {event["conn"] for event in _while_it_ran(history, kinds.CONN) if event["phase"] == "close"}
    given = {
        (str(event["conn"]), event["record"]) for event in history.of(kinds.FETCHED)
        if event["reached"] and event["conn"] in gone and event["record"] is not None
    }  # fmt: skip
    failed = {event["record"] for event in history.of(kinds.SAVED) if event.get("record") and event["error"]}
    in_hand = frozenset({record for _, record in given - done} | failed)
    return {IN_HAND: in_hand, ON_THE_WAY: frozenset(_unstored(history) | _unread(history))}


def broker_deaths(history: History) -> Iterator[int]:
    """Yield when a broker's process was gone while the pipeline ran, in ns: its connections end a little before."""
    for event in _while_it_ran(history, kinds.NODE):
        if event["phase"] == "exited" and event["role"] == Role.BROKER:
            yield event["t"]


def _while_it_ran(history: History, kind: str) -> Iterator[Event]:
    """Yield the events of a kind from before the end of the drain: behind it all connections end, and nothing is given again."""
    ends = [event["t"] for event in history.of(kinds.DRAIN) if event["phase"] != "begun"]
    yield from (event for event in history.of(kind) if not ends or event["t"] < ends[0])


def _unstored(history: History) -> set[str]:
    """Return the records of which no broker has a copy, and none of what was sent behind them on their connection.

    What was answered, or overtaken by something that is stored, had reached the broker.
    """
    stored = {event["record"] for event in history.of(kinds.STORED) if event["hop"] == Hop.TOPIC}
    arrived = stored | {event["record"] for event in history.of(kinds.PRODUCE_ANSWER) if event["error"] == 0}
    behind: dict[str, set[str]] = {}
    for event in history.of(kinds.SENT):
        tail = behind.setdefault(event["request"].partition(":")[0], set())
        if event["record"] in arrived:
            arrived |= tail
            tail.clear()
        else:
            tail.add(event["record"])
    return {event["record"] for event in history.of(kinds.OFFERED)} - arrived


def _unread(history: History) -> set[str]:
    """Return the records taken off a queue as acknowledged, that no program was seen to have when a reader's connection ended.

    What was given behind them had come to no program by then: a connection loses the end of what it carries, and nothing before.
    """
    ends = [event["t"] for event in _while_it_ran(history, kinds.CONN) if event["phase"] == "close" and _reads(event)]
    at = {event["record"]: event["position"] for event in history.of(kinds.OFFERED)}
    had: dict[str, int] = {}
    for event in history.of(kinds.DELIVERED):
        had.setdefault(event["record"], event["t"])
    sent = {event["record"]: event["t"] for event in history.of(kinds.SENT)}
    taken = {event["record"] for event in history.of(kinds.REMOVED) if event["why"] == Removal.ACK} & at.keys() & sent.keys()
    found = set()
    for record in taken - had.keys():
        overtaken = min((t for other, t in had.items() if at.get(other, 0) > at[record]), default=None)
        if any(sent[record] < end and (overtaken is None or end < overtaken) for end in ends):
            found.add(record)
    return found


def _reads(connection: Event) -> bool:
    return connection.get("role") == Role.CONSUMER
