"""What was in hand, or on its way, when a connection ended: the bounds of what a fault may have
given again, or lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from harness.judge.queue_selections import (
    IN_HAND,
    ON_THE_WAY,
    OUTLIVED,
    SERVED_ON,
    UNFINISHED,
    UNREAD_NS,
    UNTAKEN,
    given_selections,
    outlived,
    served_on,
    unfinished,
    untaken,
)
from harness.judge.verdict import Kind
from harness.model import events as kinds
from harness.model.prediction import AtLeast, AtMost, Permitted, Some
from harness.model.scenario import Predicted
from harness.model.semantics import Semantic
from harness.scenarios import activemq, artemis
from tests.events import a_history
from tests.judge.queue_runs import deliver, judged, place, queue_run
from tests.judge.runs import RECORDS, TARGET, first, without

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.model.scenario import Scenario
    from tests.judge.histories import Row
    from tests.judge.queues import QueueStory

COUNTED: Row = {"event": "counted", "queue": "q", "ready": 0}
GONE: Row = {"event": "conn", "phase": "close", "conn": 1, "role": "consumer", "t": 10}
RESTED: Row = {"event": "drain", "phase": "completed", "t": 9}
DIED: Row = {"event": kinds.NODE, "phase": "exited", "role": "broker", "t": UNREAD_NS}
OTHER = RECORDS[0]


def given(record: str | None, conn: int = 1, *, reached: bool = True) -> Row:
    """A message was put on a connection."""
    return {"event": kinds.FETCHED, "record": record, "conn": conn, "reached": reached}


def said(record: str, outcome: str | None = None, *, conn: int = 1, reached: bool = True) -> Row:
    """It was acknowledged, or that was answered."""
    answer = {"outcome": outcome, "reached": reached, "t": 1}
    return {
        "event": kinds.ACKNOWLEDGED,
        "record": record,
        "request": f"{conn}:7",
        "how": "ack",
        **answer,
    }


def failed(record: str | None, error: str | None) -> Row:
    """A program says what became of its acknowledgement."""
    return {"event": kinds.SAVED, "record": record, "error": error}


def in_hand(*events: Row) -> Iterable[str]:
    """Return what was."""
    return sorted(given_selections(a_history((COUNTED, *events)), "")[IN_HAND])


def test_of_what_has_no_queue_nothing_is_said() -> None:
    assert given_selections(a_history((given("a"), GONE)), "") == {}


@pytest.mark.parametrize(
    ("events", "found"),
    [
        ([given("a"), GONE], ["a"]),  # not acknowledged
        ([given("a")], []),  # its connection lives
        ([given("a"), RESTED, GONE], []),  # it lived while anything was given
        ([given("a"), said("a"), GONE, DIED], ["a"]),  # it may lie unread at a broker that dies
        ([given("a"), said("a"), GONE, DIED | {"t": UNREAD_NS + 1}], []),  # too long ago for that
        ([given("a"), said("a"), GONE, DIED | {"role": "consumer"}], []),
        (
            [given("a"), said("a"), said("a", "taken"), GONE, DIED],
            [],
        ),  # it was read, and that was said
        ([given("a", reached=False), GONE], []),  # it never arrived
        ([given(None), GONE], []),  # nobody's
        ([given("a"), said("a"), said("a", "taken"), GONE], []),
        (
            [given("a"), said("a"), said("a", "taken", reached=False), GONE],
            ["a"],
        ),  # the answer was lost
        ([given("a"), said("a"), said("a", "refused"), GONE], ["a"]),
        (
            [given("a"), given("b"), said("b"), said("b", "taken"), said("a"), GONE],
            ["a"],
        ),  # others are answered, this one is not
        ([given("a"), said("a"), GONE], []),  # nobody is answered
        ([given("a"), said("a", reached=False), GONE], ["a"]),
        (
            [given("a"), GONE, given("a", 2), said("a", conn=2), said("a", "taken", conn=2)],
            ["a"],
        ),  # acknowledged when it came again
        ([given("a"), said("a"), GONE, failed("a", "gone")], ["a"]),  # its program was told so
        ([given("a"), said("a"), GONE, failed("a", None), failed(None, "gone")], []),
    ],
)
def test_what_is_in_hand(events: list[Any], found: list[str]) -> None:
    """It is what one connection gave, for which that connection has brought no answer, where there
    are answers.
    """
    assert in_hand(*events) == found


# --- what may be lost with a connection -----------------------------------------------------------


def offered(*records: str) -> list[Row]:
    """The source has these, in order."""
    return [
        {"event": "offered", "record": record, "position": at}
        for at, record in enumerate(records, start=1)
    ]


def sent(record: str, conn: int = 1, t: int = 1) -> Row:
    """A message has gone to the broker."""
    return {"event": "sent", "record": record, "request": f"{conn}:3", "t": t}


def answered(record: str, error: int = 0) -> Row:
    """The broker has said what became of it."""
    return {"event": kinds.PRODUCE_ANSWER, "record": record, "error": error}


def stored(record: str) -> Row:
    """The journal has it."""
    return {"event": "stored", "record": record, "hop": "topic"}


def removed(record: str, why: str = "ack") -> Row:
    """The journal says that it was taken off."""
    return {"event": kinds.REMOVED, "record": record, "why": why}


def had(record: str, t: int) -> Row:
    """A program has it."""
    return {"event": kinds.DELIVERED, "record": record, "t": t}


@pytest.mark.parametrize(
    ("events", "found"),
    [
        ([*offered("a")], ["a"]),  # it never left its program
        ([*offered("a"), sent("a")], ["a"]),  # it left, and did not arrive
        ([*offered("a"), sent("a"), stored("a")], []),
        ([*offered("a"), sent("a"), answered("a")], []),  # the broker has said that it has it
        ([*offered("a"), sent("a"), answered("a", 1)], ["a"]),
        (
            [*offered("a", "b"), sent("a"), sent("b"), stored("b")],
            [],
        ),  # what was sent behind it has arrived
        (
            [*offered("a", "b"), sent("a"), sent("b", 2), stored("b")],
            ["a"],
        ),  # by another connection
        ([*offered("a", "b"), sent("a"), sent("b"), stored("a")], ["b"]),
        (
            [*offered("a"), sent("a"), stored("a"), removed("a"), GONE],
            ["a"],
        ),  # taken off, and come to nobody
        ([*offered("a"), sent("a"), stored("a"), removed("a", "expiry"), GONE], []),
        ([*offered("a"), sent("a"), stored("a"), removed("a"), had("a", 5), GONE], []),
        ([*offered("a"), sent("a"), stored("a"), removed("a")], []),  # no connection has ended
        ([*offered("a"), sent("a"), stored("a"), removed("a"), GONE | {"role": "producer"}], []),
        ([*offered("a"), sent("a"), stored("a"), removed("a"), RESTED, GONE], []),
        (
            [*offered("a"), sent("a", t=11), stored("a"), removed("a"), GONE],
            [],
        ),  # it was sent when that had ended
        (
            [
                *offered("a", "b"),
                sent("a"),
                stored("a"),
                removed("a"),
                had("b", 5),
                GONE,
                stored("b"),
            ],
            [],
        ),  # not the end
        (
            [
                *offered("a", "b"),
                sent("a"),
                stored("a"),
                removed("a"),
                had("b", 15),
                GONE,
                stored("b"),
            ],
            ["a"],
        ),  # only later
    ],
)
def test_what_is_on_the_way(events: list[Any], found: list[str]) -> None:
    """It is the end of what a connection carried, and nothing before."""
    assert sorted(given_selections(a_history((COUNTED, *events)), "")[ON_THE_WAY]) == found


# --- a broker that lies ---------------------------------------------------------------------------


def gives_again(story: QueueStory) -> None:
    """The broker has forgotten an acknowledgement that it had answered."""
    for row in (
        story.tell("conn", "wire", phase="open", conn=1, role="consumer"),
        story.tell("conn", "wire", phase="close", conn=1, role="consumer"),
    ):
        row["t"] = first(story, "drain")["t"] - 5
    story.tell(
        "acknowledged",
        "wire",
        record=OTHER,
        request="1:9",
        how="ack",
        outcome="taken",
        reached=True,
    )
    deliver(story, OTHER, again=True)
    for row in story.events[-3:]:
        row["t"] = first(story, "drain")["t"] - 4
    story.result(OTHER, 9, place(OTHER))


def loses(story: QueueStory) -> None:
    """The broker has lost what it had answered."""
    story.tell("produce_answer", "wire", record=OTHER, request="1:1", error=0, reached=True)
    without(
        story,
        lambda row: (
            row.get("record") == OTHER
            and row["event"] in {"recorded", "stored", "removed", "delivered", "fetched"}
        ),
    )


ANY = {"sign": None}


def test_a_broker_that_forgets_an_answered_acknowledgement_is_not_kept() -> None:
    story = queue_run()
    gives_again(story)
    assert judged(story, **ANY, duplicated=Permitted()).verdict.kind is Kind.KEPT
    found = judged(story, **ANY, duplicated=AtMost(IN_HAND)).verdict
    assert found.kind is Kind.VOID
    assert found.reason.endswith(f"saw {OTHER}")


@pytest.mark.parametrize("bound", [IN_HAND, ON_THE_WAY])
def test_a_broker_that_loses_what_it_had_answered_is_not_kept(bound: Any) -> None:
    """At-most-once permits the loss; nothing that happened explains it."""
    story = queue_run()
    loses(story)
    once = {**ANY, "semantic": Semantic.AT_MOST_ONCE}
    assert judged(story, **once, lost=Permitted()).verdict.kind is Kind.KEPT
    found = judged(story, **once, lost=AtMost(bound)).verdict
    assert found.kind is Kind.VOID
    assert found.reason.endswith(f"saw {OTHER}")
    besides = judged(story, **once, lost=AtLeast(most=bound), duplicated=Permitted()).verdict
    assert TARGET not in besides.reason.rpartition("saw")[2]


@pytest.mark.parametrize(
    "scenario", [*activemq.SCENARIOS, *artemis.SCENARIOS], ids=lambda scenario: str(scenario.id)
)
def test_every_prediction_has_an_upper_bound(scenario: Scenario) -> None:
    """What may be lost or come twice is named, but where a broker's own bug decides how much."""
    told = [scenario.expect, *scenario.by_client.values()]
    found = [each for expect in told for each in expect.values() if isinstance(each, Predicted)]
    for prediction in (each for theory in found for each in (theory.lost, theory.duplicated)):
        assert not isinstance(prediction, Permitted)
        assert not isinstance(prediction, AtLeast | Some) or prediction.most is not None


