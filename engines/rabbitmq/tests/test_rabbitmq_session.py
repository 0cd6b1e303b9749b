"""What the frames of AMQP 0-9-1 are about: publishes and confirms, what comes back, deliveries and
their acknowledgements. The frames are made by pika.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from lostack_rabbitmq.session import Amqp091, AmqpFrame, AmqpSession
from pika import spec
from pika.frame import Body, Header, Method

from harness.model import kinds
from harness.model.record import ATTEMPT_HEADER, Record
from harness.wire.protocol import Opaque, UnableError
from harness.wire.rules import Direction
from tests.events import fields_of

if TYPE_CHECKING:
    from collections.abc import Sequence

TO, FROM = Direction.REQUEST, Direction.RESPONSE
LIMIT = 1 << 20
LEDGER = Amqp091().ledger("key", None)
Lines = list[tuple[str, dict[str, Any]]]


def value(number: int) -> bytes:
    """Return the payload of a record."""
    return Record(f"k0-{number}", "k0", number, "x").encode("key")


class Talk:
    """A connection with one channel, on which frames pass."""

    def __init__(self, *, confirms: bool = True) -> None:
        self.session: AmqpSession = Amqp091().session(7, limit=LIMIT)
        self.say(TO, spec.Channel.Open())
        if confirms:
            self.say(TO, spec.Confirm.Select())

    def take(self, way: Direction, data: bytes, *, reached: bool = True) -> tuple[AmqpFrame, Lines]:
        """Let a frame pass; return it and its lines."""
        frame = self.session.feed(way, data)
        assert isinstance(frame, AmqpFrame), frame
        assert frame.size == len(data)
        self.session.read(frame, data, LEDGER)
        self.session.sending(frame)
        lines = [
            (event.event, fields_of(event))
            for event in self.session.settled(frame, LEDGER, reached=reached)
        ]
        self.session.taken(way, frame.size)
        return frame, lines

    def say(self, way: Direction, method: Any, *bodies: bytes) -> tuple[AmqpFrame, Lines]:
        """Let a method pass, and a message behind it; return its last frame and all lines."""
        parts: list[Any] = [Method(1, method)]
        if bodies:
            said = spec.BasicProperties(headers={ATTEMPT_HEADER: "p-1.0.2"})
            parts += [Header(1, sum(map(len, bodies)), said), *(Body(1, each) for each in bodies)]
        told: Lines = []
        for part in parts:
            frame, lines = self.take(way, part.marshal())
            assert frame.last is (part is parts[-1])
            told += lines
        return frame, told

    def publish(self, number: int, *, mandatory: bool = False) -> tuple[AmqpFrame, Lines]:
        """Publish a record."""
        body = value(number)
        method = spec.Basic.Publish(exchange="", routing_key="q", mandatory=mandatory)
        return self.say(TO, method, body[:5], body[5:])

    def deliver(self, number: int, tag: int, *, again: bool = False) -> tuple[AmqpFrame, Lines]:
        """Deliver a record."""
        method = spec.Basic.Deliver("c", tag, again, "", "q")
        return self.say(FROM, method, value(number))


def records(lines: Sequence[tuple[str, dict[str, Any]]], kind: str) -> list[str]:
    """Return the records of the lines of a kind."""
    return [fields["record"] for each, fields in lines if each == kind]


def test_a_message_in_several_frames_is_one() -> None:
    """It is told when its last frame has gone, with its attempt and its queue."""
    frame, [(kind, fields)] = Talk().publish(1)
    assert (frame.step, frame.id, kind) == ("basic.publish", "1/1", "sent")
    assert (fields["record"], fields["topic"], fields["attempt"]) == ("k0-1", "q", "p-1.0.2")


def test_confirms_are_numbered_by_channel() -> None:
    """One may be of all up to a number, and is once."""
    talk = Talk()
    for number in (1, 2, 3):
        talk.publish(number)
    _, lines = talk.say(FROM, spec.Basic.Ack(2, multiple=True))
    assert records(lines, kinds.PRODUCE_ANSWER) == ["k0-1", "k0-2"]
    assert {fields["error"] for _, fields in lines} == {0}
    frame, lines = talk.say(FROM, spec.Basic.Ack(0, multiple=True))
    assert (records(lines, kinds.PRODUCE_ANSWER), frame.answers) == (["k0-3"], ("1/3",))
    assert talk.say(FROM, spec.Basic.Ack(3))[1] == []


def test_a_nack_of_the_broker_is_no_confirm() -> None:
    talk = Talk()
    talk.publish(1)
    _, [(kind, fields)] = talk.say(FROM, spec.Basic.Nack(1))
    assert (kind, fields["error"]) == (kinds.PRODUCE_ANSWER, "basic.nack")


def test_a_message_that_comes_back_was_not_stored() -> None:
    """The confirm that follows is no receipt; another publish's is. Without confirms, the return is
    the only answer.
    """
    back = spec.Basic.Return(312, "NO_ROUTE", "", "q")
    talk = Talk()
    talk.publish(1, mandatory=True)
    talk.publish(2, mandatory=True)
    assert talk.say(FROM, back, value(2))[1] == []
    _, lines = talk.say(FROM, spec.Basic.Ack(2, multiple=True))
    assert [(fields["record"], fields["error"]) for _, fields in lines] == [
        ("k0-1", 0),
        ("k0-2", "NO_ROUTE"),
    ]
    talk = Talk(confirms=False)
    talk.publish(1, mandatory=True)
    frame, [(_, fields)] = talk.say(FROM, back, value(1))
    assert (fields["record"], fields["error"], frame.answers) == ("k0-1", "NO_ROUTE", ("1/1",))


@pytest.mark.parametrize(
    ("method", "how", "about"),
    [
        (spec.Basic.Ack(2, multiple=True), "ack", ["k0-1", "k0-2"]),
        (spec.Basic.Ack(2), "ack", ["k0-2"]),
        (spec.Basic.Nack(2, multiple=True, requeue=True), "nack", ["k0-1", "k0-2"]),
        (spec.Basic.Reject(1, requeue=False), "nack", ["k0-1"]),
        (spec.Basic.Ack(0, multiple=True), "ack", ["k0-1", "k0-2", "k0-3"]),
    ],
)
def test_an_acknowledgement_names_deliveries(method: Any, how: str, about: list[str]) -> None:
    """One, or all up to it, or all; nobody answers it."""
    talk = Talk()
    for number in (1, 2, 3):
        talk.deliver(number, number)
    _, lines = talk.say(TO, method)
    assert records(lines, kinds.ACKNOWLEDGED) == about
    assert {(fields["how"], fields["outcome"]) for _, fields in lines} == {(how, None)}
    assert records(talk.say(TO, method)[1], kinds.ACKNOWLEDGED) == []


def test_an_acknowledgement_that_was_lost_can_come_again() -> None:
    talk = Talk()
    talk.deliver(1, 1)
    data = Method(1, spec.Basic.Ack(1)).marshal()
    _, [(_, fields)] = talk.take(TO, data, reached=False)
    assert (fields["record"], fields["reached"]) == ("k0-1", False)
    assert records(talk.take(TO, data)[1], kinds.ACKNOWLEDGED) == ["k0-1"]


def test_a_delivery_says_its_queue_and_whether_it_comes_again() -> None:
    """By its consumer; what is acknowledged automatically waits for nothing."""
    talk = Talk()
    talk.say(TO, spec.Basic.Consume(queue="jobs", consumer_tag="c", no_ack=True))
    frame, [(kind, fields)] = talk.deliver(1, 1, again=True)
    assert (kind, fields["topic"], fields["redelivered"]) == (kinds.FETCHED, "jobs", True)
    assert frame.id is None
    talk.say(TO, spec.Basic.Consume(queue="more"))
    talk.say(FROM, spec.Basic.ConsumeOk("c2"))
    method = spec.Basic.Deliver("c2", 2, False, "", "q")
    frame, [(_, fields)] = talk.say(FROM, method, value(2))
    assert (fields["topic"], frame.id) == ("more", "1/2")


def test_a_message_that_was_asked_for() -> None:
    talk = Talk()
    talk.say(TO, spec.Basic.Get(queue="jobs"))
    _, [(kind, fields)] = talk.say(FROM, spec.Basic.GetOk(1, False, "", "q", 0), value(1))
    assert (kind, fields["topic"]) == (kinds.FETCHED, "jobs")
    assert records(talk.say(TO, spec.Basic.Ack(1))[1], kinds.ACKNOWLEDGED) == ["k0-1"]


@pytest.mark.parametrize(
    ("way", "data"),
    [
        (TO, b"AMQP\0\1\0\0"),
        (FROM, b"AMQP\0\0\x09\x01"),
        (TO, Body(1, b"x").marshal()),
        (TO, Method(1, spec.Basic.Deliver("c", 1, False, "", "q")).marshal()),
        (TO, Method(1, spec.Basic.Qos()).marshal()[:-1] + b"\0"),
    ],
    ids=["1.0", "a server's greeting", "a body alone", "the wrong direction", "no end"],
)
def test_what_is_not_this_protocol(way: Direction, data: bytes) -> None:
    assert isinstance(Talk().session.feed(way, data), Opaque)


def test_a_method_inside_of_a_message_is_none() -> None:
    """On its own channel; another channel's may come between."""
    talk = Talk()
    publish = Method(1, spec.Basic.Publish(routing_key="q")).marshal()
    talk.take(TO, publish)
    talk.take(TO, Method(2, spec.Channel.Open()).marshal())
    assert isinstance(talk.session.feed(TO, publish), Opaque)


def test_nothing_is_refused_by_the_wire() -> None:
    """A broker that has not seen a publish would number the next ones otherwise."""
    frame, _ = Talk().publish(1)
    with pytest.raises(UnableError, match="numbered"):
        Talk().session.refuse(frame, b"", "basic.nack")
