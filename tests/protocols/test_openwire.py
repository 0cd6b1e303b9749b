"""What OpenWire's commands are about: what is sent, given, acknowledged and committed."""

from __future__ import annotations

from typing import Any

import pytest

from harness.model.identity import Identity
from harness.model.record import ATTEMPT_HEADER
from harness.protocols.openwire.reading import content
from harness.protocols.openwire.session import OpenWire, OpenWireFrame
from harness.protocols.openwire.steps import Command, Kind
from harness.wire.protocol import Immovable, Need, Opaque, UnableError, Unframed
from harness.wire.rules import Action, After, Rule, RuleError
from tests.narrow import narrow
from tests.protocols import openwire_frames as ow
from tests.protocols.conversation import FROM, TO, Conversation, value

INDIVIDUAL, DELIVERED, POISON = 4, 0, 1
BEGIN, PREPARE, ONE_PHASE, TWO_PHASE, ROLLBACK = range(5)


class Talk(Conversation):
    """A session that has said hello, and what it makes of commands."""

    def __init__(self, identity: Identity | None = None, **can: Any) -> None:
        super().__init__(OpenWire(), identity)
        self.hear(ow.hello(**can))
        self.say(ow.hello(**can))

    def given(self, *records: str) -> None:
        """Let messages be delivered, called 1, 2, 3."""
        for number, record in enumerate(records, 1):
            self.hear(ow.dispatch(number, value(record)))


def test_what_is_sent_and_answered() -> None:
    """With its record, its destination, its attempt; the answer is about what it answers."""
    talk, attempt = Talk(), dict[str, Any]({ATTEMPT_HEADER: "p-1.0.1"})
    assert talk.say(ow.send(5, value("a"), **attempt)) == [("sent", "a", "7:5", None)]
    assert (talk.last.step, talk.last.id, talk.seen.subject.records) == (Command.MESSAGE, 5, {"a"})
    assert talk.last.attempt == "p-1.0.1"
    assert talk.hear(ow.answer(5), reached=False) == [("produce_answer", "a", "7:5", None)]
    assert (talk.last.step, talk.last.answers, talk.seen.error) == (Command.RESPONSE, (5,), 0)
    assert talk.say(ow.send(6, value("b"), asks=False), reached=False) == [
        ("unsent", "b", "7:6", None)
    ]
    assert talk.last.id is None


def test_a_refusal_names_its_exception() -> None:
    talk = Talk()
    talk.say(ow.send(5, value("a")))
    talk.hear(ow.answer(5, "no room"))
    assert talk.seen.error == "JMSException: no room"


@pytest.mark.parametrize(
    ("how", "first", "taken"),
    [(2, None, ["a", "b"]), (2, 2, ["b"]), (INDIVIDUAL, None, ["b"]), (POISON, 2, ["b"])],
)
def test_what_an_acknowledgement_is_about(how: int, first: int | None, taken: list[str]) -> None:
    """A range up to the message that it names, or that one alone; each once."""
    talk = Talk()
    talk.given("a", "b", "c")
    assert talk.seen.subject.records == {"c"}
    said = talk.say(ow.acknowledge(5, 2, how=how, first=first))
    assert said == [("acknowledged", record, "7:5", None) for record in taken]
    assert talk.hear(ow.answer(5)) == [("acknowledged", record, "7:5", "taken") for record in taken]
    assert talk.say(ow.acknowledge(6, 2, how=how, first=first)) == []


def test_a_range_that_begins_with_what_was_not_given_is_about_nothing() -> None:
    talk = Talk()
    talk.given("a", "b")
    assert talk.say(ow.acknowledge(5, 2, how=2, first=99)) == []
    assert [each[1] for each in talk.say(ow.acknowledge(6, 2, how=2, first=1))] == ["a", "b"]


def test_what_says_only_that_it_was_delivered_takes_nothing() -> None:
    """It is a step of its own: a rule for acknowledgements does not meet it."""
    talk = Talk()
    talk.given("a")
    assert talk.say(ow.acknowledge(5, 1, how=DELIVERED)) == []
    assert talk.last.step == Command.DELIVERED_ACK
    assert talk.say(ow.acknowledge(6, 1)) == [("acknowledged", "a", "7:6", None)]


def test_a_redelivery_says_so() -> None:
    talk = Talk()
    for deliveries, again in ((0, False), (2, True)):
        talk.hear(ow.dispatch(1, value("a"), deliveries=deliveries))
        assert talk.last.redelivered is again


@pytest.mark.parametrize(
    ("what", "step"), [(ONE_PHASE, Command.COMMIT_ONE_PHASE), (TWO_PHASE, Command.COMMIT_TWO_PHASE)]
)
def test_a_commit_is_about_what_was_done_in_it(what: int, step: str) -> None:
    talk = Talk()
    talk.given("a")
    talk.say(ow.transact(3, 1, BEGIN))
    talk.say(ow.acknowledge(4, 1, asks=False, transaction=1))
    talk.say(ow.send(5, value("b"), asks=False, transaction=1))
    talk.say(ow.send(6, value("c"), asks=False, transaction=2))
    talk.say(ow.transact(7, 1, PREPARE))
    assert (talk.last.step, talk.seen.subject.records) == (Command.PREPARE, {"a", "b"})
    assert talk.say(ow.transact(8, 1, what)) == [
        ("ending", "a", "7:8", None),
        ("ending", "b", "7:8", None),
    ]
    assert (talk.last.step, talk.seen.subject.topics) == (step, {"q"})
    talk.hear(ow.answer(7))
    assert (talk.last.step, talk.seen.subject.records) == (Command.PREPARE_RESPONSE, {"a", "b"})
    assert talk.hear(ow.answer(8)) == [
        ("ending", "a", "7:8", "taken"),
        ("ending", "b", "7:8", "taken"),
    ]
    assert talk.last.step == Command.COMMIT_RESPONSE
    assert talk.say(ow.transact(9, 1, what)) == []