def test_what_a_broker_still_has_when_it_is_back() -> None:
    """It was answered before the death, and delivered after it."""
    answer = {"event": kinds.PRODUCE_ANSWER, "record": TARGET, "request": "1:1", "error": 0, "t": 1}
    death, before, after = {**DIED, "signal": 9, "t": 3}, {"t": 2}, {"t": 4}
    for lines, seen in (
        ([answer, death, given(TARGET) | after], {TARGET}),
        ([answer, given(TARGET) | before, death], set()),
        ([death, answer | {"t": 4}, given(TARGET) | {"t": 5}], set()),
        ([answer, death, given(TARGET, reached=False) | after], set()),
        ([answer | {"error": "refused"}, death, given(TARGET) | after], set()),
    ):
        assert outlived(a_history(lines)) == {OUTLIVED: seen}


def test_what_was_taken_without_a_server_or_by_a_later_leader() -> None:
    """While one of the servers was dead, or after another one had begun to lead: not before, and
    not if it was refused.
    """
    answer = {"event": kinds.PRODUCE_ANSWER, "record": TARGET, "request": "1:1", "error": 0, "t": 5}
    dead = {**DIED, "role": "follower", "signal": 9, "t": 3}
    back = {**DIED, "role": "follower", "phase": "started", "t": 7}
    who = {"event": "leadership", "topic": "q", "partition": 0, "number": 1, "epoch": 0}
    who |= {"replicas": [], "isr": [], "controller": ""}
    one, two = {**who, "leader": "broker-1", "t": 1}, {**who, "leader": "broker-2", "t": 4}
    for lines, seen in (
        ([dead, answer, back], {TARGET}),
        ([dead, answer], set()),
        ([dead, back, answer | {"t": 8}], set()),
        ([answer | {"t": 2}, dead, back], set()),
        ([dead, answer | {"error": "refused"}, back], set()),
        ([one, two, answer], {TARGET}),
        ([one, two | {"topic": "q/readers"}, answer], set()),
        ([one, answer | {"t": 2}, two], set()),
        ([one, two | {"leader": ""}, answer], set()),
    ):
        told = a_history(sorted(lines, key=lambda line: int(str(line["t"]))))
        assert served_on(told) == {SERVED_ON: seen}


