"""What Pulsar's frames are about: what is sent, given, acknowledged and committed, alone, in
batches, in parts, compressed.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any

import cramjam
import lz4.block
import pytest
import zstandard

from harness.model.identity import Identity
from harness.protocols.pulsar import frames, payload
from harness.protocols.pulsar.protobuf import MalformedError, Message, made
from harness.protocols.pulsar.session import Pulsar
from harness.protocols.pulsar.steps import NUMBERS, STEPS, Command
from harness.wire.protocol import Frame, Immovable, Need, Opaque
from harness.wire.rules import Action, After, Rule, RuleError
from tests.protocols.conversation import FROM, TO, Conversation, HistoryLines, value

TOPIC = "persistent://public/default/q"


def attempt(name: str) -> bytes:
    """Return the property that names an attempt."""
    return made({1: "lostack-attempt", 2: name})


def place(entry: int, *words: int, ledger: int = 4) -> bytes:
    """Return the id of a message; ``words``: what of a batch is not acknowledged."""
    return made({1: ledger, 2: entry, 5: words} if words else {1: ledger, 2: entry})


def batch(*records: str) -> bytes:
    """Return the payload of several messages in one."""
    parts = []
    for each in records:
        own = made({1: [attempt(f"a-{each}")], 3: len(value(each))})
        parts.append(struct.pack(">I", len(own)) + own + value(each))
    return b"".join(parts)


class Talk(Conversation):
    """A session with a producer and a consumer, and what it makes of frames."""

    def __init__(self) -> None:
        super().__init__(Pulsar(), limit=1 << 16)
        self.tell(Command.CONNECT, {1: "Pulsar-CPP-v4.0.0", 4: 20})
        self.answer(Command.CONNECTED, {1: "server"})
        self.tell(Command.PRODUCER, {1: TOPIC, 2: 0, 3: 1})
        self.tell(Command.SUBSCRIBE, {1: TOPIC, 2: "s", 3: 1, 4: 5, 5: 2})

    def tell(
        self,
        command: Command,
        fields: dict[int, Any],
        message: bytes = b"",
        *,
        reached: bool = True,
    ) -> HistoryLines:
        """Let the client say a command; return the lines of it."""
        return self.say(frames.command(NUMBERS[command], fields, message), reached=reached)

    def answer(
        self,
        command: Command,
        fields: dict[int, Any],
        message: bytes = b"",
        *,
        reached: bool = True,
    ) -> HistoryLines:
        """Let the broker say one."""
        return self.hear(frames.command(NUMBERS[command], fields, message), reached=reached)

    def send(
        self, data: bytes, sequence: int = 1, *, transaction: int | None = None, **metadata: Any
    ) -> HistoryLines:
        """Let the producer send a payload. ``metadata``: ``f8=1`` is its field 8."""
        said: dict[int, Any] = {1: "p", 2: sequence, 3: 1} | {
            int(name[1:]): each for name, each in metadata.items()
        }
        own = {} if transaction is None else {4: transaction, 5: 1}
        return self.tell(Command.SEND, {1: 0, 2: sequence, **own}, frames.message(said, data))

    def give(
        self, entry: int, data: bytes, *, again: int = 0, reached: bool = True, **metadata: Any
    ) -> HistoryLines:
        """Let the consumer be given a payload."""
        said: dict[int, Any] = {1: "p", 2: 0, 3: 1} | {
            int(name[1:]): each for name, each in metadata.items()
        }
        return self.answer(
            Command.MESSAGE,
            {1: 5, 2: place(entry), 3: again},
            frames.message(said, data),
            reached=reached,
        )

    def ack(self, *places: bytes, kind: int = 0, reached: bool = True, **more: int) -> HistoryLines:
        """Let the consumer acknowledge."""
        said = {1: 5, 2: kind, 3: list(places)} | {
            int(name[1:]): each for name, each in more.items()
        }
        return self.tell(Command.ACK, said, reached=reached)


def test_types_have_their_numbers() -> None:
    """Those of ``PulsarApi.proto``."""
    some = {
        "CONNECT": 2,
        "SEND": 6,
        "MESSAGE": 9,
        "REDELIVER_UNACKNOWLEDGED_MESSAGES": 20,
        "AUTH_RESPONSE": 37,
        "ACK_RESPONSE": 38,
        "GET_OR_CREATE_SCHEMA_RESPONSE": 40,
        "NEW_TXN": 50,
        "END_TXN": 56,
        "END_TXN_ON_SUBSCRIPTION_RESPONSE": 61,
        "TOPIC_MIGRATED": 68,
    }
    assert {str(command): NUMBERS[command] for command in Command if command in some} == some


def test_a_receipt_is_about_the_oldest_of_its_sequence() -> None:
    """A client may send one number twice: receipts come in order."""
    talk = Talk()
    assert talk.send(value("k0-1"), f4=[attempt("a-1")]) == [("sent", "k0-1", "7:4", None)]
    talk.send(value("k0-1"))
    said = {1: 0, 2: 1, 3: place(0)}
    assert talk.answer(Command.SEND_RECEIPT, said) == [("produce_answer", "k0-1", "7:4", None)]
    assert talk.last.facts["place"] == "4:0"
    assert talk.answer(Command.SEND_RECEIPT, said) == [("produce_answer", "k0-1", "7:5", None)]
    assert talk.answer(Command.SEND_RECEIPT, said) == []


def test_a_receipt_without_a_place_is_of_a_duplicate() -> None:
    talk = Talk()
    talk.send(value("k0-1"))
    talk.answer(Command.SEND_RECEIPT, {1: 0, 2: 1, 3: made({1: -1, 2: -1})})
    assert "place" not in talk.last.facts


def test_an_error_refuses_what_was_sent() -> None:
    talk = Talk()
    talk.send(value("k0-1"))
    assert talk.answer(Command.SEND_ERROR, {1: 0, 2: 1, 3: 2, 4: "no"}) == [
        ("produce_answer", "k0-1", "7:4", None)
    ]
    assert talk.seen.error == "PersistenceError"
    talk.answer(Command.ERROR, {1: 99, 2: 999, 3: "?"})
    assert talk.seen.error == "ServerError 999"


@pytest.mark.parametrize(
    ("codec", "deflate"),
    [
        (1, lambda data: lz4.block.compress(data, store_size=False)),
        (2, zlib.compress),
        (3, zstandard.compress),
        (4, lambda data: bytes(cramjam.snappy.compress_raw(data))),
    ],
)
def test_a_batch_is_all_its_messages(codec: int, deflate: Any) -> None:
    """However it is compressed; and what is not as large as it says is not read."""
    talk, plain = Talk(), batch("k0-1", "k0-2")
    sent = talk.send(deflate(plain), f8=codec, f9=len(plain), f11=2)
    assert sent == [("sent", "k0-1", "7:4", None), ("sent", "k0-2", "7:4", None)]
    assert [each for _, each in talk.last.carried] == ["a-k0-1", "a-k0-2"]
    for size in (len(plain) - 1, len(plain) + 1, payload.MOST_BYTES + 1):
        assert talk.send(deflate(plain), f8=codec, f9=size, f11=2) == []
        assert talk.seen.because is not None
        assert talk.seen.voids


@pytest.mark.parametrize("metadata", [{"f13": [made({1: "k", 2: b"v"})]}, {"f14": "AES"}])
def test_what_is_encrypted_voids(metadata: dict[str, Any]) -> None:
    talk = Talk()
    assert talk.send(value("k0-1"), **metadata) == []
    assert talk.seen.because == "an encrypted payload cannot be read without its key"
    assert talk.seen.voids


def test_a_wrong_checksum_voids() -> None:
    """Of metadata and payload; a message without one is read."""
    talk = Talk()
    bad = bytearray(frames.message({1: "p", 2: 1, 3: 1}, value("k0-1")))
    bad[-1] ^= 1
    assert talk.tell(Command.SEND, {1: 0, 2: 1}, bytes(bad)) == []
    assert (talk.seen.because, talk.seen.voids) == ("a message with a wrong checksum", True)
    assert talk.tell(
        Command.SEND, {1: 0, 2: 1}, frames.message({1: "p", 2: 1, 3: 1}, value("k0-1"))[6:]
    )


def test_what_a_broker_puts_in_front_is_passed_over() -> None:
    talk = Talk()
    own = made({1: 17})
    message = (
        frames.BROKERS_OWN
        + frames.INT.pack(len(own))
        + own
        + frames.message({1: "p", 2: 0, 3: 1}, value("k0-1"))
    )
    assert talk.answer(Command.MESSAGE, {1: 5, 2: place(0)}, message) == [
        ("fetched", "k0-1", None, None)
    ]


def test_a_message_in_parts_is_its_last() -> None:
    """What is done to it is done there; each part has its receipt."""
    talk, whole = Talk(), value("k0-1") * 3
    parts: dict[str, Any] = {"f26": "u", "f27": 2}
    assert talk.send(whole[:20], f29=0, **parts) == []
    assert not talk.last.last
    assert talk.send(whole[20:], f29=1, **parts) == [("sent", "k0-1", "7:5", None)]
    assert talk.last.last
    assert talk.answer(Command.SEND_RECEIPT, {1: 0, 2: 1}) == []
    assert talk.answer(Command.SEND_RECEIPT, {1: 0, 2: 1}) == [
        ("produce_answer", "k0-1", "7:5", None)
    ]


def test_a_last_part_that_is_known_is_answered_before_the_parts_that_are_stored() -> None:
    """A broker that deduplicates looks at last parts alone, and names no place: other receipts come
    when those are written.
    """
    talk, whole = Talk(), value("k0-1") * 3
    for part, data in enumerate((whole[:20], whole[20:40], whole[40:])):
        talk.send(data, f26="u", f27=3, f29=part)
    nowhere = made({1: (1 << 64) - 1, 2: (1 << 64) - 1})
    assert talk.answer(Command.SEND_RECEIPT, {1: 0, 2: 1, 3: place(4)}) == []
    assert talk.answer(Command.SEND_RECEIPT, {1: 0, 2: 1, 3: nowhere}) == [
        ("produce_answer", "k0-1", "7:6", None)
    ]
    assert talk.answer(Command.SEND_RECEIPT, {1: 0, 2: 1, 3: place(5)}) == []
    assert talk.last.asked is not None
    assert talk.answer(Command.SEND_RECEIPT, {1: 0, 2: 1, 3: place(6)}) == []
    assert talk.last.asked is None


def test_a_last_part_that_is_sent_again_alone_is_of_the_message_that_it_was_of() -> None:
    """Over another connection, where the others never came; given alone to a consumer it is
    nothing.
    """
    talk, again, whole = Talk(), Talk(), value("k0-1") * 3
    again.ledger = talk.ledger
    parts: dict[str, Any] = {"f26": "u", "f27": 2}
    talk.send(whole[:20], f29=0, **parts)
    assert talk.last.facts["part"] == 0
    talk.send(whole[20:], f29=1, **parts)
    assert (talk.last.facts["message"], talk.last.facts["part"]) == ("u", 1)
    assert again.send(whole[20:], f29=1, **parts) == [("sent", "k0-1", "7:4", None)]
    assert again.give(0, whole[20:], **parts, f29=1) == []


PARTS: dict[str, Any] = {"f26": "u", "f27": 3}


@pytest.mark.parametrize(
    ("numbers", "unreached"),
    [
        ((2,), None),
        ((0, 2), None),
        ((1, 0, 2), None),
        ((0, 1, 2), 1),
        ((0, 1, 2), 0),
        ((0, 2, 1, 2), None),
    ],
)
def test_a_message_that_has_not_come_whole_has_not_come(
    numbers: tuple[int, ...], unreached: int | None
) -> None:
    """A part is missing, out of order, or did not arrive; wherever its records carry their ids."""
    whole = value("k0-1") * 3
    for identity in (None, Identity(where="header:id")):
        talk = Talk()
        talk.ledger = Pulsar().ledger("key", identity)
        for number in numbers:
            part = whole[20 * number : 20 * number + 20] if number < 2 else whole[40:]
            own: dict[str, Any] = {"f29": number, "f4": [made({1: "id", 2: "k0-1"})]}
            assert talk.give(number, part, reached=number != unreached, **PARTS, **own) == []
            assert talk.seen.because is None


def test_a_part_that_comes_again_is_passed_over() -> None:
    """Who sends the rest of a message again may begin with a part that is there: no byte of it
    counts twice.
    """
    talk, whole = Talk(), value("k0-1") * 3
    for number in (0, 1, 1, 0, 1):
        assert talk.give(number, whole[20 * number : 20 * number + 20], f29=number, **PARTS) == []
    assert talk.give(2, whole[40:], f29=2, f28=len(whole), **PARTS) == [
        ("fetched", "k0-1", None, None)
    ]
    assert talk.give(2, whole[40:], f29=2, f28=len(whole), **PARTS) == []


def test_a_message_that_is_begun_again_comes_whole() -> None:
    """As after a new delivery of its parts; and in transit nothing else is mixed up with it."""
    talk, whole = Talk(), value("k0-1") * 3
    for number in (0, 1):
        talk.give(number, whole[20 * number : 20 * number + 20], f29=number, **PARTS)
    talk.give(5, value("k0-2")[:20], f29=0, f26="v", f27=2)
    for number in (0, 1):
        talk.give(number, whole[20 * number : 20 * number + 20], f29=number, **PARTS)
    assert talk.give(2, whole[40:], f29=2, f28=len(whole), **PARTS) == [
        ("fetched", "k0-1", None, None)
    ]


def test_parts_that_are_not_as_large_as_they_say_void() -> None:
    talk, whole = Talk(), value("k0-1") * 3
    talk.give(0, whole[:20], f26="u", f27=2, f29=0)
    assert talk.give(1, whole[20:], f26="u", f27=2, f29=1, f28=len(whole) + 1) == []
    assert talk.seen.voids


def test_parts_may_be_sent_over_several_connections() -> None:
    """What has a receipt is not sent again, and what has none is, over the next one."""
    talk, again, whole = Talk(), Talk(), value("k0-1") * 3
    again.ledger = talk.ledger
    talk.send(whole[:20], f29=0, **PARTS)
    talk.send(whole[20:40], f29=1, **PARTS)
    assert again.send(whole[20:40], f29=1, **PARTS) == []
    assert again.send(whole[40:], f29=2, f28=len(whole), **PARTS) == [("sent", "k0-1", "7:5", None)]


def test_the_end_of_a_transaction_may_be_asked_for_elsewhere() -> None:
    """Its name is the broker's: over another connection, and again where the answer to the first
    did not come.
    """
    for reached in (False, True):
        one, other = Talk(), Talk()
        other.ledger = one.ledger
        one.send(value("k0-2"), transaction=3)
        assert one.tell(Command.END_TXN, {1: 6, 2: 3, 3: 1, 4: 0}, reached=reached)
        assert other.tell(Command.END_TXN, {1: 7, 2: 3, 3: 1, 4: 0}) == [
            ("ending", "k0-2", "7:4", None)
        ]
        assert other.answer(Command.END_TXN_RESPONSE, {1: 7, 2: 3, 3: 1}) == [
            ("ending", "k0-2", "7:4", "taken")
        ]


def test_an_acknowledgement_is_about_what_was_given() -> None:
    """One, several, or all up to one; and its answer about what it was about."""
    talk = Talk()
    for entry in range(5):
        assert talk.give(entry, value(f"k0-{entry}"), again=entry) == [
            ("fetched", f"k0-{entry}", None, None)
        ]
    assert talk.ack(place(3)) == [("acknowledged", "k0-3", "7:4", None)]
    assert talk.ack(place(1), kind=1, f8=9) == [
        ("acknowledged", f"k0-{n}", "7:5", None) for n in (0, 1)
    ]
    assert len(talk.last.answers) == 2
    assert talk.answer(Command.ACK_RESPONSE, {1: 5, 6: 9}) == [
        ("acknowledged", f"k0-{n}", "7:5", "taken") for n in (0, 1)
    ]
    assert talk.ack(place(2), place(4), f8=10) == [
        ("acknowledged", f"k0-{n}", "7:6", None) for n in (2, 4)
    ]
    assert talk.answer(Command.ACK_RESPONSE, {1: 5, 6: 10, 4: 23}) == [
        ("acknowledged", f"k0-{n}", "7:6", "refused") for n in (2, 4)
    ]
    assert talk.seen.error == "TransactionConflict"
    assert talk.ack(place(2)) == []


def test_of_a_batch_some_may_be_acknowledged() -> None:
    """Those that are not in the set; the others wait."""
    talk = Talk()
    talk.give(0, batch("k0-1", "k0-2", "k0-3"), f11=3)
    assert talk.ack(place(0, 0b110)) == [("acknowledged", "k0-1", "7:4", None)]
    assert [each[1] for each in talk.ack(place(0, 0b100), reached=False)] == ["k0-2"]
    assert [each[1] for each in talk.ack(place(0, 0b100))] == ["k0-2"]
    assert [each[1] for each in talk.ack(place(0))] == ["k0-3"]
    assert talk.ack(place(0)) == []


def test_one_acknowledgement_may_name_a_batch_twice() -> None:
    talk = Talk()
    talk.give(0, batch("k0-1", "k0-2", "k0-3"), f11=3)
    assert [each[1] for each in talk.ack(place(0, 0b110), place(0, 0b101))] == ["k0-1", "k0-2"]
    assert [each[1] for each in talk.ack(place(0))] == ["k0-3"]


def test_of_a_batch_that_comes_again_some_are_acknowledged_already() -> None:
    """The broker says which are not; a client passes over the others."""
    talk = Talk()
    message = frames.message({1: "p", 2: 0, 3: 1, 11: 3}, batch("k0-1", "k0-2", "k0-3"))
    given = talk.answer(Command.MESSAGE, {1: 5, 2: place(0), 3: 1, 4: [0b110]}, message)
    assert given == [("fetched", "k0-2", None, None), ("fetched", "k0-3", None, None)]
    assert talk.seen.subject.records == {"k0-2", "k0-3"}
    assert [each[1] for each in talk.ack(place(0, 0b100))] == ["k0-2"]
    assert [each[1] for each in talk.ack(place(0))] == ["k0-3"]


@pytest.mark.parametrize("kind", [0, 1])
def test_an_acknowledgement_need_not_name_the_partition(kind: int) -> None:
    """A message names it, and the Java client's acknowledgement of several at once does not."""
    talk = Talk()
    message = frames.message({1: "p", 2: 0, 3: 1}, value("k0-1"))
    talk.answer(Command.MESSAGE, {1: 5, 2: made({1: 4, 2: 0, 3: 2})}, message)
    assert [each[1] for each in talk.ack(place(0), kind=kind)] == ["k0-1"]


