"""What the wire makes of RESP: which record each command and answer is about, by whom it is
answered, and what a transaction does.
"""

from __future__ import annotations

import json

import pytest
from lostack_redis.resp import Refusal, command
from lostack_redis.session import Resp, RespFrame, RespSession
from test_redis_resp import made

from harness.model.identity import Identity
from harness.wire.protocol import Frame, Immovable, Need, Opaque, UnableError
from harness.wire.rules import Direction
from tests.protocols.conversation import FROM, TO, Conversation, HistoryLines, value

RECORD, OTHER = "k0-1", "k0-2"


class Talk(Conversation):
    """A connection of a client with a name."""

    def __init__(self, identity: Identity | None = None, name: str = "key.consumer.1") -> None:
        super().__init__(Resp(), identity)
        self.tell("CLIENT", "SETNAME", name)
        self.answer(b"OK")

    def tell(self, *words: str | bytes, reached: bool = True) -> HistoryLines:
        """Let the client say a command; return the lines of it."""
        return self.say(command(*words), reached=reached)

    def answer(self, told: object, *, version: int = 2, reached: bool = True) -> HistoryLines:
        """Let the server say something."""
        return self.hear(made(told, version=version), reached=reached)  # type: ignore[arg-type]

    def records(self) -> set[str]:
        """Return what the last frame was about."""
        return set(self.seen.subject.records)

    def given(self, *entries: tuple[str, bytes]) -> HistoryLines:
        """Let the group be given entries."""
        self.tell("XREADGROUP", "GROUP", "g", "c", "COUNT", "1", "STREAMS", "q", ">")
        told = [[name.encode(), [b"value", body]] for name, body in entries]
        return self.answer([[b"q", told]])


def test_an_entry_is_sent_and_answered() -> None:
    talk = Talk()
    sent = talk.tell("XADD", "q", "MAXLEN", "~", "9", "*", "value", value(RECORD))
    assert sent == [("sent", RECORD, "7:2", None)]
    assert talk.answer(b"1-0") == [("produce_answer", RECORD, "7:2", None)]
    assert talk.last.answers == (2,)
    assert (talk.seen.error, talk.records()) == (0, {RECORD})


def test_what_did_not_arrive_was_not_sent() -> None:
    assert Talk().tell("XADD", "q", "*", "value", value(RECORD), reached=False) == [
        ("unsent", RECORD, "7:2", None)
    ]


def test_a_refusal_is_told_with_its_name() -> None:
    talk = Talk()
    talk.tell("XADD", "q", "*", "value", value(RECORD))
    talk.tells = ("record", "error")
    assert talk.answer(Refusal(b"OOM no memory")) == [("produce_answer", RECORD, "OOM")]
    assert talk.seen.error == "OOM"


@pytest.mark.parametrize("version", [2, 3])
def test_entries_are_given_and_acknowledged(version: int) -> None:
    """By a map or by a list of pairs; the acknowledgement names ids only."""
    talk = Talk()
    talk.tells = ("record", "topic", "redelivered", "outcome")
    talk.tell("XREADGROUP", "GROUP", "g", "c", "STREAMS", "q", ">")
    entries = [[b"1-0", [b"value", value(RECORD)]], [b"2-0", [b"value", value(OTHER)]]]
    told = [b"q", entries] if version == 3 else [[b"q", entries]]
    assert talk.answer(told, version=version) == [
        ("fetched", RECORD, "q", False, None),
        ("fetched", OTHER, "q", False, None),
    ]
    assert talk.tell("XACK", "q", "g", "1-0") == [("acknowledged", RECORD, None, None, None)]
    assert talk.answer(1) == [("acknowledged", RECORD, None, None, "taken")]


def test_what_is_claimed_was_given_before() -> None:
    talk = Talk()
    talk.tells = ("record", "redelivered")
    entries = [[b"1-0", [b"value", value(RECORD)]]]
    talk.tell("XAUTOCLAIM", "q", "g", "c", "0", "0-0")
    assert talk.answer([b"0-0", entries, []]) == [("fetched", RECORD, True)]
    talk.tell("XCLAIM", "q", "g", "c", "0", "1-0")
    assert talk.answer(entries) == [("fetched", RECORD, True)]
    talk.tell("XREADGROUP", "GROUP", "g", "c", "STREAMS", "q", "0")
    assert talk.answer([[b"q", entries]]) == [("fetched", RECORD, True)]


