"""What AMQP's frames are about: what is sent, given, settled and committed."""

from __future__ import annotations

from typing import Any

import pytest

from harness.model.identity import Identity
from harness.model.record import ATTEMPT_HEADER
from harness.protocols.amqp import values
from harness.protocols.amqp.session import Amqp, AmqpFrame
from harness.protocols.amqp.steps import Performative
from harness.wire.protocol import Immovable, Need, Opaque, UnableError, Unframed
from harness.wire.rules import Action, After, Direction, Rule, RuleError
from tests.protocols import amqp_frames as af
from tests.protocols.conversation import FROM, TO, Conversation, value

SENDS, RECEIVES, COORDINATES = 0, 1, 2


def carrying(record: str, **more: Any) -> bytes:
    """Return a message with a record."""
    return af.message(value(record), **more)


class Talk(Conversation):
    """A session whose links are attached, and what it makes of frames."""

    tells = ("record", "outcome")

    def __init__(self, identity: Identity | None = None) -> None:
        super().__init__(Amqp(), identity)
        for way, data in opening("key.consumer.1"):
            (self.say if way is TO else self.hear)(data)

    def given(self, *records: str) -> None:
        """Let messages be delivered, numbered from 0."""
        for number, record in enumerate(records):
            self.hear(af.transfer(af.BACK, RECEIVES, number, carrying(record)))


def opening(client: str) -> list[tuple[Direction, bytes]]:
    """Return what comes before the first message: a link to send by, one to receive by, one to the
    coordinator.
    """
    said = [
        (TO, af.GREETING),
        (FROM, af.GREETING),
        (TO, af.greet(client)),
        (FROM, af.greet("broker", 20_000)),
    ]
    said += [(TO, af.begin(af.CHANNEL)), (FROM, af.begin(af.BACK, af.CHANNEL))]
    for handle, receives, address in (
        (SENDS, False, "q"),
        (RECEIVES, True, "q"),
        (COORDINATES, False, None),
    ):
        said.append((TO, af.attach(af.CHANNEL, handle, receives=receives, address=address)))
        said.append((FROM, af.attach(af.BACK, handle, receives=not receives, address=address)))
    return said


def test_values_are_read() -> None:
    for raw, want in (
        (b"\x40", None),
        (b"\x43", 0),
        (b"\x52\x07", 7),
        (b"\x54\xff", -1),
        (b"\x80" + b"\0" * 7 + b"\2", 2),
        (b"\xa1\x01a", "a"),
        (b"\xa0\x01a", b"a"),
        (b"\xa3\x01s", "s"),
        (b"\x82" + b"\0" * 8, 0.0),
        (b"\xc1\x06\x02\xa1\x01a\x52\x05", {"a": 5}),
        (b"\xe0\x02\x01\x40", b"\x01\x40"),
        (b"\x98" + b"u" * 16, b"u" * 16),
    ):
        assert values.value(raw, 0) == (want, len(raw))
    for raw in (b"", b"\x70\0", b"\xb0\0\0\0\x05a"):
        with pytest.raises(values.ShortError):
            values.value(raw, 0)
    for raw in (b"\x10", b"\x4f", b"\xc0\x02\x02\x52", b"\0" * 40):
        with pytest.raises(values.NotAValueError):
            values.value(raw, 0)


def test_what_is_sent_and_settled() -> None:
    """With its record, its address, its attempt; the outcome is about what it settles."""
    talk = Talk()
    assert talk.say(
        af.transfer(af.CHANNEL, SENDS, 5, carrying("a", **{ATTEMPT_HEADER: "p-1.0.1"}))
    ) == [("sent", "a", None)]
    assert (talk.last.step, talk.last.address, talk.seen.subject.records) == (
        Performative.TRANSFER,
        "q",
        {"a"},
    )
    assert talk.last.attempt == "p-1.0.1"
    sent = talk.last
    assert talk.hear(af.disposition(af.BACK, 5), reached=False) == [("produce_answer", "a", None)]
    assert (talk.last.answers, talk.seen.error, talk.seen.subject.records) == ((sent.id,), 0, {"a"})
    assert talk.say(
        af.transfer(af.CHANNEL, SENDS, 6, carrying("b"), settled=True), reached=False
    ) == [("unsent", "b", None)]
    assert talk.last.id is None


