"""What STOMP's frames are about: what is sent, given, acknowledged and committed, in
each version.
"""

from __future__ import annotations

import pytest

from harness.model.identity import Identity
from harness.protocols.kafka.steps import Api
from harness.protocols.stomp.frames import MOST_HEADER_BYTES, NotAFrameError, head, made
from harness.protocols.stomp.session import Stomp, StompFrame
from harness.protocols.stomp.steps import Command
from harness.wire.protocol import Frame, Immovable, Move, Need, Opaque, UnableError, Unframed
from harness.wire.rules import Action, After, Rule, RuleError
from tests.protocols.conversation import FROM, TO, Conversation, HistoryLines, value


class Talk(Conversation):
    """A session that has said hello, and what it makes of frames."""

    def __init__(self, version: str = "1.2", identity: Identity | None = None) -> None:
        self.protocol = Stomp()
        super().__init__(self.protocol, identity)
        self.tell("CONNECT", {"client-id": "key.consumer.1", "accept-version": "1.0,1.1,1.2"})
        self.answer("CONNECTED", {"version": version} if version != "1.0" else {})

    def tell(
        self, command: str, headers: dict[str, str], body: bytes = b"", *, reached: bool = True
    ) -> HistoryLines:
        """Let the client say a frame; return the lines of it."""
        return self.say(made(command, headers, body), reached=reached)

    def answer(
        self, command: str, headers: dict[str, str], body: bytes = b"", *, reached: bool = True
    ) -> HistoryLines:
        """Let the server say one."""
        return self.hear(made(command, headers, body), reached=reached)

    def given(self, *records: str, subscription: str = "s") -> None:
        """Let messages be delivered, each called after its record."""
        for record in records:
            names = {"message-id": f"m-{record}", "ack": f"a-{record}"}
            self.answer(
                "MESSAGE",
                {"subscription": subscription, "destination": "/queue/q", **names},
                value(record),
            )


def test_a_receipt_is_about_what_asked_for_it() -> None:
    """Its record is the one that was sent, and its number the one of that frame."""
    talk = Talk()
    sent = talk.tell("SEND", {"destination": "/queue/q", "receipt": "r"}, value("k0-1"))
    assert sent == [("sent", "k0-1", "7:2", None)]
    assert talk.answer("RECEIPT", {"receipt-id": "r"}) == [("produce_answer", "k0-1", "7:2", None)]
    assert talk.last.answers == ("r",)
    assert talk.last.facts["corr"] == 2


def test_an_error_refuses_what_asked_for_a_receipt() -> None:
    """It says why; where it names none, it is about nothing."""
    talk = Talk()
    talk.tell("SEND", {"destination": "/queue/q", "receipt": "r"}, value("k0-1"))
    assert talk.answer("ERROR", {"receipt-id": "r", "message": "no space"}) == [
        ("produce_answer", "k0-1", "7:2", None)
    ]
    assert talk.seen.error == "no space"
    assert talk.answer("ERROR", {"message": "you are too slow"}) == []
    assert talk.seen.error == "you are too slow"


def test_an_error_without_words_is_an_error() -> None:
    for headers in ({"message": ""}, {}):
        talk = Talk()
        talk.answer("ERROR", headers)
        assert talk.seen.error == "ERROR"


@pytest.mark.parametrize(
    ("mode", "records"), [("client", ["k0-1", "k0-2"]), ("client-individual", ["k0-2"])]
)
def test_an_ack_is_about_one_message_or_all_up_to_it(mode: str, records: list[str]) -> None:
    """As the subscription says; what was acknowledged is not acknowledged again."""
    talk = Talk()
    talk.tell("SUBSCRIBE", {"id": "s", "destination": "/queue/q", "ack": mode})
    talk.given("k0-1", "k0-2", "k0-3")
    assert [
        record for _, record, *_ in talk.tell("ACK", {"id": "a-k0-2"}, reached=False)
    ] == records
    assert [record for _, record, *_ in talk.tell("ACK", {"id": "a-k0-2"})] == records
    assert talk.last.answers == tuple(f"a-{record}" for record in records)
    assert talk.tell("ACK", {"id": "a-k0-2"}) == []
    left = ["k0-3"] if mode == "client" else ["k0-1", "k0-3"]
    assert [
        record for record in ("k0-1", "k0-3") if talk.tell("ACK", {"id": f"a-{record}"})
    ] == left


def test_what_acknowledges_itself_is_answered_by_nobody() -> None:
    """A message of such a subscription waits for nothing."""
    talk = Talk()
    talk.tell("SUBSCRIBE", {"id": "s", "destination": "/queue/q"})
    talk.given("k0-1")
    assert talk.last.id is None


