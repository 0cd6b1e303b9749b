"""What only Pulsar's histories show of a protection."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from harness.model import events as kinds
from harness.model.sign import Sign

if TYPE_CHECKING:
    from harness.model.history import History

DEDUPLICATED: Final = Sign(
    "deduplicated", "the broker has answered a request of this record by a receipt that names no place: it had it already"
)

ENDED_UNHEARD: Final = Sign(
    "ended-unheard", "the end of this record's transaction was taken, its program never learnt so, and nobody was given it again"
)


def pulsar_signs(history: History) -> dict[Sign, set[str]]:
    """Return the records that a broker has taken for ones that it has, and those whose transaction ended without a hearer."""
    answers = [e for e in history.of(kinds.PRODUCE_ANSWER) if "place" in e and e["error"] == 0]
    given = Counter(event["record"] for event in history.of(kinds.FETCHED) if event["reached"])
    unheard = {e["record"] for e in history.of(kinds.ENDING) if e["outcome"] == "taken" and not e["reached"]}
    return {
        DEDUPLICATED: {event["record"] for event in answers if event["place"] is None},
        ENDED_UNHEARD: {record for record in unheard if given[record] == 1},
    }