def test_another_connection_may_acknowledge() -> None:
    talk, other = Talk(), Talk()
    other.ledger = talk.ledger
    talk.given(("1-0", value(RECORD)))
    assert other.tell("XACK", "q", "g", "1-0")[0][:2] == ("acknowledged", RECORD)


def test_an_answer_to_nothing_new_is_about_nothing() -> None:
    talk = Talk()
    talk.tell("XREADGROUP", "GROUP", "g", "c", "BLOCK", "9", "STREAMS", "q", ">")
    assert talk.answer(None) == []
    assert talk.records() == set()


def test_a_script_sends_each_record_once() -> None:
    talk = Talk()
    talk.tells = ("record", "attempt")
    fields = ("value", value(RECORD), "lostack-attempt", "p-1.0.3")
    assert talk.tell("EVAL", "return 1", "2", "q", "once", *fields) == [("sent", RECORD, "p-1.0.3")]
    assert talk.answer(None) == [("produce_answer", RECORD, None)]
    assert talk.tell("EVALSHA", "abc", "1", "q", value(OTHER)) == [("sent", OTHER, None)]


def test_commands_of_a_transaction_do_nothing_before_its_end() -> None:
    """Then all of them do; each answer QUEUED says nothing."""
    talk = Talk()
    talk.given(("1-0", value(RECORD)))
    assert talk.tell("MULTI") == []
    talk.answer(b"OK")
    assert talk.tell("XADD", "out", "*", "value", value(RECORD)) == []
    assert talk.records() == {RECORD}
    assert talk.answer(b"QUEUED") == []
    assert talk.tell("XACK", "q", "g", "1-0") == []
    assert talk.answer(b"QUEUED") == []
    assert [line[:2] for line in talk.tell("EXEC")] == [
        ("sent", RECORD),
        ("acknowledged", RECORD),
        ("ending", RECORD),
    ]
    assert talk.records() == {RECORD}
    assert [(kind, outcome) for kind, _, _, outcome in talk.answer([b"2-0", 1])] == [
        ("produce_answer", None),
        ("acknowledged", "taken"),
        ("ending", "taken"),
    ]


def test_a_transaction_that_was_not_carried_out_is_refused() -> None:
    for told in (None, Refusal(b"EXECABORT no")):
        talk = Talk()
        talk.tell("MULTI")
        talk.answer(b"OK")
        talk.tell("XADD", "q", "*", "value", value(RECORD))
        talk.answer(b"QUEUED")
        talk.tell("EXEC")
        lines = talk.answer(told)
        assert talk.seen.error in {"aborted", "EXECABORT"}
        assert [(kind, outcome) for kind, _, _, outcome in lines] == [
            ("produce_answer", None),
            ("ending", "refused"),
        ]


def test_what_was_discarded_was_never_sent() -> None:
    talk = Talk()
    talk.tell("MULTI")
    talk.answer(b"OK")
    talk.tell("XADD", "q", "*", "value", value(RECORD))
    talk.answer(b"QUEUED")
    assert [line[0] for line in talk.tell("DISCARD")] == ["ending"]


# --- Kombu ----------------------------------------------------------------------------------------


def kombu(record: str, tag: str) -> bytes:
    """Return a message as Kombu puts it into a list."""
    properties = {"delivery_tag": tag, "body_encoding": "utf-8"}
    return json.dumps({"body": record, "headers": {"id": tag}, "properties": properties}).encode()


def orders() -> Talk:
    """A conversation about orders whose ids stand in the body."""
    return Talk(Identity(r"k0-\d+"), name="")


def test_a_task_is_sent_taken_kept_and_acknowledged() -> None:
    """As Celery does it: what it keeps until then is in a hash, by its tag."""
    talk, told = orders(), kombu(RECORD, "t-1")
    assert talk.tell("LPUSH", "orders", told)[0][:2] == ("sent", RECORD)
    assert talk.answer(1)[0][:2] == ("produce_answer", RECORD)
    talk.tell("BRPOP", "orders", "orders\x06\x163", "1")
    assert talk.answer([b"orders", told])[0][:2] == ("fetched", RECORD)
    for words in (("ZADD", "unacked_index", "1", "t-1"), ("HSET", "unacked", "t-1", told)):
        talk.tell("MULTI")
        talk.answer(b"OK")
        assert talk.tell(*words) == []
        talk.answer(b"QUEUED")
        assert talk.tell("EXEC") == []
        talk.answer([1])
    talk.tell("MULTI")
    talk.answer(b"OK")
    talk.tell("HDEL", "unacked", "t-1")
    assert talk.records() == {RECORD}
    talk.answer(b"QUEUED")
    assert [line[:2] for line in talk.tell("EXEC")] == [
        ("acknowledged", RECORD),
        ("ending", RECORD),
    ]