@pytest.mark.parametrize(
    ("version", "headers"),
    [
        ("1.0", {"message-id": "m-k0-1"}),
        ("1.1", {"message-id": "m-k0-1", "subscription": "s"}),
        ("1.2", {"id": "a-k0-1"}),
    ],
)
def test_an_ack_names_its_message_as_its_version_does(
    version: str, headers: dict[str, str]
) -> None:
    talk = Talk(version)
    talk.tell("SUBSCRIBE", {"id": "s", "destination": "/queue/q", "ack": "client"})
    names = {"message-id": "m-k0-1"} | ({"ack": "a-k0-1"} if version == "1.2" else {})
    talk.answer("MESSAGE", {"subscription": "s", "destination": "/queue/q", **names}, value("k0-1"))
    assert talk.tell("ACK", headers) == [("acknowledged", "k0-1", "7:3", None)]


def test_before_1_2_an_ack_names_its_message_and_its_subscription() -> None:
    """Two subscriptions may have one message; and what a server says besides, for 1.2, names
    nothing.
    """
    talk = Talk("1.1")
    for subscription, record in (("s", "k0-1"), ("t", "k0-2")):
        talk.tell(
            "SUBSCRIBE", {"id": subscription, "destination": "/topic/q", "ack": "client-individual"}
        )
        names = {"subscription": subscription, "message-id": "m", "ack": "a"}
        talk.answer("MESSAGE", {"destination": "/topic/q", **names}, value(record))
    assert [each[1] for each in talk.tell("ACK", {"message-id": "m", "subscription": "t"})] == [
        "k0-2"
    ]
    assert talk.last.answers == ("t/m",)
    assert [each[1] for each in talk.tell("ACK", {"message-id": "m", "subscription": "s"})] == [
        "k0-1"
    ]


@pytest.mark.parametrize(
    "between", [("UNSUBSCRIBE",), ("UNSUBSCRIBE", "SUBSCRIBE"), ("SUBSCRIBE",)]
)
def test_what_a_subscription_was_given_ends_with_it(between: tuple[str, ...]) -> None:
    """One that is made by the same id acknowledges only what it was given itself, whatever
    transactions are aborted.
    """
    talk = Talk()
    subscribed = {"id": "s", "destination": "/queue/q", "ack": "client"}
    talk.tell("SUBSCRIBE", subscribed)
    talk.given("k0-0", "k0-1")
    talk.tell("ACK", {"id": "a-k0-0", "transaction": "t"})
    for command in between:
        talk.tell(command, subscribed)
    talk.tell("ABORT", {"transaction": "t"})
    assert talk.tell("ACK", {"id": "a-k0-1"}) == []
    talk.given("k0-2")
    assert [each[1] for each in talk.tell("ACK", {"id": "a-k0-2"})] == ["k0-2"]


def test_what_is_aborted_may_be_acknowledged_again() -> None:
    """In the order in which it was given; what is committed may not."""
    talk = Talk()
    talk.tell("SUBSCRIBE", {"id": "s", "destination": "/queue/q", "ack": "client"})
    talk.given("k0-1", "k0-2", "k0-3")
    talk.tell("ACK", {"id": "a-k0-2", "transaction": "t"})
    talk.tell("ABORT", {"transaction": "t"})
    assert [each[1] for each in talk.tell("ACK", {"id": "a-k0-1", "transaction": "u"})] == ["k0-1"]
    talk.tell("COMMIT", {"transaction": "u"})
    assert [each[1] for each in talk.tell("ACK", {"id": "a-k0-3"})] == ["k0-2", "k0-3"]


def test_the_end_of_a_transaction_is_about_all_that_was_in_it() -> None:
    """What was sent, and what was acknowledged; and about nothing of another one."""
    talk = Talk()
    talk.tell("SUBSCRIBE", {"id": "s", "destination": "/queue/q", "ack": "client-individual"})
    talk.given("k0-1", "k0-2")
    for transaction in ("t", "u"):
        talk.tell("BEGIN", {"transaction": transaction})
    talk.tell("SEND", {"destination": "/queue/out", "transaction": "t"}, value("k0-1"))
    talk.tell("ACK", {"id": "a-k0-1", "transaction": "t"})
    talk.tell("ACK", {"id": "a-k0-2", "transaction": "u"})
    talk.tell(
        "SEND", {"destination": "/queue/out", "transaction": "t"}, value("k0-3"), reached=False
    )
    assert talk.tell("COMMIT", {"transaction": "t", "receipt": "c"}) == [
        ("ending", "k0-1", "7:9", None)
    ]
    assert talk.seen.subject.topics == {"/queue/q", "/queue/out"}
    assert talk.seen.subject.transactional_ids == {"t"}
    assert talk.answer("RECEIPT", {"receipt-id": "c"}) == [("ending", "k0-1", "7:9", "taken")]
    assert talk.tell("ABORT", {"transaction": "u"}) == [("ending", "k0-2", "7:10", None)]


def test_a_foreign_record_is_found_where_its_identity_says() -> None:
    talk = Talk(identity=Identity(where="value", json="no"))
    assert talk.tell("SEND", {"destination": "/queue/q"}, b'{"no": "17"}') == [
        ("sent", "17", "7:2", None)
    ]


