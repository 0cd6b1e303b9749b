"""Stories of queues with the answer that a person gives: what the accounting, and the oracle beside
it, must say of each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from harness.model.states import LastHop, State
from tests.events import account
from tests.judge.agreement import differences
from tests.judge.histories import Story
from tests.judge.queue_oracle import queue_oracle
from tests.judge.queues import QueueStory

if TYPE_CHECKING:
    from collections.abc import Callable

IT = "a-1"
ATTEMPT = "p-1.1.1"


def sent() -> QueueStory:
    """Tell how a record was offered, sent and acknowledged."""
    story = QueueStory()
    story.offered(IT, "a", 1)
    story.cursor(2)
    story.sent(IT, ATTEMPT)
    story.acked(IT, ATTEMPT)
    return story


@dataclass
class Case:
    """What happened to a record, and what must be said of it. Counts not named here must be 0, but
    for offered and stored.
    """

    happens: Callable[[QueueStory], object]
    state: State
    last_hop: LastHop | None = None
    counts: tuple[tuple[str, int], ...] = ()


def hole(story: QueueStory) -> None:
    """It waits, and the one behind it was acknowledged."""
    story.copy(IT, "q:1", "ready", attempt=ATTEMPT)
    story.copy(None, "q:2", foreign=True)
    story.removed(None, "q:2", "ack")


def limit(story: QueueStory) -> None:
    """Delivered three times, and then no more: there is nowhere to put it."""
    for time in range(3):
        story.given(IT, redelivered=time > 0)
    story.copy(IT, "q:1", attempt=ATTEMPT)
    story.removed(IT, "q:1", "limit")


def lost_by_its_consumer(story: QueueStory) -> None:
    """Delivered, acknowledged, forgotten by the broker, and nowhere: the broker has done nothing
    wrong.
    """
    story.given(IT)
    story.removed(IT, "q:1", "ack")


def limit_aside(story: QueueStory) -> None:
    """Delivered too often: taken away here, put aside there, and the broker says that it is the
    same.
    """
    limit(story)
    story.copy(IT, "dlq:1", "ready", hop="aside")
    story.moved(IT, "q:1", "dlq:1")


def expired(story: QueueStory) -> None:
    """Its time is over."""
    story.removed(IT, "q:1", "expiry")


def expired_aside(story: QueueStory) -> None:
    """Its time is over, and the broker has put it aside."""
    story.copy(IT, "q:1", attempt=ATTEMPT)
    story.moved(IT, "q:1", "dlq:1")
    story.copy(IT, "dlq:1", "ready", hop="aside", attempt=ATTEMPT)


def never_arrived(story: QueueStory) -> None:
    """Acknowledged at dispatch, and the wire saw that it did not arrive."""
    story.tell("fetched", "wire", record=IT, topic="q", conn=1, reached=False)
    story.removed(IT, "q:1", "ack")


def arrived(story: QueueStory) -> None:
    """Taken by a foreign program, which keeps no ledger; the wire saw it arrive."""
    story.tell("fetched", "wire", record=IT, topic="q", conn=1, reached=True)
    story.removed(IT, "q:1", "ack")


def one_aside_one_waits(story: QueueStory) -> None:
    """Sent twice: one copy is a dead letter, the other one can still be worked on."""
    expired_aside(story)
    story.copy(IT, "q:2", "ready", attempt="p-1.1.2")


def in_flight(story: QueueStory) -> None:
    """A living consumer has it, and has not acknowledged it."""
    story.given(IT)
    story.copy(IT, "q:1", "in-flight", attempt=ATTEMPT)


def scheduled(story: QueueStory) -> None:
    """Its time has not come."""
    story.copy(IT, "q:1", "scheduled", attempt=ATTEMPT)


def prepared(story: QueueStory) -> None:
    """Its transaction is prepared, and nobody has said what becomes of it."""
    story.told("p-1.1", "begun")
    story.copy(IT, "q:1", "prepared", attempt=ATTEMPT)


def rejected(story: QueueStory) -> None:
    """Its consumer did not want it."""
    story.given(IT)
    story.removed(IT, "q:1", "reject")


def retried(story: QueueStory) -> None:
    """Tried, put into a topic for later attempts, tried again, and recorded: two
    places, one copy.
    """
    story.given(IT)
    story.moved(IT, "q:1", "later:1")
    story.given(IT)
    for place in ("q:1", "later:1"):
        story.copy(IT, place, attempt=ATTEMPT)
        story.result(IT, len(place), place)
    story.removed(IT, "later:1", "ack")


def handed_on(story: QueueStory) -> None:
    """From server to server; its result is told at the first place and at the last: one copy all
    the same.
    """
    for place, to in (("q:1", "other:1"), ("other:1", "third:1")):
        story.moved(IT, place, to)
    story.copy(IT, "q:1", attempt=ATTEMPT)
    for order, place in enumerate(("q:1", "third:1")):
        story.result(IT, order, place)


def sent_twice(story: QueueStory) -> None:
    """Two places that nobody has moved anything between are two copies."""
    for order, place in enumerate(("q:1", "q:2")):
        story.copy(IT, place, attempt=ATTEMPT)
        story.given(IT)
        story.result(IT, order, place)
        story.removed(IT, place, "ack")


def recorded_and_aside(story: QueueStory) -> None:
    """Recorded, and its acknowledgement never came: it was delivered too often, and put aside."""
    story.given(IT)
    story.result(IT, 1, "q:1")
    expired_aside(story)


def rolled_back_by_the_library(story: QueueStory) -> None:
    """The answer to the commit was lost, and the client's library says of its own accord that it is
    rolled back.
    """
    story.told("p-1.1", "aborted", "library")
    recorded(story)


def rolled_back_by_the_broker(story: QueueStory) -> None:
    """The broker said that it had rolled it back, and gives it to a consumer."""
    story.told("p-1.1", "aborted")
    recorded(story)


def recorded(story: QueueStory) -> None:
    """Delivered, recorded, acknowledged."""
    story.copy(IT, "q:1", attempt=ATTEMPT)
    story.given(IT)
    story.result(IT, 1, "q:1")
    story.removed(IT, "q:1", "ack")


def folded_twice(story: QueueStory) -> None:
    """The last version of a value holds it twice, which is written twice; those before it held it
    once.
    """
    story.folded("a", 1, IT, 1)
    for _ in range(2):
        story.folded("a", 2, IT, 2)


def grouped(story: QueueStory) -> None:
    """Recorded; the acknowledgement that was to take it and others never left, so it came again and
    is recorded twice.
    """
    for order, again in enumerate((False, True)):
        story.given(IT, redelivered=again)
        story.result(IT, order, "q:1")
    story.copy(IT, "q:1", attempt=ATTEMPT)
    story.removed(IT, "q:1", "ack")


def refused_by_its_consumer(story: QueueStory) -> None:
    """A negative acknowledgement, which this broker takes for one: it is gone."""
    story.given(IT)
    story.copy(IT, "q:1", attempt=ATTEMPT)
    story.removed(IT, "q:1", "ack")


def refused_into_the_dead_letters(story: QueueStory) -> None:
    """A negative acknowledgement, of which this broker makes a dead letter at once."""
    story.given(IT)
    story.copy(IT, "q:1", attempt=ATTEMPT)
    story.removed(IT, "q:1", "dead-letter")
    story.copy(IT, "dlq:1", "ready", hop="aside")


def gone_from_aside(story: QueueStory) -> None:
    """Put aside, and the dead letters were purged: not even they are left."""
    story.copy(IT, "q:1", attempt=ATTEMPT)
    story.removed(IT, "q:1", "dead-letter")
    story.copy(IT, "dlq:1", hop="aside")
    story.removed(IT, "dlq:1", "purge")


def lost_on_its_way(story: QueueStory) -> None:
    """Moved to another server, where it never arrived: the producer was not told a lie."""
    story.moved(IT, "q:1", "other:1")


def purged(story: QueueStory) -> None:
    """Somebody emptied the queue, as the next delivery was on its way."""
    story.copy(IT, "q:1", attempt=ATTEMPT)
    story.tell("fetched", "wire", record=IT, topic="q", conn=1, reached=True)
    story.removed(IT, "q:1", "purge")


def compacted(story: QueueStory) -> None:
    """A later one of its key stands for it."""
    story.removed(IT, "q:1", "compaction")


def taken_for_a_duplicate(story: QueueStory) -> None:
    """The broker takes it for one that it has, and has none: of the second attempt nothing is left
    either.
    """
    story.removed(IT, "q:1", "duplicate")
    story.removed(IT, "q:2", "duplicate")


def duplicate_of_what_was_purged(story: QueueStory) -> None:
    """One copy was the other's duplicate, and that one is gone: this is how it was lost."""
    story.removed(IT, "q:2", "duplicate")
    story.removed(IT, "q:1", "purge")


