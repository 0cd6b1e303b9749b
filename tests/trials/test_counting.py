"""What is counted in a run, and what is said of a claim: each number has a breakage that changes
it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from harness.model.semantics import Semantic
from harness.protocols.kafka.steps import ERRORS
from harness.trials.counting import ClaimResult, Count, RecordFate, Topic, judged, merged
from tests.events import typed

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.model.history import Event

ORDERS = "orders"
MOST, LEAST, EXACTLY = Semantic.AT_MOST_ONCE, Semantic.AT_LEAST_ONCE, Semantic.EXACTLY_ONCE


def whole(value: object, key: str | None = None) -> str:
    """Return a record as the wire names it."""
    return json.dumps({"key": key, "headers": {}, "value": value if value is None else str(value)})


class Wire:
    """Writes the lines of a run."""

    def __init__(self, topic: str = ORDERS) -> None:
        self.lines: list[dict[str, Any]] = []
        self.topic = topic
        self._requests = 0

    def say(self, event: str, **fields: Any) -> None:
        """Write a line."""
        self.lines.append({"event": event, "t": len(self.lines), **fields})

    def send(
        self, value: object, offset: int | None = None, *, arrives: bool = True, **of: Any
    ) -> str:
        """Send a record; it is stored at an offset, if there is one."""
        self._requests += 1
        asked = {"record": whole(value), "request": f"1:{self._requests}"}
        where = {"topic": self.topic, "partition": 0, **of}
        self.say("sent" if arrives else "unsent", **asked, **where)
        if offset is not None:
            self.say("produce_answer", **asked, error=0, offset=offset, reached=True)
        return asked["request"]

    def refuse(self, value: object, error: str) -> None:
        """Send a record, and refuse it."""
        request = self.send(value)
        self.say("produce_answer", record=whole(value), request=request, error=ERRORS[error])

    def fetch(self, value: object, offset: int, *, reached: bool = True) -> None:
        """Give a record to a reader."""
        where = {"topic": self.topic, "partition": 0, "offset": offset, "epoch": 0}
        self.say("fetched", record=whole(value), reached=reached, **where)

    def save(self, offset: int, *, arrives: bool = True) -> None:
        """Ask to save a position, and save it."""
        where = {"topic": self.topic, "partition": 0, "offset": offset, "group": "g"}
        self.say("committed", reached=arrives, **where)
        if arrives:
            self.say("commit_answer", error=0, reached=True, **where)

    def end(self, *, commit: bool, producer: int = 7) -> None:
        """End a transaction."""
        self.say(
            "end_txn", transactional_id="t", producer_id=producer, commit=commit, request="2:1"
        )
        self.say("end_txn_answer", transactional_id="t", error=0, request="2:1")

    def begin(self, *, arrives: bool = True) -> None:
        """A successor of a transactional producer starts."""
        self.say("init_producer", transactional_id="t", timeout_ms=1, reached=arrives)

    def events(self) -> list[Event]:
        """Return what was written."""
        return [typed(line) for line in self.lines]

    def counted(self, usual: dict[str, Topic] | None = None, pattern: str | None = None) -> Topic:
        """Return what was counted in the topic."""
        return Count(self.events(), usual, pattern).topics()[self.topic]


def fine(count: int = 2) -> Wire:
    """Return a run in which all is well."""
    wire = Wire()
    for number in range(count):
        wire.send(number, number)
    for number in range(count):
        wire.fetch(number, number)
    wire.save(count)
    return wire


USUAL = {ORDERS: fine().counted()}


def said(wire: Wire, claims: Semantic, pattern: str | None = None) -> tuple[ClaimResult, str]:
    """Return what is said of a run."""
    return judged(claims, Count(wire.events(), USUAL, pattern).topics(), USUAL)


@pytest.mark.parametrize("claims", Semantic)
def test_all_is_well(claims: Semantic) -> None:
    assert said(fine(), claims) == (ClaimResult.KEPT, "orders: 2 of 2 delivered")
    assert USUAL[ORDERS].read


UNDONE: tuple[Callable[[Wire], object], ...] = (
    lambda wire: wire.send(1, arrives=False),
    lambda wire: wire.refuse(1, "MESSAGE_TOO_LARGE"),
)
IN_DOUBT: tuple[Callable[[Wire], object], ...] = (
    lambda wire: wire.send(1),
    lambda wire: wire.refuse(1, "REQUEST_TIMED_OUT"),
)


def test_a_record_that_was_never_stored_is_lost() -> None:
    for break_it in UNDONE:
        wire = fine(1)
        break_it(wire)
        assert said(wire, LEAST) == (ClaimResult.BROKEN, "1 of orders lost: 1")
        assert said(wire, MOST) == (ClaimResult.KEPT, "orders: 1 of 2 delivered, 1 lost")
        wire.send(1, 1)
        wire.fetch(1, 1)
        assert said(wire, LEAST)[0] is ClaimResult.KEPT


def test_a_record_that_its_readers_have_passed_is_lost() -> None:
    """Behind a saved position, or behind one that was read. Else it is left."""
    wire = fine(1)
    wire.send(1, 1)
    assert said(wire, LEAST)[0] is ClaimResult.NOT_JUDGED
    assert "1 are left in the topic" in said(wire, LEAST)[1]
    wire.fetch(1, 1, reached=False)
    assert said(wire, LEAST)[0] is ClaimResult.NOT_JUDGED
    wire.save(2, arrives=False)
    assert said(wire, LEAST)[0] is ClaimResult.NOT_JUDGED
    wire.save(2)
    assert said(wire, LEAST) == (ClaimResult.BROKEN, "1 of orders lost: 1")
    other = Wire()
    other.send(0, 0)
    other.send(1, 1)
    other.fetch(1, 1)
    assert said(other, LEAST) == (ClaimResult.BROKEN, "1 of orders lost: 0")


def test_no_answer_leaves_it_open() -> None:
    """The broker may have stored it; so it may after some errors."""
    for break_it in IN_DOUBT:
        wire = fine(1)
        break_it(wire)
        assert wire.counted().of(RecordFate.UNSURE)
        assert said(wire, LEAST)[0] is ClaimResult.NOT_JUDGED
        wire.fetch(1, 1)
        assert said(wire, LEAST)[0] is ClaimResult.KEPT


def test_a_record_that_is_stored_twice_is_duplicated() -> None:
    """And not if the broker has recognised it."""
    wire = fine()
    wire.send(1, 1)
    assert said(wire, EXACTLY)[0] is ClaimResult.KEPT
    wire.send(1, 2)
    assert said(wire, EXACTLY) == (ClaimResult.BROKEN, "1 of orders duplicated: 1")
    assert said(wire, LEAST) == (ClaimResult.KEPT, "orders: 2 of 2 delivered, 1 duplicated")


def test_a_record_that_was_worked_on_twice_is_duplicated() -> None:
    """Its reader went behind it, came back, and went behind it again. Else nobody can tell."""
    wire = fine()
    wire.fetch(1, 1)
    assert said(wire, EXACTLY)[0] is ClaimResult.NOT_JUDGED
    assert "1 were read again" in said(wire, EXACTLY)[1]
    assert said(wire, LEAST) == (ClaimResult.KEPT, "orders: 2 of 2 delivered, 1 read again")
    wire.save(2)
    assert said(wire, EXACTLY) == (ClaimResult.BROKEN, "1 of orders duplicated: 1")


def test_two_readers_are_usual_where_there_are_two_without_a_fault() -> None:
    two = fine()
    two.fetch(0, 0)
    two.fetch(1, 1)
    usual = {ORDERS: two.counted()}
    assert usual[ORDERS].readers == 2
    assert judged(EXACTLY, Count(two.events(), usual).topics(), usual)[0] is ClaimResult.KEPT
    two.fetch(1, 1)
    two.save(2)
    assert judged(EXACTLY, Count(two.events(), usual).topics(), usual)[0] is ClaimResult.NOT_JUDGED


OF_TRANSACTION: dict[str, Any] = {"transactional": True, "transactional_id": "t", "producer_id": 7}


def test_what_is_in_an_aborted_transaction_does_not_count() -> None:
    """Nor, before it ends, what is in an open one."""
    wire = fine(1)
    wire.send(1, 1, **OF_TRANSACTION)
    assert wire.counted().of(RecordFate.UNSURE)
    wire.end(commit=False)
    assert wire.counted().of(RecordFate.ABORTED)
    assert said(wire, EXACTLY)[0] is ClaimResult.NOT_JUDGED
    wire.send(1, 3, **OF_TRANSACTION)
    wire.end(commit=True)
    wire.fetch(1, 3)
    assert said(wire, EXACTLY) == (ClaimResult.KEPT, "orders: 2 of 2 delivered")
    wire.send(1, 5, **OF_TRANSACTION)
    wire.end(commit=True)
    assert said(wire, EXACTLY)[0] is ClaimResult.BROKEN


def test_what_lay_there_before_is_none_of_it() -> None:
    wire = Wire()
    wire.send(0, 10)
    wire.send(1, 11)
    for number in range(2):
        wire.fetch(number, number)
        wire.fetch(number, 10 + number)
    assert said(wire, EXACTLY) == (ClaimResult.KEPT, "orders: 2 of 2 delivered")


def test_records_that_cannot_be_told_are_not_judged() -> None:
    """They are equal without a fault, or there are more of them than without one."""
    equal = Wire()
    equal.send("same", 0)
    equal.send("same", 1)
    usual = {ORDERS: equal.counted()}
    word, why = judged(EXACTLY, Count(equal.events(), usual).topics(), usual)
    assert (word, "more than once without a fault" in why) == (ClaimResult.NOT_JUDGED, True)
    word, why = said(fine(3), LEAST)
    assert (word, "3 different records, 2 without a fault" in why) == (ClaimResult.NOT_JUDGED, True)
    other = Wire("payments")
    other.send(1, 1)
    word, why = said(other, LEAST)
    assert word is ClaimResult.NOT_JUDGED
    assert why.startswith("payments: no such topic without a fault; ")
    assert said(Wire(), LEAST) == (ClaimResult.NOT_JUDGED, "no record was sent through the wire")


def test_a_pattern_finds_what_stays_in_a_record() -> None:
    """A record that has none cannot be told."""
    wire = Wire()
    for number, attempt in ((0, 1), (1, 1), (1, 2)):
        wire.send(f"order-{number} attempt {attempt}", number + attempt)
    for number, attempt in ((0, 1), (1, 1), (1, 2)):
        wire.fetch(f"order-{number} attempt {attempt}", number + attempt)
    assert said(wire, EXACTLY)[0] is ClaimResult.NOT_JUDGED
    assert said(wire, EXACTLY, r"order-(\d+)") == (ClaimResult.BROKEN, "1 of orders duplicated: 1")
    assert said(wire, EXACTLY, "bill")[1] == "orders: --id finds no id in 3 of the records"


def test_topics_of_a_run_of_its_own_are_of_one_kind() -> None:
    wire = Wire("orders-42")
    wire.send(0, 0)
    assert list(Count(wire.events()).topics()) == ["orders-*"]


def test_records_that_were_never_sent_are_not_delivered() -> None:
    """A program that swallowed its input sends no result, or nothing to a whole topic."""
    word, why = said(fine(1), LEAST)
    assert (word, why) == (
        ClaimResult.NOT_JUDGED,
        "orders: 1 different records, 2 without a fault: the others were never sent",
    )
    assert said(fine(1), MOST)[0] is ClaimResult.KEPT
    results = fine()
    results.topic = "results"
    results.send(0, 0)
    usual = Count(results.events()).topics()
    word, why = judged(LEAST, Count(fine().events(), usual).topics(), usual)
    assert (word, why) == (
        ClaimResult.NOT_JUDGED,
        "results: no different records, 1 without a fault: the others were never sent",
    )
    usual = merged({ORDERS: fine(1).counted()}, USUAL)
    assert judged(LEAST, Count(fine(1).events(), usual).topics(), usual)[0] is ClaimResult.KEPT


def test_equal_records_of_two_topics_of_one_kind_are_two() -> None:
    """What was lost in the one is not delivered because it is in the other."""

    def passed_on(*read: int) -> Wire:
        wire = Wire("orders-1")
        wire.send(0, 0)
        wire.send(1, 1)
        for number in read:
            wire.fetch(number, number)
        wire.save(2)
        wire.topic = "orders-2"
        for number in range(2):
            wire.send(number, number)
            wire.fetch(number, number)
        return wire

    usual = Count(passed_on(0, 1).events()).topics()
    found = Count(passed_on(0, 1).events(), usual).topics()
    assert judged(EXACTLY, found, usual) == (ClaimResult.KEPT, "orders-*: 4 of 4 delivered")
    found = Count(passed_on(0).events(), usual).topics()
    assert judged(LEAST, found, usual) == (ClaimResult.BROKEN, "1 of orders-* lost: 1 in orders-1")


def test_a_record_that_one_of_two_readers_has_not_read_is_not_judged() -> None:
    two, one = fine(), fine()
    two.fetch(0, 0)
    two.fetch(1, 1)
    one.fetch(0, 0)
    usual = {ORDERS: two.counted()}
    word, why = judged(LEAST, Count(one.events(), usual).topics(), usual)
    assert word is ClaimResult.NOT_JUDGED
    assert why.startswith("orders: 1 were read less often than without a fault, each at least 2")
    assert judged(LEAST, Count(two.events(), usual).topics(), usual)[0] is ClaimResult.KEPT


def test_more_readings_than_usual_are_not_judged_where_one_record_is_always_read_again() -> None:
    back, again = fine(), fine()
    back.fetch(0, 0)
    again.fetch(0, 0)
    again.fetch(1, 1)
    usual = {ORDERS: back.counted()}
    assert judged(EXACTLY, Count(back.events(), usual).topics(), usual)[0] is ClaimResult.KEPT
    word, why = judged(EXACTLY, Count(again.events(), usual).topics(), usual)
    assert word is ClaimResult.NOT_JUDGED
    assert "records were read 4 times, 3 without a fault" in why


def test_a_successor_aborts_what_its_predecessor_left_open() -> None:
    """By its InitProducerId, if that arrives, and if no commit is on its way."""

    def replaced(*, arrives: bool = True, ending: bool = False) -> Wire:
        wire = fine(1)
        wire.send(1, 1, **OF_TRANSACTION)
        if ending:
            asked = {"transactional_id": "t", "producer_id": 7, "request": "2:0"}
            wire.say("end_txn", **asked, commit=True, reached=True)
        wire.begin(arrives=arrives)
        wire.send(1, 3, **OF_TRANSACTION)
        wire.end(commit=True)
        wire.fetch(1, 3)
        return wire

    assert said(replaced(), EXACTLY) == (ClaimResult.KEPT, "orders: 2 of 2 delivered")
    assert said(replaced(arrives=False), EXACTLY)[0] is ClaimResult.BROKEN
    assert said(replaced(ending=True), EXACTLY)[0] is ClaimResult.BROKEN


def test_readers_are_asked_where_a_transaction_is_always_aborted() -> None:
    def aborted(*, read: bool) -> Wire:
        wire = Wire()
        wire.send(0, 0, **OF_TRANSACTION)
        wire.end(commit=False)
        wire.send(1, 2)
        if read:
            wire.fetch(1, 2)
        wire.save(3)
        return wire

    usual = {ORDERS: aborted(read=True).counted()}
    assert usual[ORDERS].read
    found = Count(aborted(read=True).events(), usual).topics()
    assert judged(LEAST, found, usual) == (ClaimResult.KEPT, "orders: 1 of 2 delivered, 1 aborted")
    found = Count(aborted(read=False).events(), usual).topics()
    assert judged(LEAST, found, usual) == (ClaimResult.BROKEN, "1 of orders lost: 1")


def test_fewer_delivered_are_not_judged_in_a_topic_that_is_not_read_to_its_end() -> None:
    """They may be lost, or left."""
    partly, less = fine(), Wire()
    partly.send(2, 2)
    for number in range(3):
        less.send(number, number)
    less.fetch(0, 0)
    usual = {ORDERS: partly.counted()}
    assert not usual[ORDERS].read
    assert judged(LEAST, Count(partly.events(), usual).topics(), usual)[0] is ClaimResult.KEPT
    assert judged(LEAST, Count(less.events(), usual).topics(), usual) == (
        ClaimResult.NOT_JUDGED,
        "orders: 1 delivered, 2 without a fault",
    )


def test_what_lay_in_a_partition_to_which_nothing_came_is_none_of_it() -> None:
    wire = Wire()
    wire.send(0, 10)
    wire.fetch(0, 10)
    wire.send(1, arrives=False, partition=1)
    wire.say("fetched", record=whole(1), reached=True, topic=ORDERS, partition=1, offset=3, epoch=0)
    assert said(wire, LEAST) == (ClaimResult.BROKEN, "1 of orders lost: 1")
