"""Why a record is where it is: each reason has the line that shows it, and a twin without that
line; and a record that passes further topics shows no sign by that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from harness.judge.signs import DELIVERED_AGAIN
from harness.judge.verdict import Kind
from harness.model.prediction import Permitted
from harness.model.states import State
from harness.systems.storm.signs import POLLED_AGAIN
from tests.judge import runs
from tests.judge.queue_runs import judged, place, queue_run, stays
from tests.judge.queues import QUEUE
from tests.judge.runs import RECORDS, TARGET, attempt_of, first, lose, run, without

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.judge.histories import Story
    from tests.judge.queues import QueueStory

DEAD = "dlq"
ANYTHING: dict[str, Any] = {"sign": None, "lost": Permitted(), "duplicated": Permitted()}


def row_of(found: Any, record: str = TARGET) -> dict[str, Any]:
    """Return a record's row of the account."""
    return next(row for row in found.account.rows if row["record"] == record)


# --- set aside ------------------------------------------------------------------------------------


def rests_aside(story: QueueStory) -> None:
    """The target has no result, and a copy of it rests among the dead letters."""
    without(
        story, lambda row: row["event"] in {"recorded", "removed"} and row.get("record") == TARGET
    )
    stays(story, TARGET, "ready", DEAD, hop="aside")


def moved(story: QueueStory, why: str | None) -> None:
    """The broker says that it has moved it there."""
    place_of = first(story, "stored", record=TARGET, hop="aside")["place"]
    story.moved(TARGET, place(TARGET), place_of)["why"] = why


def unexplained(story: QueueStory) -> None:
    """The broker says that it has moved it there, and not why."""
    moved(story, None)


def moved_and(*changes: Callable[[QueueStory], object]) -> Callable[[QueueStory], None]:
    """The broker does not say why, and the wire has seen something."""

    def change(story: QueueStory) -> None:
        for each in (unexplained, *changes):
            each(story)

    return change


def refuses(story: QueueStory, how: str = "nack") -> None:
    """A reader refuses the target."""
    row = story.tell("acknowledged", "wire", record=TARGET, request="1:9", how=how, outcome=None)
    row.update(reached=True, t=first(story, "drain")["t"] - 2)


def given_again(story: QueueStory, *, reached: bool = True) -> None:
    """The target is given to a reader once more."""
    row = story.tell("fetched", "wire", record=TARGET, topic=QUEUE, conn=1, reached=reached)
    row["t"] = first(story, "drain")["t"] - 3


def refused_in_the_end(story: QueueStory) -> None:
    """A reader refuses the target, which it was given twice."""
    refuses(story)
    given_again(story)


def removed_aside(story: QueueStory, why: str) -> None:
    """The broker deletes it here and sends it there: nobody says that it is the same copy."""
    story.removed(TARGET, place(TARGET), why)


ASIDE: dict[str, tuple[Callable[[QueueStory], object], str | None]] = {
    "moved, expired": (lambda s: moved(s, "expiry"), "expired"),
    "moved at a limit": (lambda s: moved(s, "limit"), "at a limit"),
    "removed, expired": (lambda s: removed_aside(s, "expiry"), "expired"),
    "removed, rejected": (lambda s: removed_aside(s, "reject"), "rejected"),
    "refused on the wire": (moved_and(refuses), "rejected"),
    "refused after several deliveries": (
        moved_and(refused_in_the_end),
        "rejected after 2 deliveries",
    ),
    "given again": (moved_and(given_again), "set aside after 2 deliveries"),
    "moved, nobody says why": (unexplained, None),
    "moved as poison": (lambda s: moved(s, "dead-letter"), None),
    "acknowledged": (moved_and(lambda s: refuses(s, "ack")), None),
    "never arrived again": (moved_and(lambda s: given_again(s, reached=False)), None),
}


@pytest.mark.parametrize("name", ASIDE)
def test_why_a_record_was_set_aside(name: str) -> None:
    """By what the broker says, or by what the wire saw of its deliveries; else nothing is said."""
    make, why = ASIDE[name]
    story = queue_run()
    rests_aside(story)
    make(story)
    found = judged(story, dead_letters=True, **ANYTHING)
    assert (row_of(found)["state"], row_of(found)["why"]) == (State.SET_ASIDE, why)
    said = TARGET if why is None else f"{TARGET} {why}"
    assert f"1 set aside ({said}: only dead letters are left)" in found.verdict.reason


