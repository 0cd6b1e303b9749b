"""Signs of protection that only histories of ActiveMQ Classic show."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from harness.model import events as kinds
from harness.model.sign import Sign
from harness.systems.activemq.proofs import carried_on

if TYPE_CHECKING:
    from harness.model.history import History

REMEMBERED: Final = Sign(
    "remembered",
    "this record's acknowledgement was carried over to another file of the journal, the broker "
    "rebuilt its index from that, and no consumer was given the record again",
)


def activemq_signs(history: History) -> dict[Sign, set[str]]:
    """Return, for each sign, the records that show it."""
    given = Counter(event.record for event in history.of(kinds.Fetched) if event.reached)
    return {REMEMBERED: {record for record in carried_on(history) if given[record] == 1}}
