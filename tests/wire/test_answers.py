"""What the wire says in the broker's name: to whom, when, and what becomes of the request."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from harness.model import events as kinds
from harness.protocols.kafka.codec import ProduceAnswer
from harness.protocols.kafka.reading import decode
from harness.protocols.kafka.session import AT
from harness.protocols.kafka.steps import ERRORS, Api
from harness.wire.messages import WireError
from harness.wire.rules import Action, Direction, How, Rule
from tests.wire import kafka_frames as kf
from tests.wire.broker import WITHIN_S, ScriptedBroker, corr_of, request, response
from tests.wire.conftest import hold_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.wire.conftest import Bench

REFUSED = "NOT_ENOUGH_REPLICAS"
LATE = "REQUEST_TIMED_OUT"
BEAT = Api.HEARTBEAT


def produce(bench: Bench, corr: int, **more: Any) -> bytes:
    """Make a request with a record."""
    return kf.produce(corr, bench.name(), kf.batch([kf.payload("a-1")]), **more)


def told(frame: bytes, version: int = 9) -> list[int]:
    """Return the errors of an answer to it."""
    answer = decode(Api.PRODUCE, Direction.RESPONSE, version, frame[AT:])
    assert isinstance(answer, ProduceAnswer)
    return [error for _, _, error, _ in answer.partitions]


def refuses(error: str = REFUSED, **more: Any) -> Rule:
    """Make a rule that refuses a record."""
    return Rule("r", Action.ANSWER, Api.PRODUCE, error=error, **more)


def test_a_refused_request_never_arrives_and_its_connection_goes_on(bench: Bench) -> None:
    """The client is told so, by the number of its request; what it asks next is the
    broker's again.
    """
    bench.arm(refuses())
    client = bench.client()
    refusal = client.ask(produce(bench, 7))
    assert (refusal[4:8], told(refusal)) == ((7).to_bytes(4), [ERRORS[REFUSED]])
    assert client.ask(request(BEAT, 8, bench.name())) == response(8, b"answer")
    bench.broker.wait_corrs(8)
    assert [event.record for event in bench.events(kinds.Unsent)] == ["a-1"]
    assert bench.phases("r") == ["armed", "hit", "answered"]
    line = bench.wait_event(kinds.Rule, phase="answered")
    assert (line.error, line.forward, line.reached, line.records) == (
        REFUSED,
        False,
        True,
        ("a-1",),
    )
    assert line.said is None


def test_what_was_asked_before_is_answered_before(make_bench: Callable[..., Bench]) -> None:
    """A broker answers in order; so does who speaks for it, and what comes behind
    waits for that.
    """
    gone = threading.Event()

    def answer(frame: bytes) -> bytes:
        assert gone.wait(WITHIN_S) or corr_of(frame) != 1
        return response(corr_of(frame), b"answer")

    bench = make_bench(ScriptedBroker(answer))
    bench.arm(refuses())
    client = bench.client()
    client.send(request(BEAT, 1, bench.name()), produce(bench, 2), request(BEAT, 3, bench.name()))
    bench.hit()
    assert client.silent()
    bench.broker.wait_corrs(1)
    gone.set()
    assert [client.read()[7] for _ in range(3)] == [1, 2, 3]
    bench.broker.wait_corrs(1, 3)


def test_a_refusal_waits_behind_an_answer_that_is_held(bench: Bench) -> None:
    """That is asked for before it, too, though its broker has given it."""
    bench.arm(Rule("held", Action.HOLD, BEAT, Direction.RESPONSE))
    bench.arm(refuses())
    client = bench.client()
    client.send(request(BEAT, 1, bench.name()), produce(bench, 2))
    held = hold_of(bench.hit("held"))
    bench.hit()
    assert client.silent()
    bench.control.resolve(held, How.RELEASE)
    assert [client.read()[7], client.read()[7]] == [1, 2]


def test_a_forwarded_request_is_done_and_its_answer_swallowed(
    make_bench: Callable[..., Bench],
) -> None:
    """The broker has it, the client is told otherwise; the history has what both were told."""
    bench = make_bench(
        ScriptedBroker(lambda frame: kf.produce_answer(corr_of(frame), base_offset=5))
    )
    bench.arm(refuses(LATE, forward=True))
    client = bench.client()
    assert told(client.ask(produce(bench, 7))) == [ERRORS[LATE]]
    assert told(client.ask(produce(bench, 8))) == [0]
    bench.broker.wait_corrs(7, 8)
    bench.wait_event(kinds.ProduceAnswer, reached=True)
    answers = [
        (event.reached, event.error, event.offset) for event in bench.events(kinds.ProduceAnswer)
    ]
    assert answers == [(False, 0, 5), (True, 0, 5)]
    line = bench.wait_event(kinds.Rule, phase="answered")
    assert (line.error, line.forward, line.reached, line.said, line.corr) == (
        LATE,
        True,
        True,
        0,
        7,
    )


def test_what_the_broker_itself_says_is_written_down(make_bench: Callable[..., Bench]) -> None:
    """It has refused what was forwarded: nothing was done behind the error."""
    bench = make_bench(ScriptedBroker(lambda frame: kf.produce_answer(corr_of(frame), error=6)))
    bench.arm(refuses(LATE, forward=True))
    assert told(bench.client().ask(produce(bench, 7))) == [ERRORS[LATE]]
    assert bench.wait_event(kinds.Rule, phase="answered").said == 6


def test_what_nobody_reads_of_the_broker_is_no_consent(make_bench: Callable[..., Bench]) -> None:
    """Of the answer to an InitProducerId only the number is read: whether it was refused, nobody
    knows.
    """
    answer = bytes(4) + (6).to_bytes(2, "big") + b"\xff" * 10
    bench = make_bench(ScriptedBroker(lambda frame: response(corr_of(frame), answer)))
    bench.arm(Rule("r", Action.ANSWER, Api.INIT_PRODUCER_ID, error="NOT_COORDINATOR", forward=True))
    bench.client().ask(kf.init_producer(7, bench.name(), None, 1000, version=1))
    assert bench.wait_event(kinds.Rule, phase="answered").said is None


def test_nothing_is_said_where_the_broker_says_nothing(make_bench: Callable[..., Bench]) -> None:
    """It is gone before it has answered what was forwarded."""
    bench = make_bench(ScriptedBroker(lambda _: None))
    bench.arm(refuses(LATE, forward=True))
    client = bench.client()
    client.send(produce(bench, 7))
    bench.broker.wait_corrs(7)
    bench.broker.close()
    assert client.ended()
    client.close()
    bench.wait_event(kinds.Rule, phase="unanswered", because="no answer came")


def test_nobody_speaks_for_a_broker_that_has_left(make_bench: Callable[..., Bench]) -> None:
    """Where that owes an answer to what was asked before, the client sees the end, as it would
    without the wire.
    """
    bench = make_bench(ScriptedBroker(lambda _: None))
    bench.arm(refuses())
    client = bench.client()
    client.send(request(BEAT, 1, bench.name()), produce(bench, 2))
    bench.hit()
    bench.broker.wait_corrs(1)
    bench.broker.close()
    assert client.ended()
    bench.wait_event(kinds.Rule, phase="unanswered", because="the broker has left")


def test_as_often_as_it_is_to_be(bench: Bench) -> None:
    bench.arm(refuses(limit=2, occurrence=2))
    client = bench.client()
    said = [client.ask(produce(bench, corr)) for corr in range(1, 5)]
    assert [frame == response(corr, b"answer") for corr, frame in enumerate(said, start=1)] == [
        True,
        False,
        False,
        True,
    ]
    bench.broker.wait_corrs(1, 4)


def test_what_is_asked_before_a_late_refusal_is_answered_behind_it(bench: Bench) -> None:
    """The broker has the second request by then; the client reads its answers in order."""
    bench.arm(refuses(delay_s=1.0))
    client = bench.client()
    client.send(produce(bench, 1), produce(bench, 2))
    bench.broker.wait_corrs(2)
    assert (client.read()[4:8], client.read()) == ((1).to_bytes(4), response(2, b"answer"))
    refused = bench.wait_event(kinds.Rule, phase="answered")
    assert refused.reached
    [second] = [e for e in bench.events(kinds.Frame) if e.corr == 2 and e.dir == "request"]
    assert second.t < refused.t


def test_a_client_that_has_left_is_not_refused_late(bench: Bench) -> None:
    bench.arm(refuses(delay_s=WITHIN_S))
    client = bench.client()
    client.send(produce(bench, 1))
    bench.hit()
    client.close()
    bench.wait_event(kinds.Conn, phase="close")
    assert "answered" not in bench.phases("r")


def test_what_asks_for_no_answer_is_not_refused_and_voids(bench: Bench) -> None:
    """Nobody waits to be told: it goes on, and the cell says that the rule could not do what it was
    to.
    """
    bench.arm(refuses())
    client = bench.client()
    client.send(produce(bench, 7, acks=0))
    bench.broker.wait_corrs(7)
    assert "asks for no answer" in str(bench.wait_event(kinds.Undecodable).because)
    assert "answered" not in bench.phases("r")
    client.send(produce(bench, 8))
    bench.broker.wait_corrs(7, 8)
    assert [frame.answered for frame in bench.events(kinds.Frame) if frame.dir == "request"] == [
        False,
        None,
    ]


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        (
            Rule("r", Action.ANSWER, "Produce", error="PRODUCER_FENCED"),
            "a Produce is never refused by PRODUCER_FENCED",
        ),
        (
            Rule("r", Action.ANSWER, "Nothing", error=REFUSED),
            "a Nothing is never refused by NOT_ENOUGH_REPLICAS",
        ),
        (
            Rule("r", Action.ANSWER, "Produce", error=REFUSED, forward=True),
            "is not done: it cannot be forwarded",
        ),
    ],
)
def test_no_rule_says_what_no_broker_says(bench: Bench, rule: Rule, says: str) -> None:
    with pytest.raises(WireError, match=says):
        bench.arm(rule)


def test_a_fetch_is_refused_for_all_that_its_session_has(make_bench: Callable[..., Bench]) -> None:
    """An incremental one names nothing; the refusal ends the session, so that the broker is asked
    for everything next.
    """
    bench = make_bench(ScriptedBroker(lambda frame: kf.fetch_answer(corr_of(frame), b"")))
    bench.arm(Rule("r", Action.ANSWER, Api.FETCH, error="OFFSET_OUT_OF_RANGE", occurrence=2))
    client = bench.client()
    client.ask(kf.fetch(1, bench.name(), 4))
    refusal = client.ask(kf.fetch(2, bench.name(), None, epoch=1))
    answer: Any = decode(Api.FETCH, Direction.RESPONSE, 12, refusal[AT:])
    assert answer.error == 0
    assert [(part.partition, part.error) for part in answer.partitions] == [(0, 1)]
