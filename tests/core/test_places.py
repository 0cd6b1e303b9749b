"""Fifteen histories of brokers that forget: what a queue does, and what an account by offsets would say of it wrongly."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from harness.core.accounting import account
from harness.core.places import Removal, Waiting, placed
from harness.core.semantics import Semantic
from harness.core.states import LastHop, State
from harness.core.verdict import Kind
from tests.core.histories import Row, Story
from tests.core.runs import TARGET, about, history_of, judged, plan, run, without
from tests.core.runs import first as first_row

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.core.accounting import Account

ONE, TWO, THREE = "a-1", "a-2", "a-3"
DEAD = "aside"


class Queue(Story):
    """What the parts of a pipeline tell of three records that go through a queue; its journal keeps what was there."""

    def __init__(self) -> None:
        super().__init__()
        for position, record in enumerate((ONE, TWO, THREE), start=1):
            self.offered(record, "a", position)
        self.cursor(4)

    def put(self, record: str, place: str, waiting: Waiting | None = None, **more: object) -> None:
        """A copy is in the journal, or is known to have been there."""
        fields = {"hop": "topic", "intact": True, "visible": True, "attempt": None, "key": None, **more}
        self.tell("stored", record=record, place=place, waiting=None if waiting is None else str(waiting), **fields)

    def take(self, record: str, place: str, why: Removal) -> None:
        """The broker has taken the copy away."""
        self.tell("removed", record=record, place=place, why=str(why))

    def move(self, record: str, place: str, to: str) -> None:
        """The broker has moved the copy."""
        self.tell("moved", record=record, place=place, to=to)

    def give(self, record: str, *, redelivered: bool = False) -> None:
        """A consumer was given the record."""
        self.tell("delivered", "consumer-1", record=record, redelivered=redelivered)

    def keep(self, record: str, place: str | None) -> None:
        """The sink has a row of the record."""
        self.tell("recorded", record=record, place=place, intact=True, order=self.now, key=None, attempt=None)

    def through(self, record: str, place: str) -> None:
        """The record goes the whole way."""
        self.put(record, place)
        self.give(record)
        self.keep(record, place)
        self.take(record, place, Removal.ACK)


@dataclass(frozen=True, slots=True)
class Told:
    """What must be said of the second record, and the columns that are not zero beside those of three records recorded."""

    tell: Callable[[Queue], object]
    state: State
    hop: LastHop | None = None
    counts: dict[str, int] = field(default_factory=dict)


def hole(q: Queue) -> None:
    """The third is acknowledged, the second, before it, not: a saved position would be behind both."""
    q.put(TWO, "m2", Waiting.READY)
    q.give(TWO)


def lost_by_its_consumer(q: Queue) -> None:
    """Acknowledged, delivered, not recorded: the broker has forgotten it, and has lost nothing."""
    q.put(TWO, "m2")
    q.tell("acked", "producer-1", record=TWO, attempt=None, hop="topic")
    q.give(TWO)
    q.take(TWO, "m2", Removal.ACK)


def redelivery_limit(q: Queue) -> None:
    """Given three times, and then a dead letter."""
    q.put(TWO, "m2")
    for number in range(3):
        q.give(TWO, redelivered=number > 0)
    q.take(TWO, "m2", Removal.LIMIT)
    q.put(TWO, "d2", Waiting.READY, hop=DEAD)
    q.move(TWO, "m2", "d2")


def expired(q: Queue) -> None:
    """It was too old, and there are no dead letters."""
    q.put(TWO, "m2")
    q.take(TWO, "m2", Removal.EXPIRY)


def expired_to_the_dead_letters(q: Queue) -> None:
    """It was too old, and is a dead letter."""
    expired(q)
    q.put(TWO, "d2", Waiting.READY, hop=DEAD)
    q.move(TWO, "m2", "d2")


def acknowledged_at_dispatch(q: Queue) -> None:
    """The broker has sent it off and taken it for done; it never came."""
    q.put(TWO, "m2")
    q.take(TWO, "m2", Removal.ACK)


def one_copy_aside_one_waiting(q: Queue) -> None:
    """Sent twice: one copy is a dead letter, the other may still be given."""
    redelivery_limit(q)
    q.put(TWO, "m9", Waiting.READY)


def in_flight(q: Queue) -> None:
    """A consumer that lives has it, and has not acknowledged."""
    q.put(TWO, "m2", Waiting.IN_FLIGHT)
    q.give(TWO)


def scheduled(q: Queue) -> None:
    """Its time has not come."""
    q.put(TWO, "m2", Waiting.SCHEDULED)


def prepared(q: Queue) -> None:
    """A transaction of two phases stands between them."""
    q.put(TWO, "m2", Waiting.PREPARED, visible=False)


def rejected(q: Queue) -> None:
    """The consumer does not want it, and there are no dead letters."""
    q.put(TWO, "m2")
    q.give(TWO)
    q.take(TWO, "m2", Removal.REJECT)


def retried_elsewhere(q: Queue) -> None:
    """Its library moves it to a queue for later attempts, where it is taken: one copy, not two."""
    q.put(TWO, "m2")
    q.give(TWO)
    q.keep(TWO, "m2")
    q.take(TWO, "m2", Removal.ACK)
    q.put(TWO, "r2")
    q.move(TWO, "m2", "r2")
    q.give(TWO, redelivered=True)
    q.keep(TWO, "r2")
    q.take(TWO, "r2", Removal.ACK)


def recorded_and_aside(q: Queue) -> None:
    """It is recorded, its acknowledgement was lost, and a later attempt ended in the dead letters."""
    redelivery_limit(q)
    q.keep(TWO, "m2")


def rollback_that_a_library_invents(q: Queue) -> None:
    """The commit's answer was lost; the library tells its program of a rollback that the broker knows nothing of."""
    q.tell("transaction", "producer-1", transaction="producer-1.2", outcome="begun", error=None)
    q.put(TWO, "m2", attempt="producer-1.2.1")
    q.tell("transaction", "producer-1", transaction="producer-1.2", outcome="aborted", error="TransactionRolledBack",
           told_by="library")  # fmt: skip
    q.give(TWO)
    q.keep(TWO, "m2")
    q.take(TWO, "m2", Removal.ACK)