def test_records_of_one_reason_are_told_together() -> None:
    story = queue_run()
    rests_aside(story)
    moved(story, "expiry")
    other = RECORDS[0]
    without(
        story, lambda row: row["event"] in {"recorded", "removed"} and row.get("record") == other
    )
    there = stays(story, other, "ready", DEAD, hop="aside")["place"]
    story.moved(other, place(other), there)["why"] = "expiry"
    reason = judged(story, dead_letters=True, **ANYTHING).verdict.reason
    assert f"2 set aside ({other}, {TARGET} expired: only dead letters are left)" in reason


def test_what_a_program_has_set_aside_in_a_log_has_no_reason() -> None:
    """It was given to the program several times, and no line says why the program gave it up."""
    story = run()
    lose(story, TARGET, "recorded")
    story.log(0, 1, hop="aside", topic="orders.dlq")
    row = story.stored(TARGET, 0, 0, hop="aside", topic="orders.dlq", place="0:0:0")
    row["waiting"] = "ready"
    runs.look_again(story)
    again = story.fetched(TARGET, *runs.place(TARGET), reached=True)
    again["t"] = first(story, "drain")["t"] - 1
    found = runs.judged(story, dead_letters=True, logs={"topic": 2, "aside": 1}, **ANYTHING)
    assert (row_of(found)["state"], row_of(found)["why"]) == (State.SET_ASIDE, None)


# --- left, and stalled ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("waiting", "state", "why"),
    [
        ("ready", State.LEFT_IN_TOPIC, None),
        ("in-flight", State.LEFT_IN_TOPIC, "in flight"),
        ("scheduled", State.LEFT_IN_TOPIC, "scheduled"),
        ("open", State.STALLED, "by an open transaction"),
        ("prepared", State.STALLED, "by a prepared transaction"),
    ],
)
@pytest.mark.parametrize("phase", ["completed", "failed"])
def test_what_a_record_waits_for_is_told(
    waiting: str, state: State, why: str | None, phase: str
) -> None:
    story = queue_run()
    without(
        story,
        lambda row: (
            row["event"] in {"recorded", "removed", "stored"} and row.get("record") == TARGET
        ),
    )
    stays(story, TARGET, waiting)
    first(story, "drain", phase="completed").update(phase=phase, stage="queue", because="it waits")
    found = judged(story, sign=None)
    assert (row_of(found)["state"], row_of(found)["why"]) == (state, why)
    assert found.verdict.kind is (Kind.VOID if phase == "completed" else Kind.STUCK)
    told = f"{TARGET} {f'stalled {why}' if state is State.STALLED else why}"
    assert (told in found.verdict.reason) is (why is not None), found.verdict.reason


def test_a_record_of_which_one_copy_is_ready_waits_for_nothing_else() -> None:
    story = queue_run()
    without(story, lambda row: row["event"] == "recorded" and row.get("record") == TARGET)
    stays(story, TARGET, "in-flight")
    stays(story, TARGET, "ready")
    assert row_of(judged(story))["why"] is None


def test_a_broker_that_counts_nothing_in_flight_is_not_contradicted() -> None:
    """The wire saw the record arrive, and no acknowledgement: no more is said."""
    story = queue_run()
    for kind in ("recorded", "removed", "stored"):
        lose(story, TARGET, kind)
    stays(story, TARGET, "in-flight")
    first(story, "counted", queue=QUEUE).update(ready=1, in_flight=0)
    first(story, "drain", phase="completed").update(phase="failed", stage="queue", because="it")
    found = judged(story)
    assert row_of(found)["why"] == "given and not acknowledged"
    assert found.verdict.reason.endswith(f"; left: {TARGET} given and not acknowledged")


def test_an_open_transaction_is_told_before_a_prepared_one() -> None:
    """It may still end by itself."""
    story = queue_run()
    without(story, lambda row: row["event"] == "recorded" and row.get("record") == TARGET)
    stays(story, TARGET, "open")
    stays(story, TARGET, "prepared")
    assert row_of(judged(story))["why"] == "by an open transaction"


# --- in doubt -------------------------------------------------------------------------------------


def ends(story: Story, *, commit: bool = True, answered: bool = False, error: int = 0) -> None:
    """The last record is sent in a transaction, and its end is asked for."""
    last = RECORDS[-1]
    sent = first(story, "sent", record=last)
    sent.update(transactional=True, transactional_id="tx", attempt=None)
    about = {"transactional_id": "tx", "request": "3:9"}
    story.tell("end_txn", "wire", commit=commit, reached=True, **about)["t"] = sent["t"] + 2
    if answered:
        row = story.tell("end_txn_answer", "wire", error=error, reached=True, **about)
        row["t"] = sent["t"] + 3


