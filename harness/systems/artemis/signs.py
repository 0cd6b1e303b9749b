"""Signs that only a broker shows which takes no id twice."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from harness.model import events as kinds
from harness.model.sign import Sign
from harness.model.states import Hop

if TYPE_CHECKING:
    from harness.model.history import History

KEPT_ONCE: Final = Sign(
    "kept-once", "the broker was sent this record more than once, said each time that it was taken, and has kept one copy"
)


def artemis_signs(history: History) -> dict[Sign, set[str]]:
    """Return the records that show a sign, by the wire's answers and the journal's messages.

    What was sent in a transaction that has come to nothing is kept once, too, and nothing was known again. A receipt that names a
    place is another system's.
    """
    if not any(True for _ in history.of(kinds.COUNTED)):
        return {KEPT_ONCE: set()}
    alone = {(event["request"], event["record"]) for event in history.of(kinds.SENT) if not event.get("transactional")}
    taken = Counter(
        event["record"] for event in history.of(kinds.PRODUCE_ANSWER)
        if event["error"] == 0 and "place" not in event and (event["request"], event["record"]) in alone
    )  # fmt: skip
    kept = Counter(event["record"] for event in history.of(kinds.STORED) if event["hop"] == Hop.TOPIC and event["visible"])
    return {KEPT_ONCE: {record for record, count in taken.items() if count > 1 and kept[record] == 1}}
