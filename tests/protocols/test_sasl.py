"""How a connection logs in, on the wire: what passes, what cannot, and how the wire logs in where a
frame is to go elsewhere.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import struct
from typing import TYPE_CHECKING

import pytest

from harness.protocols.kafka import sasl
from harness.protocols.kafka.session import Kafka, KafkaFrame, KafkaSession
from harness.protocols.kafka.steps import STEPS, Api
from harness.wire.protocol import (
    AwaitAnswer,
    Frame,
    Immovable,
    Move,
    Need,
    SendBytes,
    UnableError,
    Unframed,
)
from harness.wire.rules import Direction
from tests.wire.broker import framed, request

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.wire.protocol import Fed

TO, FROM = Direction.REQUEST, Direction.RESPONSE
USERS = {"ann": "pencil", "a,b=c": "sechzehn ähnliche"}


def text(value: str) -> bytes:
    """Make a string of the protocol."""
    return struct.pack(">h", len(value)) + value.encode()


def handshake(mechanism: str, version: int = 1) -> bytes:
    """Ask for a mechanism."""
    return request(Api.SASL_HANDSHAKE, 1, "c", text(mechanism), version)


def authenticate(token: bytes, version: int = 1) -> bytes:
    """Give a token."""
    if version < sasl.FLEXIBLE_AUTHENTICATE:
        return request(
            Api.SASL_AUTHENTICATE, 2, "c", struct.pack(">i", len(token)) + token, version
        )
    size = len(token) + 1
    coded = bytes([size]) if size < 0x80 else bytes([size & 0x7F | 0x80, size >> 7])
    return request(Api.SASL_AUTHENTICATE, 2, "c", b"\0" + coded + token + b"\0", version)


def shaken(corr: int = 1, error: int = 0) -> bytes:
    """Answer a handshake."""
    return framed(struct.pack(">ihi", corr, error, 0))


def authenticated(corr: int, token: bytes = b"", error: int = 0) -> bytes:
    """Answer a token."""
    return framed(struct.pack(">ihhi", corr, error, -1, len(token)) + token + struct.pack(">q", 0))


def passed(session: KafkaSession, way: Direction, data: bytes) -> Fed:
    """Let one thing pass, as a wire does, byte by byte for as long as it is not whole."""
    for count in range(1, len(data) + 1):
        fed = session.feed(way, data[:count])
        if isinstance(fed, Need):
            assert fed.bytes > count
            continue
        assert isinstance(fed, KafkaFrame | Unframed), fed
        if count == fed.size:
            if isinstance(fed, KafkaFrame):
                session.sending(fed)
            session.taken(way, fed.size)
            if isinstance(fed, KafkaFrame):
                assert list(session.settled(fed, None, reached=True)) == []
            return fed
    raise AssertionError(data)


def begun(
    mechanism: str, *tokens: bytes, version: int = 1, users: dict[str, str] | None = None
) -> KafkaSession:
    """Return a session that has logged in by version 1."""
    protocol = Kafka()
    protocol.admit(USERS if users is None else users)
    session = protocol.session(1, limit=1 << 20)
    passed(session, TO, handshake(mechanism))
    passed(session, FROM, shaken())
    for token in tokens:
        passed(session, TO, authenticate(token, version))
        passed(session, FROM, authenticated(2))
    return session


def moved(session: KafkaSession) -> Move | Immovable:
    """Ask how a frame goes over another connection."""
    data = request(Api.END_TXN, 7, "c", b"...")
    frame = passed(session, TO, data)
    assert isinstance(frame, KafkaFrame)
    return session.move(frame, data)


@pytest.mark.parametrize(
    ("mechanism", "said"),
    [
        ("PLAIN", None),
        ("SCRAM-SHA-256", None),
        ("SCRAM-SHA-512", None),
        ("OAUTHBEARER", None),
        ("GSSAPI", "Kerberos"),
        ("SCRAM-SHA-256-PLUS", "channel binding"),
        ("AWS_MSK_IAM", "AWS_MSK_IAM"),
    ],
)
@pytest.mark.parametrize("version", [0, 1])
def test_what_cannot_pass_is_refused_by_its_name(
    mechanism: str, said: str | None, version: int
) -> None:
    """It voids the cell, in one line; what can passes."""
    fed = passed(Kafka().session(1, limit=1 << 20), TO, handshake(mechanism, version))
    assert isinstance(fed, Frame)
    assert fed.step == "SaslHandshake"
    assert (
        (fed.because is None)
        if said is None
        else (said in str(fed.because) and "\n" not in str(fed.because))
    )


@pytest.mark.parametrize(("mechanism", "count"), [("PLAIN", 1), ("SCRAM-SHA-512", 2)])
def test_tokens_without_a_header_are_no_frames(mechanism: str, count: int) -> None:
    """As they follow a handshake of version 0; behind the last of them frames go on."""
    session = Kafka().session(1, limit=1 << 20)
    passed(session, TO, handshake(mechanism, 0))
    assert passed(session, FROM, shaken()).size  # type: ignore[union-attr]
    for _ in range(count):
        for way in Direction:
            assert passed(session, way, framed(b"n,,n=ann,r=x" if way is TO else b"")) == Unframed(
                16 if way is TO else 4
            )
    asked = passed(session, TO, request(Api.HEARTBEAT, 3, "c"))
    assert isinstance(asked, Frame)
    assert asked.step == "Heartbeat"
    answer = passed(session, FROM, framed(struct.pack(">i", 3)))
    assert isinstance(answer, Frame)
    assert answer.step == "Heartbeat"


def test_no_token_follows_a_handshake_that_is_refused() -> None:
    """The client may ask for another."""
    session = Kafka().session(1, limit=1 << 20)
    passed(session, TO, handshake("PLAIN", 0))
    passed(session, FROM, shaken(error=33))
    assert isinstance(passed(session, TO, handshake("SCRAM-SHA-256", 0)), Frame)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("mechanism", "token", "name"),
    [
        ("PLAIN", b"\0ann\0pencil", "ann"),
        ("SCRAM-SHA-256", b"n,,n=a=2Cb=3Dc,r=abc", "a,b=c"),
        ("SCRAM-SHA-512", b"y,,n=ann,r=" + b"x" * 200, "ann"),
        ("OAUTHBEARER", b"n,,\1auth=Bearer x\1\1", None),
    ],
)
def test_who_comes_is_known_and_nothing_else(
    mechanism: str, token: bytes, name: str | None, version: int
) -> None:
    """Their name, in whatever version; of a password or a proof nothing is kept, nor told."""
    session = begun(mechanism, token, b"c=biws,r=abc,p=proof", version=version)
    assert session._user == name
    assert not [
        value for value in vars(session).values() if "pencil" in repr(value) and value != USERS
    ]


@pytest.mark.parametrize("error", [0, 58])
@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_refused_log_in_is_told_by_the_brokers_error(version: int, error: int) -> None:
    """So that a program which is not let in is told that, and nothing about its topic."""
    session = begun("PLAIN")
    passed(session, TO, authenticate(b"\0ann\0pen", version))
    body = {
        0: struct.pack(">hhi", error, -1, 0),
        1: struct.pack(">hhiq", error, -1, 0, 0),
        2: struct.pack(">?hBBq?", False, error, 0, 1, 0, False),
    }
    answer = framed(struct.pack(">i", 2) + body[version])
    frame = passed(session, FROM, answer)
    assert isinstance(frame, KafkaFrame)
    found = session.read(frame, answer, Kafka().ledger("c", None))
    assert (found.error, found.because) == (error or None, None)


# --- a frame over a connection of the wire's own --------------------------------------------------


def played(talk: Move | Immovable, server: Callable[[bytes], bytes]) -> list[bytes]:
    """Hold the conversation with a server of tokens; return what was said. Raises what its parts
    raise.
    """
    assert isinstance(talk, Move)
    session, said = Kafka().session(9, limit=1 << 20), list[bytes]()
    kept: dict[str, str] = {}
    for part in talk.talk:
        if isinstance(part, SendBytes):
            said.append(part.make(kept))
            passed(session, TO, said[-1])
        else:
            assert isinstance(part, AwaitAnswer)
            corr = struct.unpack_from(">i", said[-1], 8)[0]
            answer = shaken(corr) if part.step == Api.SASL_HANDSHAKE else server(said[-1])
            fed = passed(session, FROM, answer)
            assert isinstance(fed, Frame)
            assert fed.step == part.step
            kept |= dict(part.take(answer)) if part.take else {}
    return said


def test_a_connection_without_a_login_needs_none() -> None:
    session = Kafka().session(1, limit=1 << 20)
    assert moved(session) == Move(request(Api.END_TXN, 7, "c", b"..."))


def test_plain_is_said_again() -> None:
    said = played(
        moved(begun("PLAIN", b"\0ann\0overheard")),
        lambda frame: authenticated(struct.unpack_from(">i", frame, 8)[0]),
    )
    assert said[0].endswith(text("PLAIN"))
    assert said[1].endswith(b"\0ann\0pencil")


class ScramServer:
    """The other side of SCRAM, after RFC 5802."""

    def __init__(self, digest: str, user: str, password: str) -> None:
        self.digest, self.user, self.password = digest, user, password
        self.salt, self.first, self.let_in = b"salt of the server", "", False

    def __call__(self, frame: bytes) -> bytes:
        """Answer a token."""
        corr = struct.unpack_from(">i", frame, 8)[0]
        said = frame[frame.index(b"c", 12) + 1 + 4 :].decode()
        if said.startswith("n,,"):
            self.first = said[3:]
            name, nonce = self.first.split(",", 1)
            assert name == "n=" + self.user.replace("=", "=3D").replace(",", "=2C")
            self.told = f"{nonce}more,s={base64.b64encode(self.salt).decode()},i=4096"
            return authenticated(corr, self.told.encode())
        bare, _, proof = said.rpartition(",p=")
        assert bare == f"c=biws,{self.told.split(',', 1)[0]}"
        salted = hashlib.pbkdf2_hmac(self.digest, self.password.encode(), self.salt, 4096)
        key = hmac.digest(salted, b"Client Key", self.digest)
        signature = hmac.digest(
            hashlib.new(self.digest, key).digest(),
            f"{self.first},{self.told},{bare}".encode(),
            self.digest,
        )
        self.let_in = (
            bytes(a ^ b for a, b in zip(base64.b64decode(proof), signature, strict=True)) == key
        )
        return authenticated(corr, b"v=...", error=0 if self.let_in else 58)


@pytest.mark.parametrize(("mechanism", "digest"), sasl.SCRAM.items())
@pytest.mark.parametrize("user", USERS)
def test_scram_is_a_conversation_of_its_own(mechanism: str, digest: str, user: str) -> None:
    """With a nonce of its own: the proof that was overheard would be worth nothing."""
    server = ScramServer(digest, user, USERS[user])
    name = user.replace("=", "=3D").replace(",", "=2C")
    said = played(
        moved(begun(mechanism, f"n,,n={name},r=theirs".encode(), b"c=biws,r=theirs,p=x")), server
    )
    assert server.let_in
    assert not any(USERS[user].encode() in frame or b"theirs" in frame for frame in said)


def test_a_password_that_is_wrong_is_said_to_be() -> None:
    talk = moved(begun("SCRAM-SHA-256", b"n,,n=ann,r=x", users={"ann": "other"}))
    with pytest.raises(UnableError, match=r"does not let the wire log in \(error 58\)"):
        played(talk, ScramServer("sha256", "ann", "pencil"))


@pytest.mark.parametrize(
    "told",
    [
        b"r=elsewhere,s=c2FsdA==,i=4096",
        b"nothing",
        b"r=%s,s=c2FsdA==,i=0",
        b"r=%s,s=c2FsdA==,i=99999999",
    ],
)
def test_a_server_that_is_none_gets_no_proof(told: bytes) -> None:
    def server(frame: bytes) -> bytes:
        nonce = frame.rpartition(b"r=")[2]
        return authenticated(
            struct.unpack_from(">i", frame, 8)[0], told % nonce if b"%s" in told else told
        )

    with pytest.raises(UnableError, match="the broker's part of SCRAM"):
        played(moved(begun("SCRAM-SHA-256", b"n,,n=ann,r=x")), server)


@pytest.mark.parametrize(
    ("session", "said"),
    [
        (
            begun("PLAIN", b"\0eve\0secret"),
            "is of the user 'eve', whose password the wire was not told",
        ),
        (
            begun("OAUTHBEARER", b"n,,\1auth=Bearer x\1\1", users={"": ""}),
            "OAUTHBEARER, which nobody else can",
        ),
    ],
)
def test_who_cannot_be_stood_for_says_so(session: KafkaSession, said: str) -> None:
    found = moved(session)
    assert isinstance(found, Immovable)
    assert said in found.because
    assert "secret" not in found.because


def test_a_login_means_nothing_on_another_connection() -> None:
    """As its steps say when a plan is made."""
    session = Kafka().session(1, limit=1 << 20)
    frame = passed(session, TO, handshake("PLAIN"))
    assert isinstance(frame, KafkaFrame)
    assert isinstance(session.move(frame, handshake("PLAIN")), Immovable)
    assert not any(STEPS[api, TO].movable for api in (Api.SASL_HANDSHAKE, Api.SASL_AUTHENTICATE))