def test_what_is_rolled_back_may_be_acknowledged_again() -> None:
    """The library has it still: no broker gives it again."""
    talk = Talk()
    talk.given("a")
    talk.say(ow.acknowledge(4, 1, asks=False, transaction=1))
    assert talk.say(ow.acknowledge(5, 1, asks=False, transaction=2)) == []
    talk.say(ow.transact(6, 1, ROLLBACK))
    assert talk.say(ow.acknowledge(7, 1, asks=False, transaction=3)) == [
        ("acknowledged", "a", "7:7", None)
    ]


def test_texts_and_properties_are_read() -> None:
    """A text stands behind its length; an id may be in a property."""
    assert content(ow.send(1, b"abc", kind=Kind.TEXT_MESSAGE)).body == b"abc"
    talk = Talk(Identity(where="header:id"))
    talk.say(ow.send(5, b"anything", id="r-1"))
    assert talk.seen.subject.records == {"r-1"}


def test_an_attempt_has_a_name() -> None:
    """A program may have a property of the same name for something else: that names no attempt."""
    talk = Talk()
    named: dict[str, Any] = {ATTEMPT_HEADER: 7}
    talk.say(ow.send(5, value("a"), **named))
    assert (talk.seen.subject.records, talk.last.attempt) == ({"a"}, None)


@pytest.mark.parametrize(
    ("data", "because"),
    [
        (ow.send(5, b"x" * 5000), None),
        (ow.send(5, b"x", compressed=True), "a compressed message is not read"),
    ],
)
def test_what_cannot_be_read_voids(data: bytes, because: str | None) -> None:
    """It may carry any record."""
    talk = Talk()
    frame = talk.session.feed(TO, data)
    assert isinstance(frame, OpenWireFrame)
    seen = talk.session.read(frame, None if because is None else data, talk.ledger)
    assert seen.voids
    assert because is None or seen.because == because


@pytest.mark.parametrize("can", ["TightEncodingEnabled", "CacheEnabled", "SizePrefixDisabled"])
def test_what_both_sides_have_and_is_not_read_is_opaque(can: str) -> None:
    both = Talk(None, **{can: True}).session.feed(TO, ow.send(5, b"x"))
    assert isinstance(both, Opaque)
    assert can in both.because
    talk = Talk()
    talk.hear(ow.hello(**{can: True}))
    assert isinstance(talk.session.feed(TO, ow.send(5, b"x")), OpenWireFrame)


def test_an_old_version_is_opaque() -> None:
    """It names messages otherwise."""
    found = Talk(version=9).session.feed(TO, ow.send(5, b"x"))
    assert isinstance(found, Opaque)
    assert "version 9" in found.because


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n",
        b"\0\0\0\0\x01",
        ow.command(77, b"x" * 20),
        ow.answer(1),
        ow.command(Kind.MESSAGE_ACK, ow.head(1)),
        ow.command(Kind.WIREFORMAT_INFO, b"Artemis!" + b"\0" * 10),
        ow.transact(1, 1, 9),
    ],
)
def test_what_is_no_command_of_a_client_is_opaque(data: bytes) -> None:
    assert isinstance(Talk().session.feed(TO, data), Opaque)


def test_a_sign_of_life_is_no_step() -> None:
    """And both have said how long one may be silent."""
    talk = Talk()
    assert talk.session.feed(TO, ow.alive()) == Unframed(len(ow.alive()))
    assert talk.session.silence_s(TO) == 30
    assert isinstance(talk.session.feed(FROM, ow.alive()[:3]), Need)


def test_who_it_is() -> None:
    """The name that the client was given; where it has made one itself, the destination."""
    named, other = Talk(), Talk()
    named.say(ow.connection("key.consumer.1-1"))
    other.say(ow.connection("ID:host-1"))
    assert other.session.owner() is None
    other.say(ow.subscribe("key.in", 2))
    assert (named.session.owner(), other.session.owner()) == ("key.consumer.1-1", "key.in")


def test_what_is_answered_can_be_refused() -> None:
    """What requests no answer cannot; nor what changes nothing."""
    talk = Talk()
    frame = talk.session.feed(TO, ow.send(5, b"x"))
    assert isinstance(frame, OpenWireFrame)
    said = talk.session.refuse(frame, b"", "refused")
    talk.say(ow.send(5, b"x"))
    talk.hear(said)
    assert talk.seen.error == "IOException: refused"
    assert isinstance(talk.session.move(frame, b""), Immovable)
    talk.say(ow.send(6, b"x", asks=False))
    for last in (talk.last, _subscribed(talk)):
        with pytest.raises(UnableError, match="cannot be refused"):
            talk.session.refuse(last, b"", "refused")


def _subscribed(talk: Talk) -> OpenWireFrame:
    talk.say(ow.subscribe("q", 7))
    return narrow(talk.last, OpenWireFrame)


def test_rules_fit_the_steps() -> None:
    """A dispatch may vanish while its connection lives, and names no transaction."""
    Rule("r", Action.DROP, Command.MESSAGE_DISPATCH, FROM, record="a", after=After.GO_ON)
    with pytest.raises(RuleError, match="cannot be selected by transactional id"):
        Rule("r", Action.DROP, Command.MESSAGE_DISPATCH, FROM, transactional_id="a")