def duplicate_of_what_was_given(story: QueueStory) -> None:
    """The consumer was given the other copy, of which a broker without a journal says nothing."""
    story.given(IT)
    story.removed(IT, "q:2", "duplicate")


def skipped(story: QueueStory) -> None:
    """The broker has it, and gives it to nobody."""
    story.copy(IT, "q:1", attempt=ATTEMPT)


def half_known(story: QueueStory) -> None:
    """Two records of a transaction, and a broker without a journal: what it has forgotten was no
    less visible.
    """
    story.offered("a-2", "a", 0)
    story.told("p-1.1", "committed")
    story.acked("a-2", "p-1.1.2")
    story.removed("a-2", "q:2", "ack")
    story.result("a-2", 1, "q:2")
    story.copy(IT, "q:1", "ready", attempt=ATTEMPT)


DUPLICATED = (("duplicated", 1), ("delivered_twice", 1))
CASES = (
    Case(hole, State.LEFT_IN_TOPIC),
    Case(limit, State.LOST, LastHop.LIMIT),
    Case(expired, State.LOST, LastHop.EXPIRED),
    Case(lost_by_its_consumer, State.LOST, LastHop.DELIVERED),
    Case(expired_aside, State.SET_ASIDE),
    Case(never_arrived, State.LOST, LastHop.GIVEN_UP),
    Case(arrived, State.LOST, LastHop.DELIVERED),
    Case(one_aside_one_waits, State.LEFT_IN_TOPIC),
    Case(in_flight, State.LEFT_IN_TOPIC),
    Case(scheduled, State.LEFT_IN_TOPIC),
    Case(prepared, State.STALLED),
    Case(rejected, State.LOST, LastHop.REJECTED),
    Case(retried, State.RECORDED, None, DUPLICATED),
    Case(recorded_and_aside, State.RECORDED),
    Case(rolled_back_by_the_library, State.RECORDED, None, (("in_doubt", 1),)),
    Case(rolled_back_by_the_broker, State.RECORDED, None, (("resurrected", 1),)),
    Case(recorded, State.RECORDED),
    Case(folded_twice, State.RECORDED, None, DUPLICATED),
    Case(grouped, State.RECORDED, None, DUPLICATED),
    Case(refused_by_its_consumer, State.LOST, LastHop.DELIVERED),
    Case(gone_from_aside, State.LOST, LastHop.DEAD_LETTER),
    Case(lost_on_its_way, State.LOST, LastHop.MOVED),
    Case(skipped, State.LOST, LastHop.SKIPPED),
    Case(half_known, State.LEFT_IN_TOPIC),
    Case(purged, State.LOST, LastHop.PURGED),
    Case(compacted, State.LOST, LastHop.COMPACTED),
    Case(taken_for_a_duplicate, State.LOST, LastHop.DUPLICATE),
    Case(duplicate_of_what_was_purged, State.LOST, LastHop.PURGED),
    Case(duplicate_of_what_was_given, State.LOST, LastHop.DELIVERED),
    Case(limit_aside, State.SET_ASIDE),
    Case(refused_into_the_dead_letters, State.SET_ASIDE),
    Case(handed_on, State.RECORDED, None, DUPLICATED),
    Case(sent_twice, State.RECORDED, None, (("duplicated", 1), ("stored_twice", 1))),
)
ANOMALIES = (
    "duplicated",
    "stored_twice",
    "delivered_twice",
    "phantom",
    "resurrected",
    "torn",
    "aborted",
    "in_doubt",
    "reordered",
)