def test_what_a_consumer_cannot_read_it_discards() -> None:
    talk = Talk()
    talk.tells = ("record", "how")
    talk.give(0, value("k0-1"))
    assert talk.ack(place(0), f4=1) == [("acknowledged", "k0-1", "discard")]
    assert talk.last.facts["discards"] is True


@pytest.mark.parametrize("by", [TO, FROM])
def test_a_consumer_that_is_made_again_has_nothing_of_the_one_before(by: Any) -> None:
    """Of its number: an acknowledgement of all, or a wish for all again, is about what it was given
    itself.
    """
    asked: tuple[dict[str, Any] | None, ...] = ({"kind": 1}, None)
    for last in asked:
        talk, whole = Talk(), value("k0-2") * 3
        talk.give(0, value("k0-0"))
        talk.give(7, whole[:20], f26="u", f27=2, f29=0)
        (talk.tell if by is TO else talk.answer)(Command.CLOSE_CONSUMER, {1: 5, 2: 7})
        assert talk.ack(place(0)) == []
        talk.tell(Command.SUBSCRIBE, {1: TOPIC, 2: "s", 3: 1, 4: 5, 5: 8})
        assert talk.give(8, whole[20:], f26="u", f27=2, f29=1) == []
        talk.give(1, value("k0-1"))
        lines = talk.tell(Command.REDELIVER, {1: 5}) if last is None else talk.ack(place(9), **last)
        assert [each[1] for each in lines] == ["k0-1"]


