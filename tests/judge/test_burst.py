"""The faults in a burst and in a backlog: the order of their steps, and what the history must show
of them.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from harness.controls import OnWire
from harness.faults import InBacklog, InBurst
from harness.model.bursts import Strike
from harness.model.scenario import Role
from harness.proofs.burst import FromBacklog, TwoUnderWay
from harness.protocols.kafka.steps import Api
from harness.wire.rules import Direction
from tests.judge.recording import Recording
from tests.judge.test_moved import history

if TYPE_CHECKING:
    from pathlib import Path


ASKED = OnWire(Role.PRODUCER, Api.PRODUCE, Direction.REQUEST)
ANSWERED = OnWire(Role.PRODUCER, Api.PRODUCE, Direction.RESPONSE)
SAVES = OnWire(Role.CONSUMER, Api.OFFSET_COMMIT, Direction.REQUEST)
WAITS = ["arm fault", "armed", "fired", "Overlap.await_second producer"]


@pytest.mark.parametrize(
    ("at", "strike", "steps"),
    [
        (ANSWERED, Strike.NOTHING, [*WAITS, "applied", "resolve Produce release"]),
        (ANSWERED, Strike.ANSWERS_LOST, [*WAITS, "applied", "resolve Produce discard"]),
        (
            ANSWERED,
            Strike.SENDER_DIES,
            [*WAITS, "applied", "kill", "resolve Produce discard", "restart"],
        ),
        (
            ANSWERED,
            Strike.BROKER_DIES,
            [*WAITS, "applied", "kill", "resolve Produce discard", "restart"],
        ),
        (ASKED, Strike.REQUESTS_LOST, [*WAITS, "applied", "Overlap.cut producer"]),
        (ASKED, Strike.FIRST_REFUSED, [*WAITS, "applied"]),
        (
            ASKED,
            Strike.LOST_THEN_REFUSED,
            ["arm fault", "arm again", *WAITS[1:], "applied", "Overlap.cut producer"],
        ),
    ],
)
def test_it_strikes_when_two_are_under_way(at: OnWire, strike: Strike, steps: list[str]) -> None:
    fault = InBurst(at, strike)
    controls = Recording(fault)
    fault.arm(controls)
    fault.inject(controls)
    assert controls.done == [*steps, "healed"]


@pytest.mark.parametrize("strike", Strike)
def test_it_is_placed_where_its_frame_can_still_be_stopped(strike: Strike) -> None:
    """A request that is to be lost or refused must not have arrived."""
    places = []
    for at in (ASKED, ANSWERED):
        try:
            places.append(InBurst(at, strike).at.direction)
        except ValueError as error:
            assert "at must be" in str(error)  # noqa: PT017 - one of the two is refused
    assert len(places) == 1


def test_a_reader_is_started_when_records_have_gathered() -> None:
    fault = InBacklog(SAVES)
    controls = Recording(fault)
    fault.arm(controls)
    fault.inject(controls)
    assert controls.done == [
        "arm fault",
        "armed",
        "Backlog.await_gathered",
        "Beginning.begin consumer",
        "fired",
        "kill",
        "applied",
        "resolve OffsetCommit discard",
        "restart",
        "healed",
    ]


def sent(t: int, record: str, corr: int, *, partition: int = 0, conn: int = 1) -> dict[str, Any]:
    """Return a line about a record in a request."""
    return {
        "event": "sent",
        "t": t,
        "record": record,
        "topic": "orders",
        "partition": partition,
        "request": f"{conn}:{corr}",
    }


def burst(**change: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Return a run in which a second request was under way when the fault struck.

    ``change``: lines in place of these, by name; ``None``: without it.
    """
    rule = {"event": "rule", "rule": "fault", "conn": 1, "corr": 5, "record": "k-1"}
    found: dict[str, dict[str, Any] | None] = {
        "first": sent(1, "k-1", 5),
        "hit": {**rule, "t": 2, "phase": "hit"},
        "second": sent(3, "k-2", 6),
        "struck": {"event": "fault", "t": 4, "phase": "applied"},
        "closed": {"event": "conn", "t": 5, "phase": "close", "conn": 1},
        **change,
    }
    return sorted((each for each in found.values() if each), key=lambda each: each["t"])


NOT_TRIED = "not tried: the producer sent nothing else"
AGAIN = {
    "again": sent(6, "k-1", 7, conn=2),
    "at-again": {"event": "rule", "rule": "again", "conn": 2, "corr": 7, "t": 7, "phase": "hit"}
    | {"record": "k-1"},
    "beside": sent(8, "k-2", 8, conn=2),
    "refused": {"event": "rule", "rule": "again", "conn": 2, "corr": 7, "t": 9}
    | {"phase": "answered"},
}
"""What follows a loss: both are sent again, and the first is refused with the second under way."""
TOLD = {"event": "produce_answer", "record": "k-1", "request": "1:5", "error": 0}


