"""What only a history of Pulsar's shows: a message taken for one that is there, an end unheard, a
record that was held back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from harness.systems.pulsar.signs import (
    ABORTED_OR_ASKED,
    DEDUPLICATED,
    ENDED_UNHEARD,
    HELD_BACK,
    PART_AGAIN,
    TOLD_AGAIN,
    pulsar_signs,
)
from tests.events import a_history

if TYPE_CHECKING:
    from harness.model.history import History


def told(*events: dict[str, Any]) -> History:
    """Return a history of these lines of the wire."""
    return a_history(tuple({"t": at, "by": "wire", **event} for at, event in enumerate(events)))


def answer(record: str, **more: Any) -> dict[str, Any]:
    """Return the answer to a SEND."""
    return {
        "event": "produce_answer",
        "record": record,
        "request": "1:1",
        "error": 0,
        "reached": True,
        "place": "3:1",
    } | more


def ended(record: str, *, reached: bool, outcome: str | None = "taken") -> dict[str, Any]:
    """Return the end of a transaction, or the answer to it."""
    return {
        "event": "ending",
        "record": record,
        "request": "1:2",
        "outcome": outcome,
        "reached": reached,
    }


def given(record: str, *, reached: bool = True) -> dict[str, Any]:
    """Return a delivery."""
    return {"event": "fetched", "record": record, "conn": 2, "reached": reached}


def test_a_receipt_that_names_no_place_is_of_what_the_broker_has() -> None:
    found = pulsar_signs(
        told(
            answer("a", place=None),
            answer("b"),
            answer("c", place=None, error="PersistenceError"),
            {
                "event": "produce_answer",
                "record": "d",
                "request": "1:1",
                "error": 0,
                "reached": True,
            },
        )
    )
    assert found[DEDUPLICATED] == {"a"}


def test_an_end_is_unheard_where_its_answer_was_lost_and_nobody_was_given_the_record_again() -> (
    None
):
    """Not where the answer came, or refused, or the message was given twice; a delivery that never
    arrived is none.
    """
    found = pulsar_signs(
        told(
            given("a", reached=False),
            *(given(record) for record in "abcdc"),
            ended("a", reached=False),
            ended("b", reached=True),
            ended("c", reached=False),
            ended("d", reached=False, outcome="refused"),
            ended("d", reached=True, outcome=None),
        )
    )
    assert found[ENDED_UNHEARD] == {"a"}


def acked(record: str, outcome: str | None = "taken") -> dict[str, Any]:
    """Return an acknowledgement (no outcome), or the answer to one."""
    return {
        "event": "acknowledged",
        "record": record,
        "request": f"2:{record}",
        "outcome": outcome,
        "reached": True,
    }


def both(record: str, outcome: str = "taken") -> list[dict[str, Any]]:
    """Return an acknowledgement and its answer."""
    return [acked(record, None), acked(record, outcome)]


def test_a_record_is_held_back_that_is_stored_and_given_only_when_a_hole_was_filled() -> None:
    """Not one that was given before, or was not stored yet; an acknowledgement in order, or
    refused, fills no hole.
    """
    first = [*map(answer, "abcd"), given("a"), given("b"), *both("b"), given("c")]
    assert pulsar_signs(told(*first, *both("a"), answer("e"), given("d"), given("e")))[
        HELD_BACK
    ] == {"d"}
    for second in (both("a", "refused"), both("c")):
        assert pulsar_signs(told(*first, *second, given("d")))[HELD_BACK] == set()


def test_what_is_stored_while_a_hole_is_being_filled_is_not_held_back() -> None:
    """It is given behind that by chance: nothing kept it."""
    first = [*map(answer, "ab"), given("a"), given("b"), *both("b")]
    assert pulsar_signs(told(*first, answer("c"), acked("a", None), acked("a"), given("c")))[
        HELD_BACK
    ] == {"c"}
    assert (
        pulsar_signs(told(*first, acked("a", None), answer("c"), acked("a"), given("c")))[HELD_BACK]
        == set()
    )


def frame(api: str, way: str = "request", **more: Any) -> dict[str, Any]:
    """Return a frame."""
    return {"event": "frame", "api": api, "dir": way, **more}


def test_a_part_that_went_twice_is_of_the_record_that_the_last_one_names() -> None:
    """The same part the same way; not one of another message, nor one that was sent and given."""
    parts = [frame("SEND", message="m", part=0), frame("SEND", message="m", part=1, records=["a"])]
    assert (
        pulsar_signs(told(*parts, frame("MESSAGE", "response", message="m", part=0)))[PART_AGAIN]
        == set()
    )
    assert pulsar_signs(told(*parts, frame("SEND", message="n", part=0)))[PART_AGAIN] == set()
    assert pulsar_signs(told(parts[0], *parts))[PART_AGAIN] == {"a"}
    assert pulsar_signs(told(parts[0], parts[0]))[PART_AGAIN] == set()


@pytest.mark.parametrize("whom", ["END_TXN_ON_PARTITION", "END_TXN_ON_SUBSCRIPTION"])
def test_somebody_is_told_again_how_a_transaction_ended(whom: str) -> None:
    """Of the same transaction, and by a request: its answer is none."""
    end = frame("END_TXN", transaction="1:2", records=["a"])
    asks, other = (frame(whom, transaction=name) for name in ("1:2", "1:3"))
    assert (
        pulsar_signs(
            told(end, asks, other, frame(f"{whom}_RESPONSE", "response", transaction="1:2"))
        )[TOLD_AGAIN]
        == set()
    )
    assert pulsar_signs(told(end, asks, asks))[TOLD_AGAIN] == {"a"}
    assert pulsar_signs(told(end, other, other))[TOLD_AGAIN] == set()


def end_of(conn: int, *records: str, way: str = "request") -> dict[str, Any]:
    """Return a request for the end of a transaction: the wire knows its records from the connection
    on which they went.
    """
    return frame("END_TXN", way, transaction="0:3", conn=conn) | (
        {"records": list(records)} if records else {}
    )


def test_an_end_is_asked_for_again_by_another_connection() -> None:
    """The second one names no records; one connection that asks twice has been seen to, and an
    answer is no question.
    """
    assert pulsar_signs(told(end_of(1, "a"), end_of(2)))[ABORTED_OR_ASKED] == {"a"}
    for other in (end_of(1), end_of(2, way="response"), end_of(2) | {"transaction": "0:4"}):
        assert pulsar_signs(told(end_of(1, "a"), other))[ABORTED_OR_ASKED] == set()


def test_what_is_aborted_needs_no_second_question() -> None:
    copy = {
        "event": "stored",
        "hop": "sink",
        "record": "a",
        "waiting": None,
        "place": "3:1",
        "attempt": "t.1.1",
        "intact": True,
    }
    there = {"event": "offered", "record": "a", "key": "k", "position": 1}
    begun = frame("NEW_TXN", "request", conn=1)
    assert pulsar_signs(told(begun, there, copy | {"visible": False}))[ABORTED_OR_ASKED] == {"a"}
    assert pulsar_signs(told(begun, there, copy | {"visible": True}))[ABORTED_OR_ASKED] == set()
    assert pulsar_signs(told(there, copy | {"visible": False}))[ABORTED_OR_ASKED] == set(), (
        "of another broker"
    )