@pytest.mark.parametrize(
    ("data", "is_"),
    [
        (b"\n", Unframed(1)),
        (b"\r\n", Unframed(2)),
        (b"\r", Need(2)),
        (b"\rx", Opaque("a carriage return alone")),
        (b"", Need(1)),
        (b"SEN", Need(4)),
        (b"SEND\r\na:b\r\n\r", Need(13)),
    ],
)
def test_what_is_between_frames_or_not_yet_one(data: bytes, is_: object) -> None:
    assert Stomp().session(1, limit=1 << 12).feed(TO, data) == is_


@pytest.mark.parametrize(
    "data",
    [
        b"SEND\r\ndestination:/queue/q\r\n\r\nbody\0rest",
        b"SEND\ncontent-length:6\n\nbo\0dy!\0",
        b"SEND\na:1\na:2\n\n\0",
    ],
)
def test_a_body_ends_where_it_says_or_at_a_null_byte(data: bytes) -> None:
    """With lines that end either way; of a repeated header the first counts."""
    frame = Stomp().session(1, limit=1 << 12).feed(TO, data)
    assert isinstance(frame, StompFrame)
    assert data[frame.size - 1 : frame.size] == b"\0"
    assert data[slice(*frame.body)] in (b"body", b"bo\0dy!", b"")
    assert frame.headers.get("a", "1") == "1"


@pytest.mark.parametrize(
    "data",
    [
        b"MESSAGE\n\n\0",
        b"GET / HTTP/1.1\r\n\r\n",
        b"SEND\nno colon\n\n\0",
        b"SEND\ncontent-length:-1\n\n\0",
        b"SEND\ncontent-length:9999999999\n\n\0",
        b"SEND\na:" + b"x" * MOST_HEADER_BYTES,
        b"\0" * 20,
        b"send\n\n\0",
        b"SEND\n\n" + b"x" * 5000,
        b"SEND\na:b\\t\n\n\0",
        b"SEND\na:b\\\n\n\0",
    ],
)
def test_what_cannot_be_is_opaque(data: bytes) -> None:
    """Another direction's command, another protocol, no end of headers or of a body above the
    limit, escapes that are none.
    """
    assert isinstance(Stomp().session(1, limit=1 << 12).feed(TO, data), Opaque)


def test_headers_are_escaped_behind_the_hello_only() -> None:
    """And as they were when they are made again."""
    text = made("SEND", {"a:b": "c\nd\\e\r"})
    assert head(text, escaped=True).headers == {"a:b": "c\nd\\e\r"}  # type: ignore[union-attr]
    assert made("CONNECT", {"passcode": "a\\nb"}) == b"CONNECT\npasscode:a\\nb\n\n\0"
    with pytest.raises(NotAFrameError):
        head(made("CONNECT", {"a": "b\nc"}), escaped=True)


def test_a_client_without_a_name_is_known_by_its_first_destination() -> None:
    session = Stomp().session(1, limit=1 << 12)
    for data in (
        made("CONNECT", {}),
        made("SUBSCRIBE", {"destination": "/queue/c0ffee.in", "id": "1"}),
    ):
        fed = session.feed(TO, data)
        assert isinstance(fed, Frame)
        session.taken(TO, fed.size)
    assert session.owner() == "c0ffee.in"


def test_what_belongs_to_its_connection_is_not_moved() -> None:
    """A SEND may be, behind the hello of the same client; one in a transaction, and an ACK, may
    not.
    """
    talk = Talk()
    data = made("SEND", {"destination": "/queue/q", "receipt": "r"})
    talk.tell("SEND", {"destination": "/queue/q", "receipt": "r"})
    move = talk.session.move(talk.last, data)
    assert isinstance(move, Move)
    assert move.talk[0].make({}).startswith(b"CONNECT\nclient-id:key.consumer.1\n")  # type: ignore[union-attr]
    talk.tell("SEND", {"destination": "/queue/q", "transaction": "t"})
    assert isinstance(talk.session.move(talk.last, data), Immovable)
    talk.tell("ACK", {"id": "a"})
    assert isinstance(talk.session.move(talk.last, data), Immovable)
    with pytest.raises(UnableError, match="no receipt"):
        talk.session.refuse(talk.last, data, "refused")


def test_rules_are_checked_by_what_a_command_has() -> None:
    """A transaction's BEGIN has no record."""
    Rule("r", Action.HOLD, Command.SEND, record="k0-1", topic="/queue/q")
    with pytest.raises(RuleError, match="BEGIN request cannot be selected by record"):
        Rule("r", Action.HOLD, Command.BEGIN, record="k0-1")


def test_a_frame_may_vanish_alone_where_nothing_numbers_frames() -> None:
    """A rule may say so of STOMP, and not of Kafka, whose clients count on each answer."""
    Rule("r", Action.DROP, Command.MESSAGE, FROM, after=After.GO_ON)
    with pytest.raises(
        RuleError, match="no Heartbeat response can vanish while its connection lives on"
    ):
        Rule("r", Action.DROP, Api.HEARTBEAT, FROM, after=After.GO_ON)