def test_who_does_not_want_a_message_says_so() -> None:
    talk = Talk()
    for entry in range(2):
        talk.give(entry, value(f"k0-{entry}"))
    lines = talk.tell(Command.REDELIVER, {1: 5, 2: [place(1)]})
    assert lines == [("acknowledged", "k0-1", "7:4", None)]
    assert talk.last.answers == ()
    assert [each[1] for each in talk.tell(Command.REDELIVER, {1: 5})] == ["k0-0"]


@pytest.mark.parametrize("command", [Command.ACK, Command.REDELIVER])
def test_what_names_no_message_of_the_broker_has_no_place(command: Command) -> None:
    """A client may name the message before the first one; its line is no damage."""
    talk = Talk()
    talk.tell(command, {1: 5, 2 if command is Command.REDELIVER else 3: [place(-1, ledger=-1)]})
    assert talk.last.facts["places"] == [None]


def test_what_did_not_arrive_was_not_said() -> None:
    talk = Talk()
    message = frames.message({1: "p", 2: 1, 3: 1}, value("k0-1"))
    assert talk.tell(Command.SEND, {1: 0, 2: 1}, message, reached=False) == [
        ("unsent", "k0-1", "7:4", None)
    ]
    assert talk.give(0, value("k0-1"), reached=False) == [("fetched", "k0-1", None, None)]