@pytest.mark.parametrize("case", CASES, ids=[case.happens.__name__ for case in CASES])
def test_a_queue_is_counted_as_a_person_counts_it(case: Case) -> None:
    """State, last hop and anomalies of the one record; the oracle agrees."""
    story = sent()
    case.happens(story)
    found = account(story.events)
    [row] = found.records[found.records["record"] == IT].to_dict("records")
    assert (row["state"], row["last_hop"]) == (case.state, case.last_hop)
    assert {name: found.counts[name] for name in ANOMALIES} == {
        name: dict(case.counts).get(name, 0) for name in ANOMALIES
    }
    assert not differences(story.events, queue_oracle)


def test_a_record_that_is_recorded_tells_of_its_dead_letter() -> None:
    story = sent()
    recorded_and_aside(story)
    assert account(story.events).records["aside"].tolist() == [1]


@pytest.mark.parametrize(("topic", "state"), [("other", State.SET_ASIDE), ("t", State.LOST)])
def test_dead_letters_in_a_log_are_gone_only_with_their_own_log(topic: str, state: State) -> None:
    """The logs of two topics have the same places: what retention took from the one is still in the
    other.
    """
    story = Story()
    story.offered(IT, "a", 1)
    story.cursor(2)
    story.stored(IT, 0, 3, hop="aside", topic=topic)
    story.tell("deleted", record="a-2", topic="t", partition=0, epoch=0, offset=3, visible=True)
    assert account(story.events).records["state"].tolist() == [state]
