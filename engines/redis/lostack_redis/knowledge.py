"""What only Redis tells the judge: that a script kept a record once."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from harness.judge.proof import Knowledge
from harness.judge.queue_selections import IN_HAND, given_selections, outlived
from harness.model import events as kinds
from harness.model.sign import Sign
from harness.model.states import Hop

if TYPE_CHECKING:
    from harness.model.history import History

__all__ = ["IN_HAND", "KNOWLEDGE", "ONCE"]
ONCE: Final = Sign(
    "added-once",
    "the server got this record more than once, granted that each time, and has one entry of it",
)


def redis_signs(history: History) -> dict[Sign, set[str]]:
    """Return the records that were sent more than once and stored once, if the history is of a
    queue.
    """
    if not any(True for _ in history.of(kinds.Counted)):
        return {ONCE: set()}
    sent = Counter((event.record, event.topic) for event in history.of(kinds.Sent))
    refused = {event.record for event in history.of(kinds.ProduceAnswer) if event.error != 0}
    stored = Counter(event.record for event in history.of(kinds.Stored) if event.hop == Hop.TOPIC)
    once = {record for (record, _), count in sent.items() if count > 1 and stored[record] == 1}
    return {ONCE: once - refused}


KNOWLEDGE: Final = Knowledge(selections=(given_selections,), signs=(redis_signs, outlived))
