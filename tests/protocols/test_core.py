"""What Core's packets are about: what is sent, given, acknowledged and committed, and which answer
is whose.
"""

from __future__ import annotations

import struct
from typing import Any

import pytest

from harness.model.identity import Identity
from harness.model.record import ATTEMPT_HEADER
from harness.protocols.core import reading
from harness.protocols.core.frame import CoreFrame
from harness.protocols.core.session import Core
from harness.protocols.core.steps import Kind, Packet
from harness.wire.protocol import Immovable, Need, Opaque, UnableError, Unframed
from tests.protocols import core_frames as core
from tests.protocols.conversation import FROM, LIMIT, TO, Conversation, value


class Talk(Conversation):
    """A connection with a session, and what it makes of packets."""

    def __init__(self, identity: Identity | None = None, **asked: Any) -> None:
        super().__init__(Core(), identity)
        assert self.session.feed(TO, core.GREETING) == Unframed(len(core.GREETING))
        self.session.taken(TO, len(core.GREETING))
        self.say(core.create(**asked))
        self.hear(core.created())

    def given(self, *records: str) -> None:
        """Let messages be given, called 1, 2, 3."""
        for number, record in enumerate(records, 1):
            self.hear(core.give(number, value(record)))


@pytest.mark.parametrize("version", [129, 130, 134, 136])
def test_what_is_sent_and_answered(version: int) -> None:
    """With its record, its address, its attempt, at every version; the answer is about what it
    answers.
    """
    talk, attempt = Talk(version=version), dict[str, Any]({ATTEMPT_HEADER: "p-1.0.1"})
    [(kind, record, request, _)] = talk.say(core.send(value("a"), version=version, **attempt))
    assert (kind, record, talk.last.step, talk.last.attempt) == (
        "sent",
        "a",
        Packet.SEND,
        "p-1.0.1",
    )
    assert (talk.seen.subject.records, talk.seen.subject.topics) == ({"a"}, {"q"})
    assert talk.hear(core.answer(None if version < 130 else -1), reached=False) == [
        ("produce_answer", "a", request, None)
    ]
    assert (talk.last.step, talk.seen.error) == (Packet.NULL_RESPONSE, 0)
    assert talk.say(core.send(value("b"), version=version, asks=False), reached=False)[0][:2] == (
        "unsent",
        "b",
    )
    assert talk.last.id is None


def test_an_answer_names_what_it_answers_where_it_can() -> None:
    """What is sent with a listener is answered by its number, in any order; a commit by its own,
    behind them.
    """
    talk = Talk()
    talk.say(core.send(value("a"), number=4))
    talk.say(core.send(value("b"), number=5))
    assert talk.hear(core.answer(5))[0][1] == "b"
    assert talk.hear(core.answer(4))[0][1] == "a"
    assert talk.hear(core.answer(4)) == []
    talk.say(core.send(value("c")))
    assert talk.hear(core.answer(77)) == []
    assert talk.hear(core.answer())[0][1] == "c"


def test_a_session_of_another_connection_voids() -> None:
    """After it was attached again: how its packets end was said there, and whose an
    answer is, too.
    """
    talk = Conversation(Core())
    talk.session.feed(TO, core.GREETING)
    talk.session.taken(TO, len(core.GREETING))
    talk.say(
        core.packet(
            Kind.REATTACH_SESSION, core.text("a session") + struct.pack(">i", -1), core.SESSION
        )
    )
    talk.hear(core.packet(Kind.REATTACH_SESSION_RESP, struct.pack(">i?", 0, True), core.SESSION))
    for data in (
        core.send(value("a"), number=4),
        core.acknowledge(1),
        core.commit(),
        core.rollback(),
    ):
        talk.say(data)
        assert "made on another connection" in talk.last.because
    talk.hear(core.give(1, value("b")))
    assert talk.last.because is not None
    talk.say(core.create())
    talk.hear(core.created())
    talk.say(core.send(value("a"), number=4))
    assert talk.last.because is None


