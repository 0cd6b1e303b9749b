"""Sets of records that only a history of Pulsar tells: those whose acknowledgement the cursor had
perhaps not written down.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.judge.queue_selections import IN_HAND, broker_deaths, given_selections
from harness.model import events as kinds
from harness.model.prediction import Select
from harness.model.states import Hop

if TYPE_CHECKING:
    from harness.model.history import History

UNWRITTEN: Final = Select("not-written-down")
"""What a broker that dies may deliver again: records in hand, and records whose acknowledgement it
may not have written down.

An acknowledgement makes the broker write the cursor, once a second at most
(managedLedgerDefaultMarkDeleteRateLimit). So the last write was at most a second before the last
acknowledgement. Records without an answer count, too: the library sends them again.
"""
BEHIND_CHUNK: Final = Select("behind-a-chunk")
"""The messages that wait from the first chunk on that waits without the others of its message
(apache/pulsar#26395).
"""
_TOPICS: Final = "persistent://"
"""How the names of Pulsar's topics begin: other brokers' queues have other names, and
other places.
"""
WRITES_NS: Final = 1_500_000_000
"""That second, and half a second for an acknowledgement's way through the broker."""


def cursor_selections(history: History, target: str) -> dict[Select, frozenset[str]]:
    """Return the selection; nothing if no broker died while the pipeline ran."""
    deaths = list(broker_deaths(history))
    hand = given_selections(history, target).get(IN_HAND)
    if not deaths or hand is None:
        return {}
    told = [e for e in history.of(kinds.Acknowledged) if e.reached]
    found = set(hand)
    for death in deaths:
        before = {e.record: e.t for e in told if e.t <= death}
        last = max(before.values(), default=0)
        found |= {record for record, t in before.items() if t > last - WRITES_NS}
    return {UNWRITTEN: frozenset(found | _under_way(history, deaths))}


def chunk_selections(history: History, target: str) -> dict[Select, frozenset[str]]:
    """Return the selection; nothing if no chunk waits without the others of its message."""
    del target
    there = (
        e
        for e in history.of(kinds.Stored)
        if e.hop == Hop.TOPIC and str(e.queue).startswith(_TOPICS)
    )
    waits = [e for e in there if e.waiting is not None]
    alone = [_entry(e) for e in waits if e.foreign or e.parts > e.counts]
    if not alone:
        return {}
    return {
        BEHIND_CHUNK: frozenset(
            e.record for e in waits if e.record is not None and _entry(e) >= min(alone)
        )
    }


def _entry(message: kinds.Stored) -> tuple[int, ...]:
    """Return a message's place as numbers: ledger, entry, index in its batch."""
    return tuple(int(part) for part in str(message.place).split(":"))


def _under_way(history: History, deaths: list[int]) -> set[str]:
    """Return the records with a request before a death whose answer did not reach the program."""
    answered = {(e.request, e.record) for e in history.of(kinds.ProduceAnswer) if e.reached}
    sent = (e for e in history.of(kinds.Sent) if e.t <= max(deaths))
    return {e.record for e in sent if (e.request, e.record) not in answered}
