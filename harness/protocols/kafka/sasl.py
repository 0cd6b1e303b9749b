"""The frames with which a connection logs in, as far as the wire must read them. Only the user's
name is kept.

PLAIN, SCRAM and OAUTHBEARER can pass the wire. Kerberos and channel binding cannot, because their
tokens depend on the host or the certificate that the client sees, and these are the wire's.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import struct
from typing import TYPE_CHECKING, Final

from harness.protocols.kafka.steps import Api
from harness.wire.protocol import AwaitAnswer, SendBytes, UnableError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PLAIN: Final = "PLAIN"
SCRAM: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
OAUTHBEARER: Final = "OAUTHBEARER"
TOKENS: Final = {PLAIN: 1, OAUTHBEARER: 1, **dict.fromkeys(SCRAM, 2)}
"""How many tokens go each way."""
MOST_BYTES: Final = 1 << 16
"""The largest frame of a log-in in bytes. Larger frames are not read."""
FLEXIBLE_AUTHENTICATE: Final = 2
_GRANTED: Final = struct.Struct(">iih")
_MOST_ITERATIONS: Final = 1 << 20


def why_not(mechanism: str) -> str | None:
    """Say why a connection cannot log in by a mechanism; return ``None`` if it can."""
    if mechanism == "GSSAPI":
        return (
            "Kerberos (GSSAPI) cannot pass: a ticket is for the host that the client sees, which "
            "is the wire's"
        )
    if mechanism == "AWS_MSK_IAM":
        return (
            "AWS_MSK_IAM cannot pass: what is signed names the host that the client sees, which is "
            "the wire's"
        )
    if mechanism.endswith("-PLUS"):
        return (
            f"channel binding ({mechanism}) cannot pass: it names the certificate that the "
            "client sees, which is the wire's"
        )
    if mechanism not in TOKENS:
        return f"lostack does not know whether the SASL mechanism {mechanism} can pass the wire"
    return None


def mechanism_of(request: bytes, at: int) -> str:
    """Return the mechanism in a SaslHandshake request. ``at``: the end of its header."""
    size = int.from_bytes(request[at : at + 2], "big")
    return request[at + 2 : at + 2 + size].decode("ascii", "replace")


def user_of(mechanism: str | None, token: bytes) -> str | None:
    """Return the user's name in a token; ``None`` if it has none.

    >>> user_of("PLAIN", bytes(1) + b"ann" + bytes(1) + b"...")
    'ann'
    >>> user_of("SCRAM-SHA-256", b"n,,n=a=2Cb,r=...")
    'a,b'
    """
    text = token.decode("utf-8", "replace")
    if mechanism == PLAIN and text.count("\0") == 2:  # noqa: PLR2004 - on whose behalf, who, and what only they know
        return text.split("\0")[1]
    if mechanism in SCRAM and text[:2] in {"n,", "y,"}:
        name = next((part[2:] for part in text.split(",")[2:] if part.startswith("n=")), None)
        return None if name is None else name.replace("=2C", ",").replace("=3D", "=")
    return None


def token_of(request: bytes, at: int, version: int) -> bytes:
    """Return the token of a SaslAuthenticate request. ``at``: the end of its client id."""
    if version < FLEXIBLE_AUTHENTICATE:
        return request[at + 4 : at + 4 + int.from_bytes(request[at : at + 4], "big")]
    at += 1  # no tags
    size = shift = 0
    for byte in request[at : at + 5]:
        at += 1
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:  # noqa: PLR2004 - the continuation bit
            break
    return request[at : at + size - 1]


def talk(
    mechanism: str, user: str, password: str, client: str
) -> Sequence[SendBytes | AwaitAnswer]:
    """Return the exchange that logs a new connection in.

    Raises:
        UnableError: the wire cannot log in by this mechanism.
    """
    if mechanism == PLAIN:
        parts: list[SendBytes | AwaitAnswer] = [
            _said(-2, client, f"\0{user}\0{password}".encode()),
            _heard(),
        ]
    elif mechanism in SCRAM:
        parts = _scram(SCRAM[mechanism], user, password, client)
    else:
        raise UnableError(
            f"belongs to a connection that was logged in by {mechanism}, which nobody else can"
        )
    hello = _request(
        Api.SASL_HANDSHAKE, -1, client, struct.pack(">h", len(mechanism)) + mechanism.encode()
    )
    return [SendBytes(lambda _: hello), AwaitAnswer(Api.SASL_HANDSHAKE, take=_granted), *parts]


def _scram(digest: str, user: str, password: str, client: str) -> list[SendBytes | AwaitAnswer]:
    """See RFC 5802."""
    nonce = base64.b64encode(secrets.token_bytes(24)).decode()
    name = user.replace("=", "=3D").replace(",", "=2C")
    first = f"n={name},r={nonce}"

    def last(kept: Mapping[str, str]) -> bytes:
        server = kept["server"]
        told = dict(part.split("=", 1) for part in server.split(",") if "=" in part)
        try:
            salt, count = base64.b64decode(told["s"]), int(told["i"])
            final = f"c=biws,r={told['r']}"
        except (KeyError, ValueError):
            raise UnableError("the broker's part of SCRAM cannot be read") from None
        if not told["r"].startswith(nonce) or not 0 < count <= _MOST_ITERATIONS:
            raise UnableError("the broker's part of SCRAM is no answer to ours")
        salted = hashlib.pbkdf2_hmac(digest, password.encode(), salt, count)
        key = hmac.digest(salted, b"Client Key", digest)
        signed = hmac.digest(
            hashlib.new(digest, key).digest(), f"{first},{server},{final}".encode(), digest
        )
        proof = base64.b64encode(bytes(a ^ b for a, b in zip(key, signed, strict=True))).decode()
        return _authenticate(-3, client, f"{final},p={proof}".encode())

    return [_said(-2, client, f"n,,{first}".encode()), _heard("server"), SendBytes(last), _heard()]


def _said(corr: int, client: str, token: bytes) -> SendBytes:
    frame = _authenticate(corr, client, token)
    return SendBytes(lambda _: frame)


def _heard(name: str | None = None) -> AwaitAnswer:
    """Await an answer; keep its token by a name."""

    def take(answer: bytes) -> Mapping[str, str]:
        _granted(answer)
        if name is None:
            return {}
        at = _GRANTED.size
        at += 2 + max(int.from_bytes(answer[at : at + 2], "big", signed=True), 0)
        return {name: token_of(answer, at, 1).decode("utf-8", "replace")}

    return AwaitAnswer(Api.SASL_AUTHENTICATE, take=take)


def _granted(answer: bytes) -> Mapping[str, str]:
    error = _GRANTED.unpack_from(answer)[2]
    if error:
        raise UnableError(f"the broker does not let the wire log in (error {error})")
    return {}


def _authenticate(corr: int, client: str, token: bytes) -> bytes:
    return _request(Api.SASL_AUTHENTICATE, corr, client, struct.pack(">i", len(token)) + token)


def _request(api: Api, corr: int, client: str, body: bytes) -> bytes:
    """Make a request of version 1."""
    name = client.encode()
    rest = struct.pack(">hhih", api.number, 1, corr, len(name)) + name + body
    return struct.pack(">i", len(rest)) + rest