@pytest.mark.parametrize("way", [TO, FROM])
def test_a_consumer_that_is_made_again_has_nothing_of_the_one_before(way: Any) -> None:
    talk = Talk()
    talk.given("a")
    closed = core.packet(
        Kind.SESS_CONSUMER_CLOSE if way is TO else Kind.DISCONNECT_CONSUMER,
        struct.pack(">q", core.CONSUMER),
    )
    (talk.say if way is TO else talk.hear)(closed)
    assert talk.say(core.acknowledge(1, asks=False)) == []
    talk.say(core.subscribe("q"))
    talk.hear(core.answer())
    talk.hear(core.give(5, value("b")))
    assert [each[1] for each in talk.say(core.acknowledge(5, alone=False))] == ["b"]


def test_what_is_rolled_back_may_be_acknowledged_again() -> None:
    """By its name; all up to one is what was given since: the others may be anybody's."""
    talk = Talk(bound=True)
    talk.given("a", "b")
    talk.say(core.acknowledge(1))
    talk.say(core.rollback())
    talk.hear(core.answer())
    talk.hear(core.give(2, value("b")))
    assert [each[1] for each in talk.say(core.acknowledge(2, alone=False))] == ["b"]
    assert [each[1] for each in talk.say(core.acknowledge(1))] == ["a"]
    assert talk.say(core.acknowledge(1)) == []
    talk.say(core.commit())
    assert talk.say(core.acknowledge(1)) == []


def test_names_of_properties_may_be_javas() -> None:
    """A client of JMS cannot name a property with a dash in it."""
    talk = Talk()
    more: dict[str, Any] = {ATTEMPT_HEADER.replace("-", "_"): "p-1.0.2", "n": 7, "none": None}
    talk.say(core.send(value("a"), **more))
    assert talk.last.attempt == "p-1.0.2"


@pytest.mark.parametrize("odd", [7, None])
def test_an_attempt_has_a_name(odd: Any) -> None:
    """A program may have a property of the same name for something else: that names no attempt."""
    talk = Talk()
    talk.say(core.send(value("a"), **{ATTEMPT_HEADER: odd}))
    assert (talk.seen.subject.records, talk.last.attempt) == ({"a"}, None)


def test_two_phases() -> None:
    """What is sent between begin and end is prepared and committed by the transaction's name; each
    answer is about that.
    """
    talk, name = Talk(bound=True), "xa:7431:01"
    talk.say(core.branch(Kind.SESS_XA_START, b"t1"))
    talk.hear(core.told())
    talk.say(core.send(value("a")))
    talk.hear(core.answer())
    assert (talk.last.asked.transaction, talk.seen.subject.transactional_ids) == (name, {name})
    talk.say(core.branch(Kind.SESS_XA_END, b"t1", b"\0"))
    talk.hear(core.told())
    assert (talk.last.step, talk.seen.subject.records) == (Packet.XA_RESPONSE, set())
    assert talk.say(core.branch(Kind.SESS_XA_PREPARE, b"t1")) == []
    assert (talk.last.step, talk.seen.subject.records, talk.seen.subject.topics) == (
        Packet.XA_PREPARE,
        {"a"},
        {"q"},
    )
    assert talk.hear(core.told()) == []
    assert (talk.last.step, talk.seen.subject.records, talk.seen.error) == (
        Packet.XA_PREPARED,
        {"a"},
        0,
    )
    talk.say(core.branch(Kind.SESS_XA_START, b"t2"))
    talk.hear(core.told())
    talk.say(core.send(value("b")))
    talk.hear(core.answer())
    [(_, record, *_)] = talk.say(core.branch(Kind.SESS_XA_COMMIT, b"t1", b"\0"))
    assert (record, talk.last.step) == ("a", Packet.XA_COMMIT)
    talk.hear(core.told())
    assert (talk.last.step, talk.seen.subject.records) == (Packet.XA_COMMITTED, {"a"})
    talk.say(core.branch(Kind.SESS_XA_COMMIT, b"t1", b"\0"))
    assert talk.seen.subject.records == set(), "it is ended, and was committed on this connection"
    talk.hear(core.told(-4, "no such transaction"))
    assert talk.seen.error == "no such transaction (-4)"