def test_an_end_is_about_all_of_its_transaction() -> None:
    """Sent and acknowledged in it; its answer likewise."""
    talk = Talk()
    talk.give(0, value("k0-1"))
    talk.send(value("k0-2"), transaction=3)
    assert talk.last.transaction == "1:3"
    talk.ack(place(0), f6=3, f7=1, f8=5)
    talk.send(value("k0-3"), sequence=2, transaction=4)
    assert talk.tell(Command.END_TXN, {1: 6, 2: 3, 3: 1, 4: 0}) == [
        ("ending", "k0-1", "7:7", None),
        ("ending", "k0-2", "7:7", None),
    ]
    assert talk.last.facts["commit"] is True
    assert talk.answer(Command.END_TXN_RESPONSE, {1: 6, 2: 3, 3: 1})[0] == (
        "ending",
        "k0-1",
        "7:7",
        "taken",
    )
    assert talk.seen.subject.transactional_ids == {"1:3"}


@pytest.mark.parametrize(
    ("hello", "owner"),
    [
        ({1: "Pulsar-Java-v4.2.4-key.consumer.1"}, "key.consumer.1"),
        ({1: "Pulsar-CPP-v4.0.0"}, "q"),
        ({1: "x", 5: "basic", 3: "key.consumer.1:secret"}, "key.consumer.1"),
        ({1: "x", 5: "token", 3: "abc"}, "q"),
    ],
)
def test_a_client_is_who_it_says_or_what_it_asks_for(hello: dict[int, Any], owner: str) -> None:
    """A user, a description, or else the topic."""
    session = Pulsar().session(1, limit=1 << 12)
    look_up: dict[int, Any] = {1: TOPIC, 2: 1}
    for command, fields in ((Command.CONNECT, hello), (Command.LOOKUP, look_up)):
        session.feed(TO, frames.command(NUMBERS[command], fields))
        session.taken(TO, 1)
    assert session.owner() == owner


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01",
        b"GET / HTTP/1.1\r\n",
        struct.pack(">II", 9, 0),
        struct.pack(">II", 3, 1),
        struct.pack(">II", 6, 3),
        frames.command(99, {}),
        frames.command(NUMBERS[Command.SEND_RECEIPT], {}),
        struct.pack(">II", 9, 5) + b"\xff" * 5,
        frames.command(NUMBERS[Command.SEND], {1: 0}, b"\x0e"),
        frames.command(NUMBERS[Command.SEND], {1: 0}, frames.INT.pack(9)),
    ],
)
def test_other_bytes_are_opaque(data: bytes) -> None:
    """Such as TLS, HTTP, sizes that cannot be, and what only a broker says."""
    assert isinstance(Pulsar().session(1, limit=1 << 12).feed(TO, data), Opaque)