def counted_twice_in_a_value(q: Queue) -> None:
    """The last version of a value holds it twice; the versions before it are no results."""
    q.put(TWO, "m2")
    q.give(TWO)
    for version, times in ((1, 1), (2, 2)):
        q.tell("folded", key="a", version=version, record=TWO, times=times)
    q.take(TWO, "m2", Removal.ACK)


def acknowledgement_that_never_left(q: Queue) -> None:
    """Acknowledgements were gathered and never sent: it is given again, and recorded again."""
    q.put(TWO, "m2")
    for number in range(2):
        q.give(TWO, redelivered=number > 0)
        q.keep(TWO, "m2")
    q.take(TWO, "m2", Removal.ACK)


def negative_acknowledgement_that_acknowledges(q: Queue) -> None:
    """The consumer says that it could not; this broker takes that for an acknowledgement."""
    lost_by_its_consumer(q)


def negative_acknowledgement_to_the_dead_letters(q: Queue) -> None:
    """Another broker makes a dead letter of it at once."""
    q.put(TWO, "m2")
    q.give(TWO)
    q.take(TWO, "m2", Removal.DEAD_LETTER)
    q.put(TWO, "d2", Waiting.READY, hop=DEAD)
    q.move(TWO, "m2", "d2")


ASIDE = {"recorded": -1, "set_aside": 1}
LEFT = {"recorded": -1, "left": 1, "left_in_topic": 1}
LOST = {"recorded": -1, "lost": 1}
DOUBLED = {"duplicated": 1, "delivered_twice": 1}
TOLD = [
    Told(hole, State.LEFT_IN_TOPIC, counts=LEFT),
    Told(lost_by_its_consumer, State.LOST, LastHop.DELIVERED, LOST | {"acked": 1}),
    Told(redelivery_limit, State.SET_ASIDE, counts=ASIDE),
    Told(expired, State.LOST, LastHop.EXPIRED, LOST),
    Told(expired_to_the_dead_letters, State.SET_ASIDE, counts=ASIDE),
    Told(acknowledged_at_dispatch, State.LOST, LastHop.GIVEN_UP, LOST),
    Told(one_copy_aside_one_waiting, State.LEFT_IN_TOPIC, counts=LEFT),
    Told(in_flight, State.LEFT_IN_TOPIC, counts=LEFT),
    Told(scheduled, State.LEFT_IN_TOPIC, counts=LEFT),
    Told(prepared, State.STALLED, counts={"recorded": -1, "stalled": 1}),
    Told(rejected, State.LOST, LastHop.REJECTED, LOST),
    Told(retried_elsewhere, State.RECORDED, counts=DOUBLED),
    Told(recorded_and_aside, State.RECORDED),
    Told(rollback_that_a_library_invents, State.RECORDED, counts={"in_doubt": 1}),
    Told(counted_twice_in_a_value, State.RECORDED, counts=DOUBLED),
    Told(acknowledgement_that_never_left, State.RECORDED, counts=DOUBLED),
    Told(negative_acknowledgement_that_acknowledges, State.LOST, LastHop.DELIVERED, LOST | {"acked": 1}),
    Told(negative_acknowledgement_to_the_dead_letters, State.SET_ASIDE, counts=ASIDE),
]


def accounted(tell: Callable[[Queue], object]) -> Account:
    """Account for a queue in which the first and the third record go the whole way, and the second as it is told."""
    queue = Queue()
    queue.through(ONE, "m1")
    tell(queue)
    queue.through(THREE, "m3")
    return account(queue.events)


