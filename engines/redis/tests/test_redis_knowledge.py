"""The signs of Redis: a script added a record once; a server that died still had it."""

from __future__ import annotations

from typing import Any

from lostack_redis.knowledge import ONCE, redis_signs

from harness.model import kinds
from tests.events import a_history

SENT = {"event": "sent", "record": "k0-1", "request": "1:1", "topic": "q"}
AGAIN = {**SENT, "request": "1:2"}
STORED = {
    "event": "stored",
    "record": "k0-1",
    "hop": "topic",
    "place": "1-0",
    "queue": "q",
    "visible": True,
}
COUNTED = {"event": "counted", "hop": "topic", "queue": "q"}
REFUSED = {"event": kinds.PRODUCE_ANSWER, "record": "k0-1", "request": "1:2", "error": "NOPERM"}


def shown(*lines: dict[str, Any]) -> set[str]:
    """Return the records that show the sign."""
    return set(redis_signs(a_history(lines))[ONCE])


def test_what_was_sent_twice_and_stored_once() -> None:
    """Not what was sent once, is stored twice, was refused, or is of no queue."""
    assert shown(COUNTED, SENT, AGAIN, STORED) == {"k0-1"}
    assert shown(COUNTED, SENT, STORED) == set()
    assert shown(COUNTED, SENT, AGAIN, STORED, {**STORED, "place": "2-0"}) == set()
    assert shown(COUNTED, SENT, AGAIN, STORED, REFUSED) == set()
    assert shown(SENT, AGAIN, STORED) == set()
