"""What only histories of ActiveMQ Classic show of a protection."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from harness.model import events as kinds
from harness.model.sign import Sign
from harness.systems.activemq.proofs import carried_on

if TYPE_CHECKING:
    from harness.model.history import History

REMEMBERED: Final = Sign(
    "remembered", "the acknowledgement of this record was carried on to another file of the journal, from which the broker has "
    "made its index anew, and nobody was given the record again"
)  # fmt: skip


def activemq_signs(history: History) -> dict[Sign, set[str]]:
    """Return the records by sign: carried on, and given to a consumer once."""
    given = Counter(event["record"] for event in history.of(kinds.FETCHED) if event["reached"])
    return {REMEMBERED: {record for record in carried_on(history) if given[record] == 1}}
