"""Signs of Artemis: its duplicate detection, and STOMP acknowledgements that it does not bind to
their transaction.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import msgspec

from harness.model import events as kinds
from harness.model.events import Outcome
from harness.model.places import Removal
from harness.model.sign import Sign
from harness.model.states import Hop

if TYPE_CHECKING:
    from harness.model.history import History

KEPT_ONCE: Final = Sign(
    "kept-once",
    "the broker got this record more than once, accepted it each time, and kept one copy",
)
UNBOUND: Final = Sign(
    "unbound",
    (
        "this record was acknowledged in a transaction that never ended, but the broker removed "
        "it, and delivered it once"
    ),
)


def artemis_signs(history: History) -> dict[Sign, set[str]]:
    """Return, for each sign, the records that show it, from the wire's answers and the journal's
    messages.

    Sends in a transaction do not count: of two attempts, one in an aborted transaction, one copy is
    kept without duplicate detection. Answers that name a place are another system's.
    """
    if not any(True for _ in history.of(kinds.Counted)):
        return {KEPT_ONCE: set(), UNBOUND: set()}
    alone = {
        (event.request, event.record) for event in history.of(kinds.Sent) if not event.transactional
    }
    taken = Counter(
        event.record
        for event in history.of(kinds.ProduceAnswer)
        if event.error == 0
        and event.place is msgspec.UNSET
        and (event.request, event.record) in alone
    )
    kept = Counter(
        event.record
        for event in history.of(kinds.Stored)
        if event.hop == Hop.TOPIC and event.visible
    )
    once = {record for record, count in taken.items() if count > 1 and kept[record] == 1}
    return {KEPT_ONCE: once, UNBOUND: _unbound(history)}


def _unbound(history: History) -> set[str]:
    """Return the records removed by an acknowledgement in a transaction for whose end no client got
    an answer.
    """
    bound = {
        event.record
        for event in history.of(kinds.Acknowledged)
        if event.reached and event.transactional_id is not None
    }
    ended = {event.record for event in history.of(kinds.Ending) if event.outcome == Outcome.TAKEN}
    removed = {event.record for event in history.of(kinds.Removed) if event.why == Removal.ACK}
    given = Counter(event.record for event in history.of(kinds.Fetched) if event.reached)
    return {record for record in (bound & removed) - ended if given[record] == 1}
