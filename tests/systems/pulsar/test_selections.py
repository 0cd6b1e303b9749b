"""What a broker of Pulsar's that dies may give again: what is in hand, what its cursor has not,
what is under way.
"""

from __future__ import annotations

from typing import Any

import pytest

from harness.model.prediction import AtLeast, Permitted, Some
from harness.model.scenario import Predicted
from harness.model.semantics import Semantic
from harness.scenarios import pulsar
from harness.systems.pulsar.selections import (
    BEHIND_CHUNK,
    UNWRITTEN,
    WRITES_NS,
    chunk_selections,
    cursor_selections,
)
from tests.events import a_history

DEATH = 10 * WRITES_NS
COUNTED = {"event": "counted", "queue": "q", "t": DEATH + 9}
DIED = {"event": "node", "phase": "exited", "role": "broker", "t": DEATH}
GONE = {"event": "conn", "phase": "close", "conn": 1, "role": "consumer", "t": DEATH - 1}


def given(record: str) -> dict[str, Any]:
    """A message has arrived."""
    return {"event": "fetched", "record": record, "conn": 1, "reached": True, "t": 1}


def acked(record: str, t: int, *, reached: bool = True) -> dict[str, Any]:
    """An acknowledgement went to the broker, which answers none."""
    return {
        "event": "acknowledged",
        "record": record,
        "request": "1:2",
        "outcome": None,
        "reached": reached,
        "t": t,
    }


def sent(record: str, t: int) -> dict[str, Any]:
    """A message went to the broker."""
    return {"event": "sent", "record": record, "request": "3:1", "t": t}


def receipt(record: str, *, reached: bool) -> dict[str, Any]:
    """The broker has said that it has it."""
    return {
        "event": "produce_answer",
        "record": record,
        "request": "3:1",
        "error": 0,
        "reached": reached,
        "t": 2,
    }


LAST = DEATH - WRITES_NS
OLD = LAST - WRITES_NS


@pytest.mark.parametrize(
    ("events", "found"),
    [
        ([given("a"), GONE], {"a"}),  # in hand
        ([given("a"), acked("a", LAST), GONE], {"a"}),  # the last one, however long ago that was
        (
            [given("a"), given("b"), acked("a", OLD), acked("b", LAST), GONE],
            {"b"},
        ),  # the second has written down the first
        ([given("a"), given("b"), acked("a", OLD + 1), acked("b", LAST), GONE], {"a", "b"}),
        ([given("a"), acked("a", LAST, reached=False), GONE], {"a"}),
        (
            [acked("a", OLD), acked("b", LAST), acked("a", DEATH + 5)],
            {"b"},
        ),  # what was acknowledged when it was back
        ([sent("a", 1), receipt("a", reached=True)], set()),
        ([sent("a", 1), receipt("a", reached=False)], {"a"}),  # its library sends it again
        ([sent("a", DEATH + 1)], set()),
    ],
)
def test_what_a_broker_had_not_written_down(events: list[Any], found: set[str]) -> None:
    assert cursor_selections(a_history((COUNTED, *events, DIED), ()), "") == {UNWRITTEN: found}


def test_of_a_broker_that_lives_nothing_is_said() -> None:
    assert cursor_selections(a_history((COUNTED, given("a"), GONE), ()), "") == {}


def test_every_prediction_has_an_upper_bound() -> None:
    """But that of a broker with more ranges than it can write down: all behind the third may come
    again.
    """
    open_ended = set()
    for scenario in pulsar.SCENARIOS:
        told = [
            *scenario.expect.values(),
            *(each for expect in scenario.by_client.values() for each in expect.values()),
        ]
        for prediction in (
            one
            for each in told
            if isinstance(each, Predicted)
            for one in (each.lost, each.duplicated)
        ):
            if isinstance(prediction, Permitted) or (
                isinstance(prediction, AtLeast | Some) and prediction.most is None
            ):
                open_ended.add(scenario.id)
    assert open_ended == {"broker-crash-after-ack+holes"}


def stored(
    record: str | None, place: str, *, waiting: str | None = "ready", **fields: Any
) -> dict[str, Any]:
    """A copy that the broker has."""
    return {
        "event": "stored",
        "hop": "topic",
        "record": record,
        "waiting": waiting,
        "t": 1,
        "queue": "persistent://public/default/q",
        "place": place,
        **fields,
    }


CHUNK = stored(None, "5:69:0", foreign=True)


@pytest.mark.parametrize(
    ("events", "found"),
    [
        (
            [CHUNK, stored("a", "5:107:0"), stored("b", "5:9:0"), stored("c", "6:1:0")],
            {"a", "c"},
        ),  # by entry, not by text
        ([CHUNK, stored("a", "5:107:0", waiting=None)], set()),  # acknowledged
        (
            [stored("a", "5:8:0", parts=3), stored("b", "5:4:0"), stored("c", "5:9:0")],
            {"a", "c"},
        ),  # its first two are acknowledged
        (
            [stored(None, "5:200:0", foreign=True), CHUNK, stored("a", "5:107:0")],
            {"a"},
        ),  # behind the first one
    ],
)
def test_what_waits_behind_a_chunk_that_is_alone(events: list[Any], found: set[str]) -> None:
    """What waits before it, the broker could deliver: that is another matter."""
    assert chunk_selections(a_history(tuple(events), ()), "") == {BEHIND_CHUNK: found}


def test_another_brokers_queue_has_other_places() -> None:
    others = stored(None, "ID:x", queue="q", foreign=True), stored("a", "ID:y", queue="q", parts=3)
    assert chunk_selections(a_history(others, ()), "") == {}


def test_a_broker_that_hangs_by_itself_is_not_the_control() -> None:
    """Nothing waits behind a chunk that is alone: then nothing may be left."""
    [control] = [each for each in pulsar.SCENARIOS if each.id == "ack-lost+last-part"]
    left = next(iter(control.by_client.values()))[Semantic.AT_LEAST_ONCE].left  # type: ignore[union-attr]
    assert left.contradiction({"a"}, {BEHIND_CHUNK: frozenset("a")}) is None
    assert chunk_selections(a_history((stored("a", "5:107:0"),), ()), "") == {}
    assert left.contradiction({"a"}, {BEHIND_CHUNK: frozenset()}) is not None
    whole = stored("a", "5:8:0", parts=3, counts=3), stored("b", "5:107:0")
    assert chunk_selections(a_history(whole, ()), "") == {}