@pytest.mark.parametrize("address", ["q", "queue://q"])
def test_a_queue_has_the_name_that_its_broker_counts_by(address: str) -> None:
    """Classic's clients write what it is before it: the name is that of the broker's own count."""
    talk = Talk()
    for handle, receives in ((7, False), (8, True)):
        talk.say(af.attach(af.CHANNEL, handle, receives=receives, address=address))
        talk.hear(af.attach(af.BACK, handle, receives=not receives, address=address))
    talk.tells = ("record", "topic")
    assert talk.say(af.transfer(af.CHANNEL, 7, 5, carrying("a"))) == [("sent", "a", "q")]
    assert talk.seen.subject.topics == {"q"}
    assert talk.hear(af.transfer(af.BACK, 8, 0, carrying("b"))) == [("fetched", "b", "q")]


def test_how_much_of_a_message_has_come_is_no_outcome() -> None:
    """It settles nothing, and acknowledges nothing; where it is said to settle, nobody can read
    that.
    """
    talk, received = Talk(), af.described(0x23, af.number(0), b"\x80" + bytes(8))
    talk.say(af.transfer(af.CHANNEL, SENDS, 5, carrying("a")))
    assert talk.hear(af.disposition(af.BACK, 5, state=received, settled=False)) == []
    assert (talk.last.answers, talk.last.because) == ((), None)
    assert talk.hear(af.disposition(af.BACK, 5)) == [("produce_answer", "a", None)]
    talk.given("b")
    assert talk.say(af.disposition(af.CHANNEL, 0, state=received, settled=False)) == []
    assert talk.say(af.disposition(af.CHANNEL, 0, state=received)) == []
    assert talk.last.because is not None
    assert talk.say(af.disposition(af.CHANNEL, 0)) == [("acknowledged", "b", None)]


def test_a_transfer_that_is_aborted_carries_nothing() -> None:
    talk = Talk()
    flags = (af.NULL, af.NULL, af.FALSE, af.FALSE, af.NULL, af.NULL, af.FALSE, af.TRUE)
    said = af.described(0x14, af.number(SENDS), af.number(5), *flags)
    assert talk.say(af.made(af.CHANNEL, said, carrying("a"))) == []
    assert (talk.last.id, talk.seen.subject.records) == (None, frozenset())
    assert talk.hear(af.disposition(af.BACK, 5)) == []


def test_the_numbers_of_deliveries_go_round() -> None:
    """Behind the last one comes 0; a range that ends before it begins is none."""
    talk = Talk()
    for number, record in ((0xFFFFFFFE, "a"), (0xFFFFFFFF, "b"), (0, "c"), (1, "d")):
        talk.say(af.transfer(af.CHANNEL, SENDS, number, carrying(record)))
    assert talk.hear(af.disposition(af.BACK, 1, 0)) == []
    assert [each[1] for each in talk.hear(af.disposition(af.BACK, 0xFFFFFFFF, 0))] == ["b", "c"]


def test_one_outcome_may_be_about_many() -> None:
    talk = Talk()
    for number, record in enumerate("abc"):
        talk.say(af.transfer(af.CHANNEL, SENDS, number, carrying(record)))
    assert talk.hear(af.disposition(af.BACK, 0, 1)) == [
        ("produce_answer", "a", None),
        ("produce_answer", "b", None),
    ]
    assert len(talk.last.answers) == 2
    assert talk.hear(af.disposition(af.BACK, 0, 2, state=af.REJECTED)) == [
        ("produce_answer", "c", None)
    ]
    assert talk.seen.error == "rejected"


def test_what_is_acknowledged_is_settled_once() -> None:
    """By its receiver; a broker that settles what was sent is something else."""
    talk = Talk()
    talk.given("a", "b", "c")
    assert (talk.seen.subject.records, talk.last.redelivered) == ({"c"}, False)
    assert talk.say(af.disposition(af.CHANNEL, 0, 1)) == [
        ("acknowledged", "a", None),
        ("acknowledged", "b", None),
    ]
    assert talk.say(af.disposition(af.CHANNEL, 0, 1)) == []
    talk.hear(af.transfer(af.BACK, RECEIVES, 9, carrying("c", deliveries=1)))
    assert talk.last.redelivered


