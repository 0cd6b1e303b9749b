"""What a consumer had in hand when its connection ended: what it was given there, and does not know to be acknowledged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from harness.model import events as kinds
from harness.model.history import History
from harness.systems.activemq.selections import IN_HAND, given_selections

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.model.history import Event

COUNTED: Event = {"event": kinds.COUNTED, "queue": "q", "ready": 0}
GONE: Event = {"event": kinds.CONN, "phase": "close", "conn": 1}


def given(record: str | None, conn: int = 1, *, reached: bool = True) -> Event:
    """A message was put on a connection."""
    return {"event": kinds.FETCHED, "record": record, "conn": conn, "reached": reached}


def said(record: str, outcome: str | None = None, *, conn: int = 1, reached: bool = True) -> Event:
    """It was acknowledged, or that was answered."""
    answer = {"outcome": outcome, "reached": reached}
    return {"event": kinds.ACKNOWLEDGED, "record": record, "request": f"{conn}:7", "how": "ack", **answer}


def failed(record: str | None, error: str | None) -> Event:
    """A program says what became of its acknowledgement."""
    return {"event": kinds.SAVED, "record": record, "error": error}


def in_hand(*events: Event) -> Iterable[str]:
    """Return what was."""
    return sorted(given_selections(History((COUNTED, *events)), "")[IN_HAND])


def test_of_what_has_no_queue_nothing_is_said() -> None:
    """A log has positions."""
    assert given_selections(History((given("a"), GONE)), "") == {}


@pytest.mark.parametrize(("events", "found"), [
    ([given("a"), GONE], ["a"]),  # not acknowledged
    ([given("a")], []),  # its connection lives
    ([given("a", reached=False), GONE], []),  # it never arrived
    ([given(None), GONE], []),  # nobody's
    ([given("a"), said("a"), said("a", "taken"), GONE], []),
    ([given("a"), said("a"), said("a", "taken", reached=False), GONE], ["a"]),  # the answer was lost
    ([given("a"), said("a"), said("a", "refused"), GONE], ["a"]),
    ([given("a"), given("b"), said("b"), said("b", "taken"), said("a"), GONE], ["a"]),  # others are answered, this one is not
    ([given("a"), said("a"), GONE], []),  # nobody is answered
    ([given("a"), said("a", reached=False), GONE], ["a"]),
    ([given("a"), GONE, given("a", 2), said("a", conn=2), said("a", "taken", conn=2)], ["a"]),  # acknowledged when it came again
    ([given("a"), said("a"), GONE, failed("a", "gone")], ["a"]),  # its program was told so
    ([given("a"), said("a"), GONE, failed("a", None), failed(None, "gone")], []),
])  # fmt: skip
def test_what_is_in_hand(events: list[Any], found: list[str]) -> None:
    """It is what one connection gave, for which that connection has brought no answer, where there are answers."""
    assert in_hand(*events) == found
