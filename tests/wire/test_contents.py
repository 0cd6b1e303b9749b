"""Rules and history by record, topic and transaction: real frames through a real wire."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from harness.model import events as kinds
from harness.model.history import read_history
from harness.protocols.kafka.codec import topic_id_name
from harness.protocols.kafka.steps import Api
from harness.wire.messages import WireError
from harness.wire.rules import Action, After, Direction, FreezeScope, How, Rule
from tests.wire import kafka_frames as kf
from tests.wire.broker import ScriptedBroker, corr_of, request, response
from tests.wire.conftest import hold_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.wire.conftest import Bench

TX = kf.Writer(5, 0, 0, "tx")


@dataclass
class KafkaLike:
    """Answers as a broker would; what it stores is what it returns."""

    log: list[bytes] = field(default_factory=list)
    error: int = 0
    fetch_version: int = 12

    def __call__(self, frame: bytes) -> bytes | None:
        """Answer one request."""
        api, version, corr = struct.unpack_from(">hhi", frame, 4)
        answers: dict[Api, Callable[[], bytes]] = {
            Api.PRODUCE: lambda: kf.produce_answer(
                corr, version=version, error=self.error, base_offset=40
            ),
            Api.FETCH: lambda: kf.fetch_answer(corr, b"".join(self.log), version=version),
            Api.METADATA: lambda: kf.metadata_answer(corr, version=version),
            Api.OFFSET_COMMIT: lambda: kf.commit_answer(corr, version=version, error=self.error),
            Api.TXN_OFFSET_COMMIT: lambda: kf.txn_commit_answer(
                corr, version=version, error=self.error
            ),
            Api.END_TXN: lambda: kf.end_txn_answer(corr, version=version, error=self.error),
        }
        try:
            known = {each.number: make for each, make in answers.items()}
            return known[api]() if api in known else response(corr, b"answer")
        except ValueError:  # a version that nobody knows
            return response(corr, b"answer")


@pytest.fixture
def kafka(make_bench: Callable[..., Bench]) -> Bench:
    """Make a bench with a broker that answers like Kafka."""
    return make_bench(ScriptedBroker(KafkaLike()))


def produce(
    bench: Bench, corr: int, *records: str, version: int = 9, writer: kf.Writer = kf.PLAIN
) -> bytes:
    """Make a Produce request of the cell."""
    values = [kf.payload(record) for record in records]
    return kf.produce(corr, bench.name(), kf.batch(values, writer), version=version, writer=writer)


def test_a_lost_request_was_never_sent(kafka: Bench) -> None:
    """The request of the named record is cut away, others pass; the history tells sent
    from unsent.
    """
    kafka.arm(Rule("r", Action.CUT, Api.PRODUCE, record="a-2"))
    client = kafka.client()
    client.ask(produce(kafka, 1, "a-1"))
    client.send(produce(kafka, 2, "a-2", "a-3"))
    assert client.ended()
    kafka.client().ask(produce(kafka, 3, "a-2", "a-3"))
    assert [(e.event, e.record) for e in kafka.events(kinds.Sent, kinds.Unsent)] == [
        ("sent", "a-1"),
        ("unsent", "a-2"),
        ("unsent", "a-3"),
        ("sent", "a-2"),
        ("sent", "a-3"),
    ]
    hit = next(event for event in kafka.events(kinds.Rule) if event.phase == "hit")
    assert (hit.record, hit.records) == ("a-2", ("a-2", "a-3"))
    assert kafka.control.counts(kafka.cell, "r").matched == 2


def test_a_lost_ack_is_told_as_stored_and_not_reached(kafka: Bench) -> None:
    """The response to the named record's request is dropped; its history line has the broker's word
    for it.
    """
    kafka.arm(Rule("r", Action.DROP, Api.PRODUCE, Direction.RESPONSE, record="a-2"))
    client = kafka.client()
    client.send(produce(kafka, 1, "a-1"), produce(kafka, 2, "a-2"))
    assert corr_of(b"\0\0\0\0" + client.read()) == 1
    assert client.ended()
    answers = [(e.record, e.error, e.offset, e.reached) for e in kafka.events(kinds.ProduceAnswer)]
    assert answers == [("a-1", 0, 40, True), ("a-2", 0, 40, False)]


def test_the_crash_before_the_ack(kafka: Bench) -> None:
    """The whole of producer-crash-before-ack: the broker has it, the producer died, nobody was
    told.
    """
    kafka.arm(
        Rule(
            "r",
            Action.HOLD,
            Api.PRODUCE,
            Direction.RESPONSE,
            client="{key}.producer",
            record="a-1",
            freeze=FreezeScope.CLIENT,
        )
    )
    client = kafka.client()
    client.send(produce(kafka, 1, "a-1"))
    hit = kafka.hit()
    assert (hit.record, hit.records, hit.client) == ("a-1", ("a-1",), kafka.name())
    client.close()
    assert kafka.control.resolve(hold_of(hit), How.DISCARD).outcome == "discarded"
    assert [e.reached for e in kafka.events(kinds.ProduceAnswer)] == [False]
    assert kafka.phases("r") == ["armed", "hit", "held", "discarded"]


def test_an_answer_that_refuses_is_not_the_ack(kafka: Bench) -> None:
    """A leader that leads no more refuses; the ack is the answer to the request that
    comes after.
    """
    kafka.arm(Rule("r", Action.DROP, Api.PRODUCE, Direction.RESPONSE, record="a-1", granted=True))
    client = kafka.client()
    kafka.broker.answer.error = 6  # type: ignore[attr-defined]
    client.ask(produce(kafka, 1, "a-1"))
    kafka.broker.answer.error = 0  # type: ignore[attr-defined]
    client.send(produce(kafka, 2, "a-1"))
    assert client.ended()
    assert [(e.error, e.reached) for e in kafka.events(kinds.ProduceAnswer)] == [
        (6, True),
        (0, False),
    ]


def test_a_partition_that_the_coordinator_refuses_is_not_granted(kafka: Bench) -> None:
    """Found in a real run: the last transaction was still being completed, and the answer that was
    dropped said so.
    """
    answers = [{"p0": 51}, {"p0": 0}]
    kafka.broker.answer = lambda frame: kf.add_partitions_answer(corr_of(frame), **answers.pop(0))
    kafka.arm(Rule("r", Action.DROP, Api.ADD_PARTITIONS_TO_TXN, Direction.RESPONSE, granted=True))
    client = kafka.client()
    client.ask(kf.add_partitions(1, kafka.name(), TX, 0))
    client.send(kf.add_partitions(2, kafka.name(), TX, 0))
    assert client.ended()
    assert answers == []


@pytest.mark.parametrize("direction", Direction)
def test_the_commit_of_a_record(kafka: Bench, direction: Direction) -> None:
    """Of all commits the one that first covers the record is met, as request and as response."""
    kafka.broker.answer.log.append(kf.batch([kf.payload("a-1"), kf.payload("a-2")]))  # type: ignore[attr-defined]
    kafka.arm(Rule("r", Action.DROP, Api.OFFSET_COMMIT, direction, record="a-2"))
    client = kafka.client()
    client.ask(kf.fetch(1, kafka.name(), 0))
    client.ask(kf.commit(2, kafka.name(), 1))
    client.send(kf.commit(3, kafka.name(), 2))
    assert client.ended()
    reached = [(e.offset, e.reached) for e in kafka.events(kinds.Committed)]
    assert reached == [(1, True), (2, direction is Direction.RESPONSE)]
    assert [(e.record, e.offset, e.reached) for e in kafka.events(kinds.Fetched)] == [
        ("a-1", 0, True),
        ("a-2", 1, True),
    ]


def test_the_end_of_a_records_transaction_delivered_late(kafka: Bench) -> None:
    """EndTxn of the record's transaction is detached and delivered later; its answer is recorded,
    reaching nobody.
    """
    kafka.arm(Rule("r", Action.HOLD, Api.END_TXN, record="a-1", transactional_id="tx"))
    client = kafka.client()
    client.ask(produce(kafka, 1, "a-1", writer=TX))
    client.send(kf.end_txn(2, kafka.name(), TX))
    hit = kafka.hit()
    kafka.control.resolve(hold_of(hit), How.RELEASE_LATER, cut=True)
    assert client.ended()
    kafka.broker.answer.error = 90  # type: ignore[attr-defined]
    result = kafka.control.resolve(hold_of(hit), How.DELIVER)
    assert (result.answered, result.error) == (True, 90)
    (end,), (answer,) = kafka.events(kinds.EndTxn), kafka.events(kinds.EndTxnAnswer)
    assert (end.commit, end.reached) == (True, True)
    assert (answer.error, answer.reached) == (90, False)


def test_a_transactions_first_request_by_its_id(kafka: Bench) -> None:
    """APIs that carry nothing but a transactional id can be selected by it."""
    kafka.arm(Rule("r", Action.CUT, Api.END_TXN, transactional_id="other"))
    client = kafka.client()
    client.ask(kf.end_txn(1, kafka.name(), TX))
    client.send(kf.end_txn(2, kafka.name(), kf.Writer(6, 0, 0, "other")))
    assert client.ended()


def test_the_beginning_of_a_producer_is_told(kafka: Bench) -> None:
    """Without any rule, and by the name that its frame has: what begins under a transactional id
    ends what was open under it.
    """
    client = kafka.client()
    client.ask(kf.init_producer(7, kafka.name(), "tx", 4500))
    (begun,), (frame,) = (
        kafka.events(kinds.InitProducer),
        [e for e in kafka.events(kinds.Frame) if e.dir == "request"],
    )
    assert (begun.transactional_id, begun.timeout_ms, begun.reached) == ("tx", 4500, True)
    assert begun.request == f"{frame.conn}:{frame.corr}"


def test_topics_named_by_id_are_learnt_from_metadata(kafka: Bench) -> None:
    """Versions that name topics by id are told by name, once a Metadata response of the cell has
    passed.
    """
    kafka.broker.answer.log.append(kf.batch([kf.payload("a-1")]))  # type: ignore[attr-defined]
    kafka.arm(Rule("r", Action.CUT_AFTER, Api.FETCH, Direction.RESPONSE, topic=kf.TOPIC))
    client = kafka.client()
    client.ask(kf.metadata(1, kafka.name()))
    client.ask(produce(kafka, 2, "a-1", version=13))
    client.ask(kf.fetch(3, kafka.name(), 0, version=16))
    assert client.ended()
    topics = [
        *(e.topic for e in kafka.events(kinds.Sent)),
        *(e.topic for e in kafka.events(kinds.Fetched)),
    ]
    assert set(topics) == {kf.TOPIC}
    assert kafka.events(kinds.Undecodable) == []


def test_a_version_nobody_can_read_voids_the_cell(kafka: Bench) -> None:
    """A rule that meets a version beyond the schemas says so in the history, and the frame passes
    untouched.
    """
    kafka.arm(Rule("r", Action.CUT, Api.PRODUCE, record="a-1"))
    client = kafka.client()
    frame = request(Api.PRODUCE, 1, kafka.name(), b"\0\0\xff\xff and the rest", version=99)
    client.send(frame)
    kafka.broker.wait_corrs(1)
    assert kafka.broker.frames == [frame]
    event = kafka.wait_event(kinds.Undecodable, dir="request")
    assert (event.api, event.version) == ("Produce", 99)
    assert "version 99" in str(event.because)
    assert kafka.control.counts(kafka.cell, "r").fired == 0


def test_other_cells_frames_are_not_read(kafka: Bench) -> None:
    client = kafka.client()
    client.ask(kf.produce(1, "stranger", kf.batch([kf.payload("a-1")])))
    client.send(request(Api.PRODUCE, 2, "stranger", b"\0\0\xff\xff", version=99))
    kafka.broker.wait_corrs(1, 2)
    assert kafka.events() == []


def test_the_history_of_a_cell_is_undamaged(kafka: Bench) -> None:
    client = kafka.client()
    for corr in range(50):
        client.ask(produce(kafka, corr, f"a-{corr}", f"b-{corr}"))
    history = read_history(kafka.path.parent)
    assert (history.damage, history.cut_lines) == ((), ())
    assert len(list(history.of(kinds.Sent))) == 100
    assert {event.by for event in history.events} == {"wire"}


def test_topic_ids_can_be_told_beforehand(kafka: Bench) -> None:
    """The harness may name topics itself; the same id is known in every spelling."""
    assert (
        topic_id_name(str(kf.TOPIC_ID))
        == topic_id_name("AAAAAAAAAAAAAAAAAAAABw")
        == topic_id_name(kf.TOPIC_ID)
    )
    topics = {kf.TOPIC: "AAAAAAAAAAAAAAAAAAAABw"}
    kafka.control.open_cell("other", "other", kafka.path.with_name("other.jsonl"), topics)
    kafka.client().ask(produce(kafka, 1, "a-1", version=13))
    assert [event.topic for event in kafka.events(kinds.Sent)] == [kf.TOPIC]


def test_what_a_black_hole_swallows_has_not_reached(kafka: Bench) -> None:
    """Frames behind the dropped one vanish too, and the history says of each that it did not
    arrive.
    """
    kafka.arm(Rule("r", Action.DROP, Api.PRODUCE, record="a-1", after=After.BLACK_HOLE))
    client = kafka.client()
    client.send(produce(kafka, 1, "a-1"), produce(kafka, 2, "a-2"))
    kafka.wait_event(kinds.Unsent, record="a-2")
    answer = Rule(
        "r2", Action.DROP, Api.PRODUCE, Direction.RESPONSE, record="a-3", after=After.BLACK_HOLE
    )
    kafka.arm(answer)
    kafka.client().send(produce(kafka, 3, "a-3"), produce(kafka, 4, "a-4"))
    for record in ("a-3", "a-4"):
        assert kafka.wait_event(kinds.ProduceAnswer, record=record).reached is False
    assert [event.record for event in kafka.events(kinds.Sent)] == ["a-3", "a-4"]


def test_of_two_rules_for_one_frame_the_first_armed_acts(kafka: Bench) -> None:
    """Both count the frame, one acts on it; the other has its turn at the next."""
    kafka.arm(Rule("one", Action.DELAY, Api.PRODUCE, delay_s=0.001))
    kafka.arm(Rule("two", Action.DELAY, Api.PRODUCE, delay_s=0.001))
    client = kafka.client()
    for corr in (1, 2, 3):
        client.ask(produce(kafka, corr, "a-1"))
    hits = [(event.rule, event.corr) for event in kafka.events(kinds.Rule) if event.phase == "hit"]
    assert hits == [("one", 1), ("two", 2)]
    assert [kafka.control.counts(kafka.cell, rule).matched for rule in ("one", "two")] == [3, 3]


def test_a_rule_that_cannot_look_says_so(kafka: Bench) -> None:
    """Also for APIs that are read for rules only, blindness goes into the history; without the rule
    it does not.
    """
    client = kafka.client()
    client.ask(request(Api.INIT_PRODUCER_ID, 1, kafka.name(), version=99))
    assert kafka.events(kinds.Undecodable) == []
    kafka.arm(Rule("r", Action.CUT, Api.INIT_PRODUCER_ID, transactional_id="tx"))
    client.ask(request(Api.INIT_PRODUCER_ID, 2, kafka.name(), version=99))
    assert [event.api for event in kafka.events(kinds.Undecodable)] == ["InitProducerId"]


def test_a_cell_of_headers_alone(kafka: Bench) -> None:
    """Each frame has its line, no record has one, rules that count frames work, and those that must
    look inside are refused.
    """
    kafka.control.close_cell(kafka.cell)
    headers = kafka.path.parent.parent / "headers" / "wire.jsonl"
    kafka.control.open_cell(kafka.cell, kafka.key, headers, reads=False)
    looks = (
        Rule("r", Action.DROP, Api.PRODUCE, record="a-1"),
        Rule("r", Action.DROP, direction=Direction.RESPONSE, granted=True),
    )
    for rule in looks:
        with pytest.raises(WireError, match="reads headers alone"):
            kafka.arm(rule)
    kafka.arm(Rule("r", Action.DROP, Api.PRODUCE, occurrence=2))
    client = kafka.client()
    client.ask(produce(kafka, 1, "a-1"))
    client.send(produce(kafka, 2, "a-2"))
    assert client.ended()
    kafka.control.close_cell(kafka.cell)
    events = read_history(headers.parent).events
    assert {event.event for event in events} == {"rule", "frame", "conn"}
    assert [(e.api, e.dir) for e in events if isinstance(e, kinds.Frame)] == [
        ("Produce", "request"),
        ("Produce", "response"),
        ("Produce", "request"),
    ]
    kafka.control.open_cell(kafka.cell, kafka.key, kafka.path)