def test_a_transaction_is_declared_and_discharged() -> None:
    """Its discharge is about what was sent and acknowledged in it, and so is the
    outcome of that.
    """
    talk = Talk()
    talk.given("a")
    talk.say(af.declare(COORDINATES, 1))
    assert talk.last.step == Performative.DECLARE
    talk.hear(af.disposition(af.BACK, 1, state=af.described(0x33, af.blob(b"t1"))))
    assert talk.seen.error == 0
    talk.say(af.disposition(af.CHANNEL, 0, state=af.in_transaction(b"t1", af.ACCEPTED)))
    talk.say(af.transfer(af.CHANNEL, SENDS, 2, carrying("b"), transaction=b"t1"))
    talk.say(af.transfer(af.CHANNEL, SENDS, 3, carrying("c"), transaction=b"t2"))
    assert talk.say(af.discharge(COORDINATES, 4, b"t1")) == [
        ("ending", "a", None),
        ("ending", "b", None),
    ]
    assert (talk.last.step, talk.seen.subject.topics) == (Performative.DISCHARGE, {"q"})
    assert talk.hear(af.disposition(af.BACK, 4)) == [
        ("ending", "a", "taken"),
        ("ending", "b", "taken"),
    ]
    assert talk.last.step == Performative.DISCHARGED


def test_a_message_in_several_frames_voids() -> None:
    """Its record stands in the first one, which is not its last; what is done to it is done at the
    last.
    """
    talk = Talk()
    whole = carrying("a")
    assert talk.say(af.transfer(af.CHANNEL, SENDS, 5, whole[:40], more=True)) == []
    assert talk.seen.voids
    assert (talk.last.last, talk.last.id) == (False, None)
    talk.say(af.transfer(af.CHANNEL, SENDS, None, whole[40:]))
    assert talk.last.last
    assert talk.last.id is not None


def test_an_id_may_be_in_a_property() -> None:
    talk = Talk(Identity(where="header:id"))
    talk.say(af.transfer(af.CHANNEL, SENDS, 5, af.message(b"anything", id="r-1")))
    assert talk.seen.subject.records == {"r-1"}


@pytest.mark.parametrize("odd", [7, None])
def test_an_attempt_has_a_name(odd: Any) -> None:
    """A program may have a property of the same name for something else: that names no attempt."""
    talk = Talk()
    talk.say(af.transfer(af.CHANNEL, SENDS, 5, carrying("a", **{ATTEMPT_HEADER: odd})))
    assert (talk.seen.subject.records, talk.last.attempt) == ({"a"}, None)


def test_a_frame_above_the_limit_voids() -> None:
    """It may carry any record."""
    talk = Talk()
    frame = talk.session.feed(TO, af.transfer(af.CHANNEL, SENDS, 5, af.message(b"x" * 5000)))
    assert isinstance(frame, AmqpFrame)
    assert talk.session.read(frame, None, talk.ledger).voids


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n",
        b"AMQP\x02\x01\x00\x00",
        b"\0\0\0\x07\x02\0\0\0",
        b"\0\0\0\x10\x01\0\0\0" + b"\0" * 8,
        af.made(0, b"\x52\x07"),
        af.made(0, af.described(0x77)),
        af.made(0, b"\0\x53\x10\x70"),
    ],
)
def test_what_is_no_frame_is_opaque(data: bytes) -> None:
    assert isinstance(Talk().session.feed(TO, data), Opaque)


def test_an_empty_frame_is_no_step() -> None:
    talk = Talk()
    assert talk.session.feed(TO, af.ALIVE) == Unframed(8)
    assert isinstance(talk.session.feed(FROM, af.ALIVE[:3]), Need)
    assert (talk.session.silence_s(TO), talk.session.silence_s(FROM)) == (20, 30)
    assert talk.session.owner() == "key.consumer.1"


def test_no_frame_is_refused_or_moved() -> None:
    talk = Talk()
    talk.say(af.transfer(af.CHANNEL, SENDS, 5, carrying("a")))
    assert isinstance(talk.session.move(talk.last, b""), Immovable)
    with pytest.raises(UnableError):
        talk.session.refuse(talk.last, b"", "rejected")


def test_nothing_may_vanish_from_a_link() -> None:
    with pytest.raises(RuleError, match="can vanish while its connection lives on"):
        Rule("r", Action.DROP, Performative.TRANSFER, FROM, record="a", after=After.GO_ON)