DOUBTS: dict[str, tuple[Callable[[Story], object], bool]] = {
    "no answer": (ends, True),
    "an answer": (lambda s: ends(s, answered=True), False),
    "refused": (lambda s: ends(s, answered=True, error=47), True),
    "aborted": (lambda s: ends(s, commit=False), False),
    "told by the program": (
        lambda s: s.transaction(".".join(attempt_of(RECORDS[-1]).split(".")[:2]), "unknown"),
        True,
    ),
    "committed, as the program was told": (
        lambda s: s.transaction(".".join(attempt_of(RECORDS[-1]).split(".")[:2]), "committed"),
        False,
    ),
    "an end without an answer, at a queue": (
        lambda s: s.tell("ending", "wire", record=RECORDS[-1], request="1:1", reached=True),
        True,
    ),
    "an end that was answered, at a queue": (
        lambda s: [
            s.tell("ending", "wire", record=RECORDS[-1], request="1:1", reached=True, outcome=each)
            for each in (None, "taken")
        ],
        False,
    ),
}


@pytest.mark.parametrize("name", DOUBTS)
def test_a_record_is_in_doubt_if_nobody_knows_the_end_of_its_transaction(name: str) -> None:
    make, doubt = DOUBTS[name]
    story = run()
    make(story)
    lose(story, RECORDS[-1], "stored", "fetched", "delivered", "recorded")
    found = runs.judged(story)
    assert row_of(found, RECORDS[-1])["in_doubt"] is doubt
    assert not any(row["in_doubt"] for row in found.account.rows if row["record"] != RECORDS[-1])
    assert (f"{RECORDS[-1]} in doubt" in found.verdict.reason) is doubt, found.verdict.reason


# --- hops are no signs ----------------------------------------------------------------------------


def retries(story: Story, times: int = 2) -> None:
    """The target passes a topic for retries several times, each time as another copy."""
    at = first(story, "drain")["t"] - 100
    for number in range(times):
        sent = story.sent(TARGET, None, f"7:{number}")
        sent.update(topic="retry", t=at + 10 * number)
        row = story.fetched(TARGET, 0, number, reached=True)
        row.update(topic="retry", conn=8, t=at + 10 * number + 5)


def quiet() -> Story:
    """A run in which the target shows no sign."""
    story = run()
    without(story, lambda row: row["event"] == "unsent")
    taken = first(story, "taken", record=TARGET)
    without(story, lambda row: row is taken)
    return story


def effects(story: Story) -> str:
    """Return what a kept verdict says of the target."""
    return runs.judged(story, **ANYTHING).verdict.reason.rpartition("; ")[2]


def test_topics_for_retries_are_hops_and_no_signs() -> None:
    story = quiet()
    retries(story)
    found = runs.judged(story, **ANYTHING)
    assert effects(story) == f"no effect was seen on {TARGET}"
    assert not found.verdict.effect
    assert not {DELIVERED_AGAIN, POLLED_AGAIN} & found.signs.of(TARGET)


def sent_twice(story: Story) -> None:
    """It is sent twice into the topic, and was given no other copy in between."""
    retries(story, 1)
    story.sent(TARGET, None, "7:90").update(topic="retry", t=first(story, "drain")["t"] - 98)


def given_twice(story: Story) -> None:
    """One copy in the topic is given twice, over two connections."""
    retries(story, 1)
    row = story.fetched(TARGET, 0, 0, reached=True)
    row.update(topic="retry", conn=9, t=first(story, "drain")["t"] - 90)


def sent_again_after_it_was_given(story: Story) -> None:
    """The producer sends it a second time, and the consumer was given the first copy."""
    row = story.sent(TARGET, None, "1/90")
    row["t"] = first(story, "drain")["t"] - 90


def lost_on_its_way(story: Story) -> None:
    """An answer with it never arrives, from the topic for retries; then it does."""
    retries(story, 1)
    row = story.fetched(TARGET, 0, 0, reached=False)
    row.update(topic="retry", conn=8, t=first(story, "drain")["t"] - 99)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (sent_twice, "sent-again"),
        (given_twice, "fetched-again, polled-again"),
        (sent_again_after_it_was_given, "sent-again"),
        (lost_on_its_way, "delivered-again, fetched-again"),
    ],
)
def test_what_is_repeated_is_still_seen(change: Callable[[Story], object], said: str) -> None:
    story = quiet()
    change(story)
    assert effects(story) == f"{TARGET}: {said}"


def test_a_failed_drain_tells_only_what_is_known() -> None:
    story = queue_run()
    without(story, lambda row: row["event"] == "recorded" and row.get("record") == TARGET)
    stays(story, TARGET, "ready")
    first(story, "drain", phase="completed").update(phase="failed", stage="queue", because="it")
    reason = judged(story).verdict.reason
    assert reason == "no progress until the deadline: queue: it"
