"""What the bytes of NATS mean: lines and messages, cut anywhere, and what they are about."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from lostack_nats import frames
from lostack_nats.session import Nats, NatsFrame, NatsSession
from lostack_nats.steps import ACTS, NO_RESPONDERS, STEPS, Op

from harness.model import kinds
from harness.model.record import Record
from harness.wire.protocol import Frame, Need, Opaque, UnableError, Unframed
from harness.wire.rules import Direction
from tests.events import fields_of

if TYPE_CHECKING:
    from collections.abc import Iterable

TO, FROM = Direction.REQUEST, Direction.RESPONSE
LEDGER = Nats().ledger("key", None)
VALUE = Record("k0-1", "k0", 1, "x").encode("key")
HELLO = b'CONNECT {"name":"key.producer.1","verbose":false}\r\n'
INBOX = "_INBOX.a.b"
ACK = "$JS.ACK.key_in.workers.2.17.30.1700000000.0"


def pub(subject: str, body: bytes, reply: str = "", headers: bytes = b"") -> bytes:
    """Return a publish."""
    verb = "HPUB" if headers else "PUB"
    sizes = f"{len(headers)} {len(headers + body)}" if headers else f"{len(body)}"
    words = " ".join(filter(None, (verb, subject, reply, sizes)))
    return words.encode() + b"\r\n" + headers + body + b"\r\n"


def msg(subject: str, body: bytes, reply: str = "", headers: bytes = b"") -> bytes:
    """Return a message."""
    return pub(f"{subject} 1", body, reply, headers).replace(b"PUB", b"MSG", 1)


def passed(session: NatsSession, way: Direction, data: bytes) -> tuple[NatsFrame, list[Any]]:
    """Let a frame pass; return it and its lines."""
    frame = session.feed(way, data)
    assert isinstance(frame, NatsFrame), frame
    assert frame.size == len(data)
    session.read(frame, data, LEDGER)
    session.sending(frame)
    lines = [
        (event.event, fields_of(event)) for event in session.settled(frame, LEDGER, reached=True)
    ]
    session.taken(way, frame.size)
    return frame, lines


def opened() -> NatsSession:
    """Return a session whose client has said its name."""
    session = Nats().session(1, limit=1 << 20)
    passed(session, FROM, b'INFO {"headers":true}\r\n')
    passed(session, TO, HELLO)
    passed(session, TO, b"SUB _INBOX.a.* 1\r\n")
    return session


def test_a_client_is_known_by_its_name() -> None:
    """Which it gives with CONNECT."""
    assert opened().owner() == "key.producer.1"


def test_a_client_without_a_name_is_known_by_what_it_publishes_to() -> None:
    """And before that as one that has come."""
    session = Nats().session(1, limit=1 << 20)
    passed(session, TO, b'CONNECT {"verbose":false}\r\n')
    assert session.owner() == "unnamed"
    passed(session, TO, pub("key_in", VALUE))
    assert session.owner() == "key_in"


def test_a_publish_and_its_answer() -> None:
    """The answer names the place; of a duplicate it names the first one's, which is no place."""
    session = opened()
    sent, lines = passed(session, TO, pub("key_in", VALUE, INBOX))
    assert sent.step == Op.PUBLISH
    assert [kind for kind, _ in lines] == ["sent"]
    told = b'{"stream":"key_in","seq":17}'
    answer, [(kind, fields)] = passed(session, FROM, msg(INBOX, told))
    assert (answer.step, kind, fields["place"]) == (Op.PUBACK, kinds.PRODUCE_ANSWER, "key_in:17")
    passed(session, TO, pub("key_in", VALUE, "_INBOX.a.c"))
    again = b'{"stream":"key_in","seq":17,"duplicate":true}'
    answer, [(_, fields)] = passed(session, FROM, msg("_INBOX.a.c", again))
    assert fields["place"] is None
    assert answer.facts["duplicate"] is True


@pytest.mark.parametrize(
    ("body", "headers", "error"),
    [
        (b"", b"NATS/1.0 503\r\n\r\n", NO_RESPONDERS),
        (json.dumps({"error": {"code": 400, "description": "too old"}}).encode(), b"", "too old"),
    ],
)
def test_a_publish_that_is_refused(body: bytes, headers: bytes, error: str) -> None:
    """By who listens, or because nobody does. A refusal names no place, and is no receipt."""
    session = opened()
    passed(session, TO, pub("key_in", VALUE, INBOX))
    data = msg(INBOX, body, headers=headers)
    frame = session.feed(FROM, data)
    assert isinstance(frame, NatsFrame)
    assert session.read(frame, data, LEDGER).error == error
    session.sending(frame)
    [told] = session.settled(frame, LEDGER, reached=True)
    assert (told.event, fields_of(told)["error"]) == (kinds.PRODUCE_ANSWER, error)