@pytest.mark.parametrize("told", TOLD, ids=lambda told: told.tell.__name__)
def test_what_a_queue_does_is_counted_as_what_it_is(told: Told) -> None:
    """The second record has the state and the last hop that are right, and no column says anything else."""
    found = accounted(told.tell)
    second = found.records.set_index("record").loc[TWO]
    assert (second["state"], second["last_hop"]) == (told.state, told.hop)
    plain = {"offered": 3, "stored": 3, "recorded": 3}
    want = {name: plain.get(name, 0) + told.counts.get(name, 0) for name in {**plain, **told.counts}}
    assert {name: count for name, count in found.counts.items() if count or want.get(name)} == want


def test_a_recorded_record_says_what_was_set_aside_of_it() -> None:
    """The state is recorded; that a copy of it is a dead letter stands beside it."""
    records = accounted(recorded_and_aside).records.set_index("record")
    assert records["aside"].to_dict() == {ONE: 0, TWO: 1, THREE: 0}


def test_a_copy_that_was_moved_again_and_again_is_one() -> None:
    """Servers that hand it on do not make more of it."""

    def passed_on(q: Queue) -> None:
        q.put(TWO, "m2")
        for place, to in (("m2", "n2"), ("n2", "o2")):
            q.move(TWO, place, to)
        q.keep(TWO, "m2")
        q.keep(TWO, "o2")

    assert accounted(passed_on).counts["stored_twice"] == 0


def test_a_copy_that_was_sent_again_is_a_second_one() -> None:
    """Two places that nobody has moved anything between are two copies."""

    def sent_again(q: Queue) -> None:
        q.through(TWO, "m2")
        q.through(TWO, "m4")

    found = accounted(sent_again).counts
    assert (found["stored_twice"], found["delivered_twice"]) == (1, 0)


# --- what it means for a promise ------------------------------------------------------------------------------------


def set_aside(story: Story) -> None:
    """The target is nowhere but in the dead letters."""
    without(story, lambda row: about(row, TARGET, "recorded"))
    copy = first_row(story, "stored", record=TARGET)
    story.stored(TARGET, copy["partition"], 0, hop=DEAD, topic="dead", attempt=copy["attempt"])
    story.log(copy["partition"], 1, hop=DEAD, topic="dead")


@pytest.mark.parametrize("semantic", [Semantic.AT_LEAST_ONCE, Semantic.EXACTLY_ONCE])
def test_a_record_that_was_set_aside_is_lost_where_dead_letters_are_no_part_of_the_pipeline(semantic: Semantic) -> None:
    """The reason says where it is."""
    story = run()
    set_aside(story)
    found = judged(story, semantic=semantic).verdict
    assert found.kind is Kind.BROKEN
    assert f"1 set aside ({TARGET}: nothing is left but dead letters)" in found.reason


def test_a_record_that_was_set_aside_is_kept_where_dead_letters_are_a_part_of_the_pipeline() -> None:
    """It is told all the same."""
    story = run()
    set_aside(story)
    found = judged(story, dead_letters=True).verdict
    assert found.kind is Kind.KEPT
    assert f"1 set aside ({TARGET}" in found.reason


def test_at_most_once_may_set_aside() -> None:
    """It forbids no loss."""
    story = run()
    set_aside(story)
    assert judged(story, semantic=Semantic.AT_MOST_ONCE).verdict.kind is not Kind.BROKEN


def test_a_plan_says_whether_dead_letters_are_a_part_of_the_pipeline() -> None:
    """It is read back as it was written; earlier plans say nothing of it."""
    written = plan(dead_letters=True)
    assert type(written).from_json(written.to_json()) == written
    assert not plan().dead_letters


# --- histories of before ---------------------------------------------------------------------------------------------


def of_before() -> list[Row]:
    """Return a history by hand, which names no places."""
    story = run()
    story.tell("deleted", record="k1-1", topic="t", partition=1, epoch=0, offset=0, visible=True)
    return story.events


def test_a_history_of_before_is_given_places() -> None:
    """Every copy has one, what was deleted was removed, and nothing else is changed."""
    before = of_before()
    after = placed(before)
    assert len(after) == len(before)
    names = {"stored", "removed", "recorded", "absorbed"}
    assert all(row["place"] is not None for row in after if row["event"] in names)
    assert [row["why"] for row in after if row["event"] == "removed"] == [Removal.RETENTION]
    assert [row for row in after if row["event"] not in names] == [
        row for row in before if row["event"] not in names | {"deleted"}
    ]


def test_a_history_of_today_is_left_as_it_is() -> None:
    """To place what has places changes nothing."""
    once = placed(of_before())
    assert placed(once) == once


@pytest.mark.parametrize(("change", "waiting"), [
    ({}, None), ({"event": "position", "offset": 0}, "ready"), ({"event": "log", "stable": 0}, None),
])  # fmt: skip
def test_what_a_copy_of_before_waits_for_follows_from_its_log(change: dict[str, Any], waiting: str | None) -> None:
    """A visible copy at or above the saved position is ready; the last stable offset says nothing of what is visible."""
    story = run()
    for row in story.events:
        if row["event"] == change.get("event"):
            row.update(change)
    copy = next(row for row in history_of(story).of("stored") if row["record"] == TARGET)
    assert copy["waiting"] == waiting
