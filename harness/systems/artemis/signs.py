"""Signs that only a broker shows which takes no id twice, and binds no acknowledgement of STOMP to its transaction."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from harness.model import events as kinds
from harness.model.places import Removal
from harness.model.sign import Sign
from harness.model.states import Hop

if TYPE_CHECKING:
    from harness.model.history import History

KEPT_ONCE: Final = Sign(
    "kept-once", "the broker was sent this record more than once, said each time that it was taken, and has kept one copy"
)
UNBOUND: Final = Sign(
    "unbound", "this record was acknowledged in a transaction that never ended, was taken off all the same, and was given once"
)


def artemis_signs(history: History) -> dict[Sign, set[str]]:
    """Return the records that show a sign, by the wire's answers and the journal's messages.

    What was sent in a transaction that has come to nothing is kept once, too, and nothing was known again. A receipt that names a
    place is another system's.
    """
    if not any(True for _ in history.of(kinds.COUNTED)):
        return {KEPT_ONCE: set(), UNBOUND: set()}
    alone = {(event["request"], event["record"]) for event in history.of(kinds.SENT) if not event.get("transactional")}
    taken = Counter(
        event["record"] for event in history.of(kinds.PRODUCE_ANSWER)
        if event["error"] == 0 and "place" not in event and (event["request"], event["record"]) in alone
    )  # fmt: skip
    kept = Counter(event["record"] for event in history.of(kinds.STORED) if event["hop"] == Hop.TOPIC and event["visible"])
    once = {record for record, count in taken.items() if count > 1 and kept[record] == 1}
    return {KEPT_ONCE: once, UNBOUND: _unbound(history)}


def _unbound(history: History) -> set[str]:
    """Return the records taken off a queue by an acknowledgement in a transaction that nobody was told has ended."""
    bound = {
        event["record"] for event in history.of(kinds.ACKNOWLEDGED)
        if event["reached"] and event.get("transactional_id") is not None
    }  # fmt: skip
    ended = {event["record"] for event in history.of(kinds.ENDING) if event["outcome"] == "taken"}
    removed = {event["record"] for event in history.of(kinds.REMOVED) if event["why"] == Removal.ACK}
    given = Counter(event["record"] for event in history.of(kinds.FETCHED) if event["reached"])
    return {record for record in (bound & removed) - ended if given[record] == 1}