@pytest.mark.parametrize(
    ("change", "strike", "said"),
    [
        ({}, Strike.ANSWERS_LOST, None),
        ({"closed": None}, Strike.NOTHING, None),
        ({"closed": None}, Strike.ANSWERS_LOST, "was not cut"),
        ({"closed": {"event": "conn", "t": 5, "phase": "close", "conn": 2}}, "answers-lost", "cut"),
        ({"second": None}, Strike.ANSWERS_LOST, NOT_TRIED),
        ({"second": sent(3, "k-2", 6, partition=1)}, Strike.ANSWERS_LOST, NOT_TRIED),
        ({"second": sent(3, "k-2", 6, conn=2)}, Strike.ANSWERS_LOST, NOT_TRIED),
        ({"second": sent(3, "k-2", 5)}, Strike.ANSWERS_LOST, NOT_TRIED),
        ({"second": sent(3, "k-2", 4)}, Strike.ANSWERS_LOST, NOT_TRIED),
        ({"second": sent(5, "k-2", 6)}, Strike.ANSWERS_LOST, NOT_TRIED),
        ({"struck": None}, Strike.ANSWERS_LOST, NOT_TRIED),
        ({"told": {**TOLD, "t": 3, "reached": True}}, Strike.ANSWERS_LOST, "was answered before"),
        ({"told": {**TOLD, "t": 3, "reached": False}}, Strike.ANSWERS_LOST, None),
        ({"told": {**TOLD, "t": 6, "reached": True}}, Strike.ANSWERS_LOST, None),
        (AGAIN, Strike.LOST_THEN_REFUSED, None),
        ({**AGAIN, "closed": None}, Strike.LOST_THEN_REFUSED, "was not cut"),
        ({**AGAIN, "beside": None}, Strike.LOST_THEN_REFUSED, "the request that it sent again"),
        (
            {**AGAIN, "beside": sent(10, "k-2", 8, conn=2)},
            Strike.LOST_THEN_REFUSED,
            "the request that it sent again",
        ),
        ({}, Strike.LOST_THEN_REFUSED, "the request that it sent again"),
        ({}, Strike.SENDER_DIES, "the producer was not killed"),
        ({}, Strike.BROKER_DIES, "the broker was not killed"),
        (
            {"refused": {**burst()[1], "t": 2, "phase": "answered"}},
            Strike.FIRST_REFUSED,
            NOT_TRIED,
        ),
    ],
)
def test_two_were_under_way(
    tmp_path: Path, change: dict[str, dict[str, Any] | None], strike: str, said: str | None
) -> None:
    """To one partition, over one connection, and neither had an answer when the fault struck."""
    course: Any = SimpleNamespace(history=history(tmp_path, burst(**change)), killed=[])
    found = TwoUnderWay("producer", strike).trouble(course)
    assert found is None if said is None else said in str(found)


@pytest.mark.parametrize(
    ("strike", "role", "t", "proved"),
    [
        (Strike.SENDER_DIES, "producer", 5, True),
        (Strike.SENDER_DIES, "producer", 3, False),
        (Strike.SENDER_DIES, "broker", 5, False),
        (Strike.BROKER_DIES, "broker", 5, True),
    ],
)
def test_who_dies_is_killed_then(
    tmp_path: Path, strike: Strike, role: str, t: int, *, proved: bool
) -> None:
    killed = [SimpleNamespace(role=role, t=t)]
    course: Any = SimpleNamespace(history=history(tmp_path, burst()), killed=killed)
    assert (TwoUnderWay("producer", strike).trouble(course) is None) is proved


@pytest.mark.parametrize(
    ("offsets", "at", "role", "said"),
    [
        (range(5), 2, "consumer", None),
        (range(5), 1, "consumer", None),
        (range(5), 2, "audit", "nobody saw"),
        (range(5), 0, "consumer", "0 records of its partition before it and 4 behind it"),
        (range(5), 4, "consumer", "4 records of its partition before it and 0 behind it"),
        (range(4), 2, "consumer", "not tried"),
    ],
)
def test_the_target_was_in_the_middle_of_a_batch(
    tmp_path: Path, offsets: range, at: int, role: str, said: str | None
) -> None:
    """What came in another answer, or of another partition, was not in it."""
    given = {"event": "fetched", "topic": "orders", "partition": 0, "conn": 1, "reached": True}
    lines = [{**given, "t": 1, "record": f"k-{each}", "offset": each} for each in offsets]
    lines += [{**given, "t": 2, "record": f"late-{each}", "offset": 10 + each} for each in range(5)]
    lines += [{**given, "t": 1, "record": f"p-{each}", "partition": 1} for each in range(5)]
    lines += [{"event": "conn", "t": 0, "phase": "open", "conn": 1, "role": role}]
    plan = SimpleNamespace(target=f"k-{at}")
    course: Any = SimpleNamespace(history=history(tmp_path, lines), plan=plan)
    found = FromBacklog("consumer", 5).trouble(course)
    assert found is None if said is None else said in str(found)


def test_a_record_that_was_not_given_proves_nothing(tmp_path: Path) -> None:
    course: Any = SimpleNamespace(
        history=history(tmp_path, burst()), plan=SimpleNamespace(target="k-1")
    )
    assert "nobody saw" in str(FromBacklog("consumer", 5).trouble(course))