def test_a_frame_says_how_much_of_it_is_needed() -> None:
    data = frames.command(
        NUMBERS[Command.SEND], {1: 0, 2: 1}, frames.message({1: "p", 2: 1, 3: 1}, bytes(100))
    )
    for size in range(len(data) - 100):
        fed = Pulsar().session(1, limit=1 << 12).feed(TO, data[:size])
        assert isinstance(fed, Need)
        assert size < fed.bytes <= len(data) - 100
    assert isinstance(Pulsar().session(1, limit=1 << 12).feed(TO, data[:-100]), Frame)


def test_nothing_is_moved_and_some_may_vanish() -> None:
    """What nobody numbers; a receipt is missed."""
    talk = Talk()
    talk.send(value("k0-1"))
    assert isinstance(talk.session.move(talk.last, b""), Immovable)
    assert not any(step.movable for step in STEPS.values())
    Rule("r", Action.DROP, Command.MESSAGE, FROM, after=After.GO_ON)
    with pytest.raises(RuleError):
        Rule("r", Action.DROP, Command.SEND_RECEIPT, FROM, after=After.GO_ON)


@pytest.mark.parametrize(
    "data", [b"\x08", b"\x0a\x05a", b"\x0b", b"\x02\x00", b"\x08" + b"\xff" * 11]
)
def test_what_is_no_message_is_told(data: bytes) -> None:
    """Cut off, of an encoding that is gone, without a number, or without an end."""
    with pytest.raises(MalformedError):
        Message(data)


def test_fields_of_another_kind_are_told() -> None:
    message = Message(made({1: 5, 2: "x"}))
    with pytest.raises(MalformedError):
        message.number(2)
    with pytest.raises(MalformedError):
        message.raw(1)
    assert Message(b"\x0d\x01\x00\x00\x00\x11" + bytes(8)).raws(1) == [b"\x01\x00\x00\x00"]