def test_a_delivery_and_its_acknowledgement() -> None:
    """The stream is what a delivery is from; its number of deliveries says whether it comes again.
    A double ack is answered.
    """
    session = opened()
    given, [(_, fetched)] = passed(session, FROM, msg("key_in", VALUE, ACK))
    assert (given.step, fetched["topic"], fetched["redelivered"]) == (Op.DELIVERY, "key_in", True)
    assert given.facts["sequence"] == 17
    ack, [(kind, fields)] = passed(session, TO, pub(ACK, b"+ACK", INBOX))
    assert (ack.step, kind, fields["record"]) == (Op.ACK, kinds.ACKNOWLEDGED, "k0-1")
    assert fields["outcome"] is None
    done, [(_, fields)] = passed(session, FROM, msg(INBOX, b""))
    assert done.step == Op.ACKED
    assert fields["outcome"] == "taken"


@pytest.mark.parametrize(
    ("body", "step"),
    [(b"", Op.ACK), (b"-NAK", Op.NAK), (b'-NAK {"delay":1}', Op.NAK), (b"+WPI", Op.PROGRESS)],
)
def test_what_a_consumer_says_of_a_message(body: bytes, step: Op) -> None:
    """That it is done, that it shall come again, or that the work goes on."""
    session = opened()
    passed(session, FROM, msg("key_in", VALUE, ACK))
    frame, _ = passed(session, TO, pub(ACK, body))
    assert frame.step == step


@pytest.mark.parametrize(
    ("way", "data", "step"),
    [
        (TO, pub("$JS.API.CONSUMER.MSG.NEXT.key_in.workers", b"{}", INBOX), Op.PULL),
        (TO, pub("$JS.API.STREAM.INFO.key_in", b"", INBOX), Op.API),
        (TO, pub("_INBOX.x.y", b"answer"), Op.RESPOND),
        (FROM, msg(INBOX, b"", headers=b"NATS/1.0 404 No Messages\r\n\r\n"), Op.STATUS),
        (FROM, msg("news", b"hello"), Op.MESSAGE),
        (FROM, b"-ERR 'Permissions Violation'\r\n", Op.ERR),
    ],
)
def test_the_steps(way: Direction, data: bytes, step: Op) -> None:
    assert passed(opened(), way, data)[0].step == step


def fed(data: bytes, ends: Iterable[int]) -> list[object]:
    """Feed a session more and more of some bytes."""
    session = opened()
    return [session.feed(TO, data[:end]) for end in ends]


def test_a_frame_that_comes_byte_by_byte() -> None:
    """It is found when what it needs is there, and not before."""
    data = pub("key_in", VALUE, INBOX, b"NATS/1.0\r\nNats-Msg-Id: k0-1\r\n\r\n")
    *before, last = fed(data, range(len(data) + 1))
    assert all(isinstance(each, Need) for each in before)
    assert isinstance(last, Frame)


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n",
        b"PUB key_in\r\n",
        b"PUB key_in -1\r\n",
        b"PUB key_in x 99999999999\r\n",
        b"HPUB key_in 9 2\r\n",
        b"MSG key_in 1 2\r\nab\r\n",
        b"\xff\xfe",
        b"PUB \xff 1\r\n",
    ],
)
def test_what_is_no_frame(data: bytes) -> None:
    assert isinstance(opened().feed(TO, data), Opaque)


def test_keep_alive_is_no_step() -> None:
    session = opened()
    assert isinstance(session.feed(TO, b"PING\r\n"), Unframed)
    assert isinstance(session.feed(FROM, b"PONG\r\n"), Unframed)


def test_a_publish_is_refused_as_if_nobody_listened() -> None:
    """The client's subscription gets it. What asks for no answer cannot be refused."""
    session = opened()
    data = pub("key_in", VALUE, INBOX)
    frame = session.feed(TO, data)
    assert isinstance(frame, NatsFrame)
    refusal = session.refuse(frame, data, NO_RESPONDERS)
    session.sending(frame)
    session.taken(TO, frame.size)
    answer = session.feed(FROM, refusal)
    assert isinstance(answer, NatsFrame)
    assert answer.step == Op.PUBACK
    assert session.read(answer, refusal, LEDGER).error == NO_RESPONDERS
    core = session.feed(TO, pub("key_in", VALUE))
    assert isinstance(core, NatsFrame)
    with pytest.raises(UnableError):
        session.refuse(core, b"", NO_RESPONDERS)


def test_every_act_is_a_step_of_the_table() -> None:
    assert {str(op) for op in ACTS.values()} <= {name for name, _ in STEPS}
    assert len(STEPS) == len(Op)


def test_the_longer_subject_of_an_acknowledgement() -> None:
    found = frames.delivery_of("$JS.ACK.hub.ABC.key_in.workers.1.17.30.1700000000.0.xyz")
    assert found == frames.Delivery("key_in", "workers", 1, 17)
