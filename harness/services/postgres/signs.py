"""Signs from the connection to a database: how often a program asked it to commit a record's
result, and the outcome.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from harness.model import events as kinds
from harness.model.events import CommitOutcome
from harness.model.sign import Sign

if TYPE_CHECKING:
    from harness.model.history import History

COMMITTED_AGAIN: Final = Sign(
    "committed-again",
    "a program asked the database more than once to commit a result of this record",
)
NOT_REPEATED: Final = Sign(
    "not-repeated",
    (
        "the database's answer to the commit of this record never arrived, and no program asked "
        "for the commit again"
    ),
)
DURABLE: Final = Sign(
    "durable",
    "the database answered the only commit of this record, and no program asked for it again",
)
"""The result was durable before anything died."""


def database_signs(history: History) -> dict[Sign, set[str]]:
    """Return the records that show each sign of a database."""
    asked: dict[str, set[str | None]] = defaultdict(set)
    answered, committed = set(), set()
    for event in history.of(kinds.DatabaseCommit):
        if event.outcome is None:
            asked[event.record].add(event.request)
        elif event.reached:
            answered.add(event.record)
            committed |= {event.record} if event.outcome == CommitOutcome.COMMITTED else set()
    once = {record for record, requests in asked.items() if len(requests) == 1}
    return {
        COMMITTED_AGAIN: asked.keys() - once,
        NOT_REPEATED: once - answered,
        DURABLE: once & committed,
    }
