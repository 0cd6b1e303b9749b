"""Cross-checks of queues: authorities that contradict each other void a run, each check for itself;
right histories pass.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from harness.judge import course, crosschecks, queuechecks
from harness.judge.signs import ABSORBED
from harness.judge.verdict import Kind
from harness.model.scenario import Evidence, Role
from harness.model.semantics import Semantic
from tests.judge.queue_runs import judged, place, queue_run, stays
from tests.judge.queues import QUEUE
from tests.judge.runs import RECORDS, TARGET, attempt_of, first, without
from tests.judge.test_crosschecks import both, change, drop, nothing

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.judge.queues import QueueStory

Changes = dict[str, Any]
OTHER = RECORDS[0]
COUNT, COPIES = "wrong_count", "wrong_copies"
"""The checks that the judge asks by themselves."""


def absorbed(story: QueueStory) -> None:
    """A second delivery of the target was turned away."""
    story.spared(TARGET, place(TARGET))


def set_aside(story: QueueStory) -> None:
    """The target is recorded, and a copy of it went to the dead letters, where somebody has it in
    hand.
    """
    stays(story, TARGET, "in-flight", "dlq", hop="aside")


def retried(story: QueueStory) -> None:
    """The target was moved to a queue for later, and recorded from there."""
    first(story, "removed", record=TARGET).update(place="later:1")
    first(story, "recorded", record=TARGET).update(place="later:1")
    story.moved(TARGET, place(TARGET), "later:1")


def powerless(story: QueueStory) -> None:
    """The power was lost, the fault has made the broker forget the target, which had been given to
    the consumer.
    """
    drop("stored", record=TARGET)(story)
    story.tell("fault", "runner", phase="forgot", fault="kill")["t"] = (
        first(story, "fault", phase="healed")["t"] - 1
    )
    drop("removed", record=TARGET)(story)


def named_otherwise(story: QueueStory) -> None:
    """The wire gives the queue another name than its broker does."""
    for row in story.events:
        if row["event"] == "fetched":
            row["topic"] = f"other/{QUEUE}"


def doubled(story: QueueStory) -> None:
    """The authority has a second copy of the target."""
    story.copy(TARGET, "q:90", queue=QUEUE)
    story.removed(TARGET, "q:90", "ack")


def hidden(story: QueueStory) -> None:
    """The authority has no copy of a record whose result names no place, and which has no
    receipt.
    """
    for kind in ("stored", "removed", "acked"):
        drop(kind, record=OTHER)(story)
    first(story, "recorded", record=OTHER).update(place=None)


def given_anew(story: QueueStory, *, again: bool = False) -> None:
    """A record is given, taken off, and given for the first time: a second copy."""
    story.sent(OTHER, attempt_of(OTHER), "1/90")["topic"] = QUEUE
    for row in (
        story.tell("acknowledged", "wire", record=OTHER, request="1:9", how="ack", outcome="taken"),
        story.tell(
            "fetched",
            "wire",
            record=OTHER,
            topic=QUEUE,
            conn=1,
            reached=True,
            redelivered=again,
        ),
    ):
        row["t"] = first(story, "drain")["t"] - 4


RIGHT: dict[str, tuple[Callable[[QueueStory], object], Changes]] = {
    "a crash": (nothing, {}),
    "absorbed": (absorbed, {"semantic": Semantic.EXACTLY_ONCE, "sign": ABSORBED}),
    "set aside": (set_aside, {}),
    "retried": (retried, {}),
    "a second delivery, as the broker says": (lambda s: given_anew(s, again=True), {}),
    "a power loss": (
        powerless,
        {"evidence": Evidence("rule", killed=(Role.PRODUCER,), forgotten=True)},
    ),
    "a delivery lost": (
        lambda s: s.tell("fetched", "wire", record=TARGET, topic=QUEUE, conn=2, reached=False),
        {},
    ),
}
WRONG: dict[str, tuple[str, str, Callable[[QueueStory], object], str]] = {
    "the broker not asked": (
        "_uncounted",
        "a crash",
        drop("counted"),
        "the history lacks the broker's own count of the messages in its queue",
    ),
    "only the dead letters counted": (
        "_uncounted",
        "set aside",
        drop("counted", hop="topic"),
        "the broker's own count of the messages in its queue",
    ),
    "a queue not asked for": (
        "_uncounted",
        "set aside",
        drop("counted", hop="aside"),
        "wait in dlq, but the history lacks",
    ),
    "deliveries of another queue": (
        "_elsewhere",
        "a crash",
        named_otherwise,
        "the wire saw deliveries from other/q, but the broker counted the messages of q",
    ),
    "a message that was not seen": (
        COUNT,
        "a crash",
        change("counted", {"ready": 2}),
        "the broker counts 2 messages ready or in flight in q, but the observer saw 0 there",
    ),
    "a message in flight that was not seen": (
        COUNT,
        "a crash",
        change("counted", {"in_flight": 1}),
        "1 messages ready or in flight in q, but the observer saw 0",
    ),
    "more in flight than wait at all": (
        COUNT,
        "a crash",
        lambda s: (
            stays(s, TARGET, "ready"),
            first(s, "counted", queue=QUEUE).update(ready=0, in_flight=2),
        ),
        "the broker counts 2 messages ready or in flight in q, but the observer saw 1 there",
    ),
    "one in flight that the broker does not count at all": (
        COUNT,
        "a crash",
        lambda s: (
            stays(s, TARGET, "in-flight"),
            first(s, "counted", queue=QUEUE).update(ready=0, in_flight=0),
        ),
        "the broker counts 0 messages ready or in flight in q, but the observer saw 1 there",
    ),
    "a scheduled message that was not seen": (
        COUNT,
        "a crash",
        change("counted", {"scheduled": 1}),
        "1 messages scheduled in q, but the observer saw 0",
    ),
    "one that waits now, and that the broker counts for later": (
        COUNT,
        "a crash",
        lambda s: (
            stays(s, TARGET, "ready"),
            first(s, "counted", queue=QUEUE).update(ready=0, scheduled=1),
        ),
        "the broker counts 0 messages ready or in flight in q, but the observer saw 1 there",
    ),
    "a message that is not counted": (
        COUNT,
        "set aside",
        change("counted", {"in_flight": 0}, queue="dlq"),
        "the broker counts 0 messages ready or in flight in dlq, but the observer saw 1 there",
    ),
    "two copies at one place": (
        "_copied_twice",
        "a crash",
        lambda s: s.copy(TARGET, place(TARGET), queue=QUEUE),
        "2 copies at q:3",
    ),
    "a copy moved to two places": (
        "_parted",
        "retried",
        lambda s: s.moved(TARGET, place(TARGET), "later:2"),
        "2 moves from q:3",
    ),
    "two copies moved to one place": (
        "_parted",
        "retried",
        lambda s: s.moved(TARGET, "q:9", "later:1"),
        "2 moves to later:1",
    ),
    "a copy that waits and is gone": (
        "_waits_and_does_not",
        "a crash",
        both(
            change("stored", {"waiting": "ready"}, record=TARGET), change("counted", {"ready": 1})
        ),
        r"the copy of k1-3 at q:3 waits \(ready\), but also that it was removed",
    ),
    "a copy that waits and was moved": (
        "_waits_and_does_not",
        "retried",
        both(
            change("stored", {"waiting": "ready"}, record=TARGET), change("counted", {"ready": 1})
        ),
        r"the copy of k1-3 at q:3 waits \(ready\), but also that it was moved",
    ),
    "a copy that is committed and waits for that": (
        "_waits_and_does_not",
        "a crash",
        lambda s: stays(s, TARGET, "prepared", visible=True),
        "but also that it is committed",
    ),
    "a copy that is ready and is not committed": (
        "_waits_and_does_not",
        "a crash",
        lambda s: stays(s, TARGET, "ready", visible=False),
        "also that it is not committed",
    ),
    "a result of nowhere": (
        "_homeless",
        "a crash",
        change("recorded", {"place": "q:90"}, record=TARGET),
        "k1-3 is recorded from q:90, where no",
    ),
    "an absorbed copy of nowhere": (
        "_homeless",
        "absorbed",
        change("absorbed", {"place": "q:90"}),
        "k1-3 is absorbed from q:90, where no queue has a copy",
    ),
    "a result of another's place": (
        "_homeless",
        "a crash",
        change("recorded", {"place": place(OTHER)}, record=TARGET),
        "from q:1, where the queue has k1-1",
    ),
    "a result of nowhere after a power loss": (
        "_homeless",
        "a power loss",
        both(
            change("recorded", {"place": "q:90"}, record=OTHER),
            drop("delivered", record=OTHER),
            drop("fetched", record=OTHER),
        ),
        "k1-1 is recorded from q:90",
    ),
    "a copy that waits for nothing and was not removed": (
        "_neither",
        "a crash",
        drop("removed", record=TARGET),
        "k1-3 at q:3 that waits for nothing, but not that it was removed or moved",
    ),
    "a copy that was removed and never stored": (
        "_never_stored",
        "a crash",
        lambda s: s.removed(TARGET, "q:90", "ack"),
        "k1-3 was removed from q:90, where no queue has had a copy",
    ),
    "more copies than requests": (
        COPIES,
        "a crash",
        doubled,
        "has 2 copies of k1-3 in its queue, but the wire passed on 1 request",
    ),
    "a copy of what was never sent": (
        COPIES,
        "a crash",
        drop("sent", record=OTHER),
        "has 1 copies of k1-1 in its queue, but the wire passed on 0 requests",
    ),
    "a delivered copy that its authority hides": (
        COPIES,
        "a crash",
        hidden,
        "the wire saw 1 copies of k1-1 delivered, but the broker's authority has 0",
    ),
    "a second copy that its authority hides": (
        COPIES,
        "a crash",
        given_anew,
        "the wire saw 2 copies of k1-1 delivered, but the broker's authority has 1",
    ),
    "a record that was kept from the broker": (
        "_kept_back",
        "a crash",
        drop("sent", record=TARGET),
        "k1-3 was kept from the broker .*, but the queue has it: q:3",
    ),
    "a result that was given to nobody": (
        "_not_given",
        "a crash",
        change("fetched", {"reached": False}, record=TARGET),
        "k1-3 is recorded, but the wire",
    ),
    "a record of nowhere": (
        "_nowhere",
        "a crash",
        both(
            drop("stored", record=TARGET),
            drop("removed", record=TARGET),
            change("recorded", {"place": None}, record=TARGET),
        ),
        "k1-3 was acknowledged and is recorded, but the queue has no copy of it",
    ),
}
"""The check, the right history that is spoilt, how, and what is said of it."""


def prepared(name: str, spoil: Callable[[QueueStory], object]) -> tuple[QueueStory, Changes]:
    """Tell a right history, and spoil it."""
    make, changes = RIGHT[name]
    story = queue_run()
    make(story)
    spoil(story)
    return story, changes


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_history_contradicts_nothing(name: str) -> None:
    story, changes = prepared(name, nothing)
    found = judged(story, **changes).verdict
    assert (found.kind, found.green) == (Kind.KEPT, True), found.reason


@pytest.mark.parametrize("name", WRONG)
def test_a_contradiction_is_void(name: str) -> None:
    """Whatever else was seen, with a reason that says what contradicts what."""
    _, right, spoil, because = WRONG[name]
    story, changes = prepared(right, spoil)
    found = judged(story, **changes).verdict
    assert found.kind is Kind.VOID, found
    assert re.search(because, found.reason), found.reason
    assert "\n" not in found.reason


@pytest.mark.parametrize("name", WRONG)
def test_nobody_else_says_so(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check, right, spoil, because = WRONG[name]
    for module, names in (
        (crosschecks, "_CHECKS"),
        (crosschecks, "_SINCE_SEALED"),
        (queuechecks, "_CHECKS"),
    ):
        monkeypatch.setattr(
            module, names, tuple(one for one in getattr(module, names) if one.__name__ != check)
        )
    if check in (COUNT, COPIES):
        monkeypatch.setattr(course, check, lambda *_: None)
    story, changes = prepared(right, spoil)
    assert not re.search(because, judged(story, **changes).verdict.reason)


def test_every_check_is_tried() -> None:
    assert {check.__name__ for check in queuechecks._CHECKS} <= {
        check for check, *_ in WRONG.values()
    }


def never_drained(story: QueueStory, because: str = "something waits") -> None:
    """The drain failed: the queue was never empty."""
    first(story, "drain", phase="completed").update(phase="failed", stage="queue", because=because)


STANDS_STILL = "no progress until the deadline: queue: something waits"


@pytest.mark.parametrize("waiting", ["ready", "in-flight"])
@pytest.mark.parametrize("counted", ["ready", "in_flight"])
def test_who_has_a_message_contradicts_nothing(waiting: str, counted: str) -> None:
    """No journal says what is in flight, and the wire cannot know it either.

    A library may have dropped what arrived, a broker may keep one for a consumer that is gone, and
    Pulsar counts nothing in flight for an exclusive subscription.
    """
    story = queue_run()
    stays(story, TARGET, waiting)
    first(story, "counted", queue=QUEUE).update({"ready": 0, "in_flight": 0, counted: 1})
    never_drained(story)
    found = judged(story).verdict
    assert (found.kind, found.reason) == (Kind.STUCK, STANDS_STILL)


def acknowledged_in_parts(story: QueueStory) -> None:
    """The target is acknowledged, and its two parts wait beside a part that was sent before; its
    consumer has been given all of them, and drops them.

    The broker has an exclusive subscription, for which it counts nothing as in flight.
    """
    without(story, lambda row: row["event"] == "recorded" and row["record"] == TARGET)
    without(story, lambda row: row["event"] == "removed" and row["record"] == TARGET)
    first(story, "stored", record=TARGET).update(waiting="in-flight", parts=2, counts=2)
    stays(story, None, "ready", foreign=True)
    first(story, "counted", queue=QUEUE).update(ready=3, in_flight=0)
    never_drained(story)


def test_an_acknowledged_message_in_parts_that_nobody_takes_is_no_contradiction() -> None:
    """The run stands still, and is not void for what the broker counts as ready."""
    story = queue_run()
    acknowledged_in_parts(story)
    found = judged(story)
    assert found.verdict.kind is Kind.STUCK
    assert found.verdict.reason == f"{STANDS_STILL}; left: {TARGET} given and not acknowledged"
    assert found.account.left == {TARGET}


def miscounted(story: QueueStory) -> None:
    """The broker counts two messages that nobody saw."""
    count = first(story, "counted", queue=QUEUE)
    count["ready"] += 2


def acknowledged_and_gone(story: QueueStory) -> None:
    """Nothing shows what became of the target, and the queue is never empty."""
    for kind in ("recorded", "removed", "stored", "fetched"):
        drop(kind, record=TARGET)(story)
    never_drained(story)


def in_parts_and_unanswered(story: QueueStory) -> None:
    """The producer was not told that the target is stored."""
    acknowledged_in_parts(story)
    drop("acked", record=TARGET)(story)


def rests_aside(story: QueueStory) -> None:
    """The target is among the dead letters, and the queue is never empty."""
    drop("recorded", record=TARGET)(story)
    stays(story, TARGET, "ready", "dlq", hop="aside")
    never_drained(story)


MISSING: dict[str, Callable[[QueueStory], object]] = {
    "it waits": acknowledged_in_parts,
    "it is gone": acknowledged_and_gone,
}


@pytest.mark.parametrize("name", MISSING)
def test_a_wrong_count_hides_no_missing_record(name: str) -> None:
    """The producer was told that it is stored, and the sink does not have it: a count says nothing
    about either.
    """
    story = queue_run()
    MISSING[name](story)
    miscounted(story)
    found = judged(story).verdict
    assert found.kind is Kind.STUCK, found
    assert re.fullmatch(
        f"{STANDS_STILL}(; left: {TARGET} given and not acknowledged)?; "
        f"{TARGET} acknowledged and not recorded, and the broker counts [25] messages ready or "
        "in flight in q, but the observer saw [03] .*",
        found.reason,
    ), found.reason


TRUE_CONTRADICTIONS: dict[str, tuple[Callable[[QueueStory], object], Changes]] = {
    "all are recorded": (never_drained, {}),
    "it was not acknowledged": (in_parts_and_unanswered, {}),
    "it may be set aside": (rests_aside, {"dead_letters": True}),
    "the drain completed": (drop("recorded", record=TARGET), {}),
    "a control": (acknowledged_in_parts, {"control": True}),
}


@pytest.mark.parametrize("name", TRUE_CONTRADICTIONS)
def test_a_wrong_count_voids_what_it_could_explain(name: str) -> None:
    """A wrong count is a contradiction, where no acknowledged record is missing after a failed
    drain.
    """
    make, changes = TRUE_CONTRADICTIONS[name]
    story = queue_run()
    make(story)
    miscounted(story)
    found = judged(story, **changes).verdict
    assert found.kind is Kind.VOID, found
    assert found.reason.startswith("the broker counts "), found.reason


def test_a_broker_that_counts_parts_is_believed() -> None:
    """A message in three parts waits, and a part of another one, which nothing completes: the
    broker counts four.
    """
    story = queue_run()
    stays(story, TARGET, "ready", counts=3)
    stays(story, None, "ready", foreign=True)
    first(story, "counted", queue=QUEUE).update(ready=4)
    first(story, "drain", phase="completed").update(
        phase="failed", stage="queue", because="4 ready"
    )
    found = judged(story).verdict
    assert (found.kind, found.reason) == (
        Kind.STUCK,
        "no progress until the deadline: queue: 4 ready",
    )


@pytest.mark.parametrize("counted", [2, 3, 5])
def test_a_broker_that_counts_other_parts_is_not(counted: int) -> None:
    story = queue_run()
    stays(story, TARGET, "ready", counts=3)
    stays(story, None, "ready", foreign=True)
    first(story, "counted", queue=QUEUE).update(ready=counted)
    found = judged(story).verdict
    assert found.kind is Kind.VOID
    assert found.reason == (
        f"the broker counts {counted} messages ready or in flight in {QUEUE}, but the observer "
        "saw 4 there"
    )


def test_a_plan_of_version_1_promises_no_count() -> None:
    story, _ = prepared("a crash", drop("counted"))
    assert judged(story, schema=1).verdict.kind is Kind.KEPT


def test_a_log_needs_no_count() -> None:
    """Its plan has one, and what its broker counts in queues besides is held against what was seen
    there.
    """
    story = queue_run()
    without(story, lambda row: row["event"] == "counted")
    story.tell("log", hop="topic", topic="t", partition=0, start=0, stable=0, end=0, last_data=-1)
    story.tell("position", partition=0, offset=-1, where="group")
    assert judged(story, logs={"topic": 1}).verdict.kind is Kind.KEPT


def updating(name: str, to: object, kind: str, **fields: Any) -> Callable[[QueueStory], object]:
    """Change a field of the first line of a kind with these fields."""
    return lambda story: first(story, kind, **fields).update({name: to})


MUTATIONS: dict[str, Callable[[QueueStory], object]] = {
    **{
        f"one more {field}": updating(field, 1, "counted")
        for field in ("ready", "in_flight", "scheduled")
    },
    "a count less": drop("counted"),
    "recorded elsewhere": lambda s: first(s, "recorded", record=TARGET).update(place="q:1000"),
    **{
        f"waits, {waiting}": updating("waiting", waiting, "stored", record=TARGET)
        for waiting in ("ready", "in-flight", "scheduled", "open", "prepared")
    },
}


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_no_mutation_of_an_authority_stays_green(mutation: str) -> None:
    story = queue_run()
    MUTATIONS[mutation](story)
    assert not judged(story).verdict.green
