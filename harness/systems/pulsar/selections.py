"""What only a history of Pulsar's tells: which acknowledgements its cursor had not written down when the broker died."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.model import events as kinds
from harness.model.prediction import Select
from harness.systems.activemq.selections import IN_HAND, broker_deaths, given_selections

if TYPE_CHECKING:
    from harness.model.history import Event, History

UNWRITTEN: Final = Select("not-written-down")
"""What a broker that dies may give again: the records in hand, and those whose acknowledgement it may not have written down.

A cursor is written down by an acknowledgement, once a second at most (managedLedgerDefaultMarkDeleteRateLimit). So the last
writing was no more than a second before the last acknowledgement. A library also sends again what was not answered.
"""
WRITES_NS: Final = 1_500_000_000
"""That second, and half of one for an acknowledgement's way through the broker."""


def cursor_selections(history: History, target: str) -> dict[Select, frozenset[str]]:
    """Return that selection; nothing where no broker has died while the pipeline ran."""
    deaths = list(broker_deaths(history))
    hand = given_selections(history, target).get(IN_HAND)
    if not deaths or hand is None:
        return {}
    told = [e for e in history.of(kinds.ACKNOWLEDGED) if e["reached"] and e["record"] is not None]
    found = set(hand)
    for death in deaths:
        before = {e["record"]: e["t"] for e in told if e["t"] <= death}
        last = max(before.values(), default=0)
        found |= {record for record, t in before.items() if t > last - WRITES_NS}
    return {UNWRITTEN: frozenset(found | _under_way(history, deaths))}


def _under_way(history: History, deaths: list[int]) -> set[str]:
    """Return the records that were sent before a death, and of which that request was not answered to its program."""
    answered = {(e["request"], e["record"]) for e in history.of(kinds.PRODUCE_ANSWER) if e["reached"]}
    sent: list[Event] = [e for e in history.of(kinds.SENT) if e["t"] <= max(deaths)]
    return {e["record"] for e in sent if (e["request"], e["record"]) not in answered}
