"""What only a history of Pulsar's shows: a broker that has taken a message for one that it has, a transaction's end unheard."""

from __future__ import annotations

from typing import Any

from harness.model.history import History
from harness.systems.pulsar.signs import DEDUPLICATED, ENDED_UNHEARD, pulsar_signs


def told(*events: dict[str, Any]) -> History:
    """Return a history of these lines of the wire."""
    return History(tuple({"t": at, "by": "wire", **event} for at, event in enumerate(events)))


def answer(record: str, **more: Any) -> dict[str, Any]:
    """Return the answer to a SEND."""
    return {"event": "produce_answer", "record": record, "request": "1:1", "error": 0, "reached": True, "place": "3:1"} | more


def ended(record: str, *, reached: bool, outcome: str | None = "taken") -> dict[str, Any]:
    """Return the end of a transaction, or the answer to it."""
    return {"event": "ending", "record": record, "request": "1:2", "outcome": outcome, "reached": reached}


def given(record: str, *, reached: bool = True) -> dict[str, Any]:
    """Return a delivery."""
    return {"event": "fetched", "record": record, "conn": 2, "reached": reached}


def test_a_receipt_that_names_no_place_is_of_what_the_broker_has() -> None:
    """One that refuses, or has a place, or is of another system, is none."""
    found = pulsar_signs(told(
        answer("a", place=None), answer("b"), answer("c", place=None, error="PersistenceError"),
        {"event": "produce_answer", "record": "d", "request": "1:1", "error": 0, "reached": True},
    ))  # fmt: skip
    assert found[DEDUPLICATED] == {"a"}


def test_an_end_is_unheard_where_its_answer_was_lost_and_nobody_was_given_the_record_again() -> None:
    """Not where the answer came, or refused, or the message was given twice; a delivery that never arrived is none."""
    found = pulsar_signs(told(
        given("a", reached=False), *(given(record) for record in "abcdc"), ended("a", reached=False), ended("b", reached=True),
        ended("c", reached=False), ended("d", reached=False, outcome="refused"), ended("d", reached=True, outcome=None),
    ))  # fmt: skip
    assert found[ENDED_UNHEARD] == {"a"}