@pytest.mark.parametrize(
    ("said", "number", "error"), [("no room", 4, "no room (110)"), (None, None, "refused (110)")]
)
def test_a_refusal_says_why(said: str | None, number: int | None, error: str) -> None:
    talk = Talk()
    talk.say(core.send(value("a"), number=core.UNNUMBERED if number is None else number))
    assert talk.hear(core.refuse(said, number))[0][:2] == ("produce_answer", "a")
    assert talk.seen.error == error


@pytest.mark.parametrize(("alone", "taken"), [(True, ["b"]), (False, ["a", "b"])])
def test_what_an_acknowledgement_is_about(*, alone: bool, taken: list[str]) -> None:
    """One message, or all up to it; each once."""
    talk = Talk()
    talk.given("a", "b", "c")
    said = talk.say(core.acknowledge(2, alone=alone))
    assert [line[:2] for line in said] == [("acknowledged", record) for record in taken]
    assert talk.last.step == Packet.ACKNOWLEDGE
    assert [line[1::2] for line in talk.hear(core.answer())] == [
        (record, "taken") for record in taken
    ]
    assert talk.say(core.acknowledge(2, alone=alone)) == []
    assert talk.say(core.acknowledge(3, asks=False))[0][1] == "c"
    assert talk.last.id is None


def test_what_was_acknowledged_before_it_was_given_waits_for_nothing() -> None:
    """By PRE_ACKNOWLEDGE: what is given has no name that an acknowledgement could settle."""
    talk = Talk(before=True)
    assert talk.hear(core.give(1, value("a")))[0][:2] == ("fetched", "a")
    assert talk.last.id is None


def test_a_redelivery_says_so() -> None:
    talk = Talk()
    for deliveries, again in ((1, False), (2, True)):
        talk.hear(core.give(1, value("a"), deliveries=deliveries))
        assert talk.last.redelivered is again


@pytest.mark.parametrize("number", [core.UNNUMBERED, 9])
def test_a_commit_is_about_what_was_done_in_it(number: int) -> None:
    """What was sent and what was acknowledged since the last one, and so is its answer."""
    talk = Talk(bound=True)
    talk.given("a")
    talk.say(core.acknowledge(1, asks=False))
    talk.say(core.send(value("b"), asks=False))
    assert [line[:2] for line in talk.say(core.commit(number))] == [
        ("ending", "a"),
        ("ending", "b"),
    ]
    first = talk.last.transaction
    assert [line[1::2] for line in talk.hear(core.answer(number))] == [
        ("a", "taken"),
        ("b", "taken"),
    ]
    talk.say(core.send(value("c"), asks=False))
    assert talk.last.transaction not in (None, first)
    assert [line[:2] for line in talk.say(core.rollback())] == [("ending", "c")]
    assert talk.say(core.commit()) == []


def test_a_programs_acknowledgement_is_done_by_the_commit_behind_it() -> None:
    """The acknowledgement itself tells nothing, and neither does its answer; what is sent meanwhile
    is bound by nothing.
    """
    talk = Talk(by_commit=True)
    talk.given("a", "b")
    assert talk.say(core.acknowledge(2)) == []
    assert talk.seen.subject.records == {"b"}
    assert talk.hear(core.answer()) == []
    assert talk.last.step == Packet.NULL_RESPONSE
    talk.say(core.send(value("c"), asks=False))
    assert talk.last.transaction is None
    assert [line[:2] for line in talk.say(core.commit(3))] == [("acknowledged", "b")]
    assert [line[1::2] for line in talk.hear(core.answer(3), reached=False)] == [("b", "taken")]
    assert talk.last.step == Packet.COMMITTED
    assert talk.say(core.rollback()) == []