def test_what_kombu_gives_back_is_neither_acknowledged_nor_sent() -> None:
    talk, told = orders(), kombu(RECORD, "t-1")
    talk.tell("BRPOP", "orders", "1")
    talk.answer([b"orders", told])
    talk.tell("MULTI")
    talk.answer(b"OK")
    for words in (("HDEL", "unacked", "t-1"), ("RPUSH", "orders", told)):
        talk.tell(*words)
        talk.answer(b"QUEUED")
    assert talk.tell("EXEC") == []


def test_what_is_moved_to_another_list_is_acknowledged_by_its_value() -> None:
    talk = orders()
    talk.tell("LMOVE", "orders", "mine", "RIGHT", "LEFT")
    assert talk.answer(b"k0-1")[0][:2] == ("fetched", RECORD)
    assert talk.tell("LREM", "mine", "1", "k0-1")[0][:2] == ("acknowledged", RECORD)


# --- connections ----------------------------------------------------------------------------------


def test_an_answer_that_nobody_asked_for_answers_nothing() -> None:
    """Of version 3 by its type, of version 2 because its client listens to channels."""
    talk = Talk()
    talk.tell("XADD", "q", "*", "value", value(RECORD))
    assert talk.hear(b">2\r\n+invalidate\r\n*0\r\n") == []
    assert (talk.last.step, talk.last.answers) == ("pushed", ())
    assert talk.answer(b"1-0")[0][:2] == ("produce_answer", RECORD)
    talk.tell("SUBSCRIBE", "a", "b")
    talk.answer([b"subscribe", b"a", 1])
    assert talk.last.step == "SUBSCRIBE"
    for pushed in ([b"subscribe", b"b", 2], [b"message", b"a", b"hello"]):
        talk.answer(pushed)
        assert talk.last.step == "pushed"


def test_a_client_is_known_by_its_name_or_its_first_key() -> None:
    session = RespSession(1, 1 << 12)
    assert session.owner() is None
    for said, owner in (
        (command("PING"), None),
        (command("XADD", "key.in", "*", "a", "b"), "key.in"),
        (command("HELLO", "3", "SETNAME", "key.producer.0"), "key.producer.0"),
        (command("XADD", "other", "*", "a", "b"), "key.producer.0"),
    ):
        frame = session.feed(TO, said)
        assert isinstance(frame, RespFrame)
        session.sending(frame)
        session.taken(TO, frame.size)
        assert session.owner() == owner


@pytest.mark.parametrize(
    "said", [b"PING\r\n", b":1\r\n", command("MONITOR"), command("PSYNC", "?", "-1")]
)
def test_what_is_no_clients_conversation_is_not_read(said: bytes) -> None:
    assert isinstance(RespSession(1, 1 << 12).feed(TO, said), Opaque)


def test_a_large_command_passes_unread() -> None:
    """Its size is known; what it is about is not, and that voids its cell."""
    session = RespSession(1, 64)
    head = b"*3\r\n$5\r\nLPUSH\r\n$1\r\nq\r\n$1000000\r\n"
    frame = session.feed(TO, head + b"x")
    assert isinstance(frame, Frame)
    assert (frame.step, frame.size) == ("LPUSH", len(head) + 1_000_002)
    insight = session.read(frame, None, Resp().ledger("key", None))  # type: ignore[arg-type]
    assert insight.voids
    assert isinstance(RespSession(1, 64).feed(TO, b"*2\r\n$1000\r\nx"), Opaque), (
        "where it ends is not known"
    )


def test_split_at_every_byte_it_is_the_same() -> None:
    """More is asked for until the frame is whole, and never more than it has."""
    said = command("XADD", "q", "*", "value", value(RECORD))
    for end in range(1, len(said)):
        fed = RespSession(1, 1 << 12).feed(TO, said[:end])
        assert isinstance(fed, Need)
        assert end < fed.bytes <= len(said)


def test_nothing_is_refused_or_moved() -> None:
    session = RespSession(1, 1 << 12)
    frame = session.feed(Direction.REQUEST, command("PING"))
    assert isinstance(session.move(frame, b""), Immovable)  # type: ignore[arg-type]
    with pytest.raises(UnableError, match="lostack refuses no PING"):
        session.refuse(frame, b"", "OOM")  # type: ignore[arg-type]
    assert session.silence_s(FROM) is None
