"""Load in three waves where a producer has all of it from the start: what goes through a real wire
when, and what never does.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from harness.controls import InProgram, OnWire
from harness.faults import CrashAtWrite, Drop, EndInput, Kill, NoFault, Pause, Terminate, Unanswered
from harness.model import events as kinds
from harness.model.cell import Load
from harness.model.record import Record
from harness.model.scenario import Role
from harness.model.tail import SoFar
from harness.model.waiting import wait_until
from harness.pipelines.inputs import InputKind
from harness.protocols.kafka.steps import Api
from harness.systems.declared.feed import holding
from harness.systems.declared.feed.holding import Holding, is_held_back
from harness.systems.declared.wire.records import RecordsOnWire
from harness.wire.messages import WireError
from harness.wire.rules import Direction
from tests.wire import kafka_frames as kf
from tests.wire.broker import WITHIN_S, ScriptedBroker
from tests.wire.test_contents import TX, KafkaLike, produce

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.wire.broker import Client
    from tests.wire.conftest import Bench

RECORDS = tuple(Record(f"a-{n}", "k", n, "") for n in range(1, 13))
"""Four in each third; the target is the sixth."""
TARGET = RECORDS[5]


class Rig:
    """A producer at a wire that holds back what it sends, and what a test says of the fault."""

    def __init__(self, bench: Bench) -> None:
        self.bench, self.client = bench, bench.client()
        self.seen = threading.Event()
        so_far = SoFar(bench.path.parent)
        self.records_seen = RecordsOnWire(so_far)
        self.holding = Holding(
            bench.control,
            bench.cell,
            Load(RECORDS, TARGET, 1, (0, 0)),
            seen=self.seen.is_set,
            records_seen=self.records_seen,
            so_far=so_far,
        )
        self.holding.start()
        self.asked = 0

    def send(
        self, first: int, last: int, writer: kf.Writer = kf.PLAIN, client: Client | None = None
    ) -> None:
        """Send these records in one request."""
        self.asked += 1
        ids = [f"a-{n}" for n in range(first, last + 1)]
        (client or self.client).send(produce(self.bench, self.asked, *ids, writer=writer))

    def one_by_one(self) -> None:
        """Send all records, a request for each, without a look at any answer."""
        for record in RECORDS:
            self.send(record.position, record.position)

    def has(self, *asked: int) -> None:
        """Wait until the broker has these requests, and no other comes."""
        self.bench.broker.wait_corrs(*asked)
        turns = threading.Event()
        for _ in range(5):
            turns.wait(2 * holding.LOOK_S)
        assert self.bench.broker.corrs() == [*asked]

    def held(self) -> None:
        """Wait until a request is held."""
        wait_until(lambda: self.holding.holds, within_s=WITHIN_S, because="a request to be held")

    def free(self) -> None:
        """Wait until none is."""
        wait_until(
            lambda: not self.holding.holds, within_s=WITHIN_S, because="no request to be held"
        )

    def heal(self) -> None:
        """The fault is healed."""
        self.holding.release()


@pytest.fixture
def rig(make_bench: Callable[..., Bench]) -> Iterator[Rig]:
    """A wire, a broker that answers like Kafka, and a producer."""
    found = Rig(make_bench(ScriptedBroker(KafkaLike())))
    yield found
    found.holding.close()


def test_three_waves(rig: Rig) -> None:
    """A third; the second when the step was seen; the last when the fault is healed. All of it, in
    order, once.
    """
    rig.one_by_one()
    rig.has(1, 2, 3, 4)
    rig.held()
    rig.seen.set()
    rig.has(*range(1, 9))
    rig.held()
    rig.heal()
    rig.has(*range(1, 13))
    assert not rig.holding.holds
    assert rig.bench.control.holds() == ()
    assert [e.record for e in rig.bench.events(kinds.Sent, kinds.Unsent)] == [
        record.id for record in RECORDS
    ]
    assert rig.bench.phases("last-wave") == ["armed", "hit", "held", "disarmed", "released"]
    with pytest.raises(WireError, match="has no rule second-wave"):
        rig.bench.control.counts(rig.bench.cell, "second-wave")


def test_what_comes_behind_the_fault_is_never_held(rig: Rig) -> None:
    """A slow producer gets there when everything is over."""
    rig.send(1, 1)
    rig.has(1)
    rig.heal()
    for record in RECORDS[1:]:
        rig.send(record.position, record.position)
    rig.has(*range(1, 13))


def test_what_is_held_just_when_it_ends_goes_on(rig: Rig) -> None:
    rig.holding.close()
    rig.send(1, 4)
    rig.send(5, 8)
    rig.bench.wait_event(kinds.Rule, rule="second-wave", phase="held")
    rig.heal()
    rig.has(1, 2)


def test_everything_in_one_request_goes_at_once(rig: Rig) -> None:
    """Nothing is before it that could bring the step about, and the target is in it."""
    rig.send(1, 12)
    rig.client.read()
    rig.free()


@pytest.mark.parametrize(
    "requests",
    [
        ((1, 4), (5, 9), (10, 10)),  # the target is with the first of the last third
        (
            (1, 4),
            (9, 10),
            (5, 8),
            (11, 12),
        ),  # or behind it, as where each partition has a request of its own
    ],
)
def test_what_is_held_is_behind_the_target(rig: Rig, requests: tuple[tuple[int, int], ...]) -> None:
    """In place of a request that keeps the target from its readers, the next one is held."""
    rig.seen.set()
    for first, last in requests:
        rig.send(first, last)
    rig.has(*range(1, len(requests)))
    assert rig.holding.holds
    rig.heal()
    rig.has(*range(1, len(requests) + 1))


def test_what_is_held_is_behind_the_transaction_of_the_target(rig: Rig) -> None:
    """Who reads what is committed is not given the target before its end was asked for; it may have
    any number of requests.
    """
    rig.seen.set()
    for first, last in ((1, 8), (9, 9), (10, 10)):
        rig.send(first, last, TX)
        rig.client.read()
    rig.client.ask(kf.end_txn(90, rig.bench.name(), TX))
    rig.send(11, 11, TX)
    rig.has(1, 2, 3, 90)
    rig.held()
    rig.heal()
    rig.has(1, 2, 3, 90, 4)


def test_the_first_wave_of_an_open_transaction_is_not_waited_for(rig: Rig) -> None:
    rig.send(1, 4, TX)
    rig.send(5, 8, TX)
    rig.has(1, 2)


def test_no_request_is_held_for_long(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though the step was not seen, or the fault is not healed: its client would give it up. Then
    the next one waits.
    """
    monkeypatch.setattr(holding, "HELD_S", 0.2)
    rig.one_by_one()
    rig.bench.broker.wait_corrs(*range(1, 10))
    rig.held()
    rig.heal()
    rig.has(*range(1, 13))
    held = [(e.t, e.phase) for e in rig.bench.events(kinds.Rule) if e.phase in {"held", "released"}]
    times = [t for t, _ in held]
    assert [phase for _, phase in held[:4]] == ["held", "released"] * 2
    assert all(0.1e9 < end - begin < WITHIN_S * 1e9 for begin, end in (times[:2], times[2:4]))