def test_who_it_is() -> None:
    """As its session is asked for; what an older one is told later; else the first address."""
    assert Talk().session.owner() == "key.consumer.1"
    talk = Talk(client=None)
    assert talk.session.owner() is None
    talk.say(core.named("jms-client-id", "key.producer.1"))
    assert talk.session.owner() == "key.producer.1"
    talk = Talk(client=None)
    talk.say(core.named("jms-session", ""))
    talk.say(core.subscribe("key.in"))
    assert talk.session.owner() == "key.in"


def test_a_ping_is_no_step() -> None:
    """It says for how long its client may be silent."""
    talk = Talk()
    assert talk.session.silence_s(TO) is None
    assert talk.session.feed(TO, core.ping(30_000)) == Unframed(len(core.ping()))
    talk.session.taken(TO, len(core.ping()))
    assert (talk.session.silence_s(TO), talk.session.silence_s(FROM)) == (30, 15)


@pytest.mark.parametrize("said", ["short", "one that is longer than eight characters", "x" * 300])
def test_what_is_refused_can_be_read(said: str) -> None:
    talk = Talk()
    for number in (core.UNNUMBERED, 5):
        talk.say(core.send(value("a"), number=number))
        asked = talk.last
        if said == "short":
            talk.hear(talk.session.refuse(asked, b"", "refused"))
            assert (talk.last.asked, talk.seen.error) == (asked, "refused (0)")
    assert reading.Reader(core.text(said)).text() == said


def test_what_asks_for_nothing_cannot_be_refused() -> None:
    talk = Talk()
    talk.say(core.send(value("a"), asks=False))
    with pytest.raises(UnableError, match="requests no answer"):
        talk.session.refuse(talk.last, b"", "refused")
    assert isinstance(talk.session.move(talk.last, b""), Immovable)


def test_texts_and_properties_are_read() -> None:
    """A text stands in two bytes a character; an id may be in a property."""
    talk = Talk()
    assert reading.message(core.send(b"\1" + core.simple("abc"), kind=3)).body == b"abc"
    talk = Talk(Identity(where="header:id"))
    talk.say(core.send(b"anything", id="r-1"))
    assert talk.seen.subject.records == {"r-1"}


def test_a_message_in_several_packets_voids() -> None:
    talk = Talk()
    talk.say(core.packet(Kind.SESS_SEND_LARGE, b"whatever"))
    assert talk.seen.voids
    large = core.send(b"x" * LIMIT)
    frame = talk.session.feed(TO, large[:50])
    assert isinstance(frame, CoreFrame)
    assert (frame.step, frame.size) == (Packet.SEND, len(large))
    assert talk.session.read(frame, None, talk.ledger).voids


def test_a_packet_that_nobody_knows_passes() -> None:
    talk = Talk()
    assert talk.say(core.packet(99, b"abc")) == []
    assert talk.last.step == "PACKET_99"


@pytest.mark.parametrize(
    "data",
    [
        b"\0\0\0\1" + bytes(9),
        core.packet(Kind.SESS_SEND, b"\0\0\1\0"),
        core.packet(Kind.CREATESESSION),
        core.packet(Kind.SESS_RECEIVE_MSG, b"\x7f\xff\xff\xff" + bytes(20)),
        core.give(1, b"a"),
        core.answer(),
    ],
)
def test_what_is_no_packet_is_told(data: bytes) -> None:
    assert isinstance(Talk().session.feed(TO, data), Opaque)


def test_a_packet_is_waited_for() -> None:
    data, session = core.send(value("a")), Talk().session
    assert [session.feed(TO, data[:size]) for size in (3, 10, 20)] == [
        Need(7),
        Need(13),
        Need(len(data)),
    ]
