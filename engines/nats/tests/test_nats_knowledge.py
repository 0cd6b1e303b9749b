"""What only histories of NATS tell the judge: its signs, and what was unfinished at a death."""

from __future__ import annotations

from typing import Any

from lostack_nats.knowledge import DEDUPLICATED, ENDED, UNWRITTEN, nats_signs, unwritten

from harness.model import kinds
from tests.events import a_history

S = 1_000_000_000
SENT = {"event": "sent", "record": "k0-1", "request": "1:1", "topic": "q"}
ANSWER = {"event": kinds.PRODUCE_ANSWER, "record": "k0-1", "request": "1:1", "error": 0}
GIVEN = {"event": kinds.FETCHED, "record": "k0-1", "topic": "q", "conn": 2, "reached": True}
TAKEN = {
    "event": kinds.ACKNOWLEDGED,
    "record": "k0-1",
    "request": "2:3",
    "outcome": "taken",
    "reached": True,
}
DEATH = {"event": kinds.NODE, "node": "broker-1", "role": "broker", "phase": "exited", "signal": 9}


def at(second: float, line: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a line at a time."""
    return {**line, **more, "t": int(second * S)}


def shown(*lines: dict[str, Any]) -> set[str]:
    """Return the names of the signs that the record shows."""
    told = nats_signs(a_history(lines))
    return {str(sign) for sign, records in told.items() if records}


def test_an_answer_without_a_place_is_a_duplicate_s() -> None:
    assert shown(at(1, ANSWER, place=None)) == {str(DEDUPLICATED)}
    assert shown(at(1, ANSWER, place="q:1")) == set()
    assert shown(at(1, ANSWER, place=None, error="no-responders")) == set()


def test_what_a_dead_server_does_not_deliver_again() -> None:
    """It was acknowledged before the death, and delivered once."""
    assert shown(at(1, GIVEN), at(2, TAKEN), at(3, DEATH)) == {str(ENDED)}
    assert shown(at(1, GIVEN), at(2, TAKEN)) == set()
    assert shown(at(1, GIVEN), at(3, DEATH), at(4, TAKEN)) == set()
    assert shown(at(1, GIVEN), at(2, TAKEN), at(3, DEATH), at(4, GIVEN)) == set()


def test_what_was_unfinished_when_the_server_died() -> None:
    """Sent and not answered, or delivered or acknowledged just before. Without a death: nothing."""
    assert unwritten(a_history([at(1, SENT)]), "k0-1") == {}
    assert unwritten(a_history([at(1, SENT), at(9, DEATH)]), "k0-1") == {UNWRITTEN: {"k0-1"}}
    answered = [at(1, SENT), at(2, ANSWER, place="q:1", reached=True), at(9, DEATH)]
    assert unwritten(a_history(answered), "k0-1") == {UNWRITTEN: frozenset()}
    assert unwritten(a_history([*answered, at(8, TAKEN)]), "k0-1") == {UNWRITTEN: {"k0-1"}}
    assert unwritten(a_history([*answered, at(6, TAKEN)]), "k0-1") == {UNWRITTEN: frozenset()}