def test_all_together_are_not_held_for_long(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was sent behind a held request waits as long as that, and then for itself."""
    monkeypatch.setattr(holding, "HELD_S", 0.2)
    monkeypatch.setattr(holding, "ALL_S", 0.5)
    rig.one_by_one()
    rig.has(*range(1, 13))
    assert 1 < rig.bench.phases("last-wave").count(kinds.RulePhase.RELEASED) < 4
    assert not rig.holding.holds


def test_what_its_client_sends_again_arrives_once(rig: Rig) -> None:
    """It has given up the request that is held: that one has never arrived."""
    rig.seen.set()
    rig.send(1, 8)
    rig.send(9, 9)
    rig.has(1)
    rig.held()
    other = rig.bench.client()
    rig.send(9, 9, client=other)
    other.read()
    rig.free()
    rig.heal()
    rig.has(1, 3)
    assert [
        (e.event, e.request.split(":")[1])
        for e in rig.bench.events(kinds.Sent, kinds.Unsent)
        if e.record == "a-9"
    ] == [
        ("sent", "3"),
        ("unsent", "2"),
    ]


def test_what_has_lost_its_connection_is_discarded_at_once(rig: Rig) -> None:
    """As when the broker dies: before its client is back, so that the last word on its records is
    that they were sent.
    """
    rig.seen.set()
    rig.send(1, 8)
    rig.send(9, 9)
    rig.has(1)
    rig.held()
    assert rig.bench.control.cut(client=rig.bench.name()) == 1
    rig.bench.wait_event(kinds.Unsent, record="a-9")
    rig.free()
    assert rig.bench.control.holds() == ()
    other = rig.bench.client()
    rig.send(9, 9, client=other)
    other.read()
    rig.heal()
    assert rig.records_seen.unacknowledged("producer") == 0


FETCH = OnWire(Role.CONSUMER, Api.FETCH, Direction.RESPONSE)
SEND = OnWire(Role.PRODUCER, Api.PRODUCE, Direction.REQUEST)


@pytest.mark.parametrize(
    ("fault", "held"),
    [
        (NoFault(), False),
        (Kill(FETCH, (Role.CONSUMER,)), True),
        (Kill(FETCH, (Role.BROKER,)), True),
        (Kill(FETCH, (Role.CONSUMER, Role.PRODUCER)), False),
        (Kill(SEND, (Role.BROKER,)), False),
        (Kill(InProgram(Role.PRODUCER, "there"), (Role.PRODUCER,)), False),
        (Kill(InProgram(Role.CONSUMER, "there"), (Role.CONSUMER,)), True),
        (Drop(FETCH), True),
        (Drop(SEND), False),
        (EndInput(SEND), False),
        (Pause(OnWire(Role.PROCESSOR, Api.PRODUCE, Direction.RESPONSE)), True),
        (Terminate(FETCH), True),
        (Terminate(SEND), False),
        (Unanswered(SEND, Api.INIT_PRODUCER_ID), False),
        (CrashAtWrite(Role.CONSUMER, (Api.FETCH, Direction.RESPONSE)), True),
    ],
)
def test_whose_producer_is_held_back(fault: Any, held: bool) -> None:
    """One that has all from the start, where the fault leaves it alone: what lostack offers, it
    offers in waves.
    """
    assert [kind for kind in InputKind if is_held_back(kind, fault)] == (
        [InputKind.FILE, InputKind.OWN] if held else []
    )