def test_what_who_sends_once_may_lose() -> None:
    """What it sent and was not told to be taken: an answer that did not reach it is none."""
    sent = {"event": "sent", "record": TARGET, "request": "1:1", "topic": "q", "t": 1}
    answer = {"event": kinds.PRODUCE_ANSWER, "record": TARGET, "request": "1:1", "t": 2}
    taken = {**answer, "error": 0, "reached": True}
    for lines, seen in (
        ([sent, taken], set()),
        ([sent], {TARGET}),
        ([sent, taken | {"reached": False}], {TARGET}),
        ([sent, taken | {"error": "no-responders"}], {TARGET}),
    ):
        assert untaken(a_history(lines), TARGET) == {UNTAKEN: seen}


def test_what_was_sent_and_not_answered_may_come_twice() -> None:
    """Also what was sent again and answered then: the broker may have taken it the first time."""
    sent = {"event": "sent", "record": OTHER, "request": "2:1", "topic": "q", "t": 1}
    taken = {
        "event": kinds.PRODUCE_ANSWER,
        "record": OTHER,
        "request": "2:1",
        "error": 0,
        "reached": True,
        "t": 2,
    }
    again = [sent | {"request": "3:1", "t": 3}, taken | {"request": "3:1", "t": 4}]
    hand = [COUNTED, given(TARGET), GONE, RESTED | {"t": 11}]
    for lines, seen in (
        ([sent, taken], set()),
        ([sent, *again], {OTHER}),
        ([sent, taken | {"reached": False}, *again], {OTHER}),
        ([sent, *again, *hand], {OTHER, TARGET}),
        ([sent, taken, *hand], {TARGET}),
    ):
        assert unfinished(a_history(lines), TARGET) == {UNFINISHED: seen}
