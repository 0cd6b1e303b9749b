"""The PostgreSQL protocol, as far as the wire reads it: messages, which statement commits, and
which records it commits.

Pure: bytes in, values out. A message is one byte that names its kind, an int32 length that counts
itself, and a body; what a client sends first has no kind. See "Frontend/Backend Protocol" in
PostgreSQL's documentation.
"""

from __future__ import annotations

import re
from typing import Final

MAX_MESSAGE_BYTES: Final = 1 << 30
"""More than any value can have."""
HEAD_BYTES: Final = 5
"""Kind and length."""
START_BYTES: Final = 8
"""Length and code of what comes first."""
STARTUP: Final = 3 << 16
CANCEL: Final = 80877102
TLS, GSSAPI = 80877103, 80877104
ENCRYPTION: Final = (TLS, GSSAPI)
"""Requests for TLS and for GSSAPI encryption; they are answered by one byte, and ``N`` means no."""
KERBEROS: Final = (
    "Kerberos (GSSAPI) cannot pass: a ticket is for the host that the client sees, which is the "
    "wire's"
)
_TICKETS: Final = (7, 9)
"""What a server asks for: a ticket of GSSAPI, or of SSPI."""
LOGIN: Final = frozenset(b"pR")
"""What a client says to log in, and what a server asks for."""
READ: Final = frozenset(b"QPBECSF")
"""Query, Parse, Bind, Execute, Close, Sync, FunctionCall: what says which statements are run, on
what, and when all is said.
"""
ANSWERS: Final = frozenset(b"CIsEZ")
"""CommandComplete, EmptyQueryResponse, PortalSuspended, ErrorResponse and ReadyForQuery: what says
what has become of them.
"""
COPY_DATA: Final = ord("d")
CONFIRMS: Final = b"r"
"""What the data of a reader of a replication slot begin with that say how far it is."""
CONFIRMATION_BYTES: Final = 39
"""Of such a message: three places in the log, the time, and whether an answer is wanted."""
PAYLOAD: Final = rb"lostack (\S+) (\S+) \d+ [0-9a-f]{8}\n"
TEXT_OF_BYTES: Final = rb"\\x((?:[0-9a-f]{2})+)"


class NotAMessageError(ValueError):
    """The bytes at this place are no message of the protocol."""


def start(head: bytes) -> tuple[int, int]:
    """Return size and code of a client's first message.

    Raises:
        NotAMessageError: a client cannot begin with these bytes.
    """
    size, code = int.from_bytes(head[:4], "big", signed=True), int.from_bytes(head[4:8], "big")
    if not START_BYTES <= size <= MAX_MESSAGE_BYTES or code not in (STARTUP, CANCEL, *ENCRYPTION):
        raise NotAMessageError(f"a first message of {size} bytes with code {code}")
    return size, code


def encrypts(wanted: int, answer: bytes) -> bool | None:
    """Return whether a server grants the requested encryption; ``None`` for an answer that is
    neither yes nor no.

    Raises:
        NotAMessageError: the server grants GSSAPI encryption, which cannot pass the wire.
    """
    if answer == b"G" and wanted == GSSAPI:
        raise NotAMessageError(KERBEROS)
    return {b"N": False, b"S": True}.get(answer) if wanted == TLS else {b"N": False}.get(answer)


def why_not(kind: int, body: bytes) -> str | None:
    """Say why a log-in message of a connection cannot pass the wire; return ``None`` if it can.

    >>> why_not(ord("p"), b"SCRAM-SHA-256" + bytes(5)), why_not(ord("R"), bytes([0, 0, 0, 7]))[:8]
    (None, 'Kerberos')
    """
    said = body.partition(b"\0")[0]
    if chr(kind) == "p" and said.startswith(b"SCRAM-") and said.endswith(b"-PLUS"):
        return (
            "channel binding (SCRAM-SHA-256-PLUS) cannot pass, for it names the certificate that "
            "the client sees, which is the wire's: connect with channel_binding=disable"
        )
    return KERBEROS if chr(kind) == "R" and int.from_bytes(body[:4], "big") in _TICKETS else None


def parameters(startup: bytes) -> dict[str, str]:
    """Return the parameters in a client's startup message.

    >>> parameters(bytes([0, 0, 0, 20, 0, 3, 0, 0]) + b"user" + bytes(1) + b"me" + bytes(2))
    {'user': 'me'}
    """
    words = startup[START_BYTES:].decode("utf-8", "replace").split("\0")
    return {
        name: value for name, value in zip(words[::2], words[1::2], strict=False) if name
    }  # an empty name ends the list


def message(head: bytes) -> tuple[int, int]:
    """Return the kind and the whole size of a message.

    >>> message(b"Z" + bytes([0, 0, 0, 5]))
    (90, 6)

    Raises:
        NotAMessageError: a message cannot begin with these bytes.
    """
    kind, length = head[0], int.from_bytes(head[1:5], "big", signed=True)
    if not (chr(kind).isascii() and chr(kind).isalnum()) or not 4 <= length <= MAX_MESSAGE_BYTES:  # noqa: PLR2004 - its own bytes
        raise NotAMessageError(f"a message {kind} of {length} bytes")
    return kind, length + 1


def names(body: bytes) -> tuple[bytes, bytes]:
    """Return the two texts that a Parse or a Bind begins with.

    >>> names(b"s1" + bytes(1) + b"select 1" + bytes(3))
    (b's1', b'select 1')

    Raises:
        NotAMessageError: there are fewer than two.
    """
    one, end, rest = body.partition(b"\0")
    other, also, _ = rest.partition(b"\0")
    if not (end and also):
        raise NotAMessageError("a text without its end")
    return one, other


def records_in(data: bytes) -> set[tuple[str, str]]:
    r"""Return (cell's key, id) of the records whose payloads are in ``data``, as bytes or in
    PostgreSQL's text form of bytes.

    >>> payload = b"lostack c0ffee k1-7 7 0123abcd\n"
    >>> records_in(b"..." + payload), records_in(b"'\\x" + payload.hex().encode() + b"'")
    ({('c0ffee', 'k1-7')}, {('c0ffee', 'k1-7')})
    """
    texts = [data, *(bytes.fromhex(found.decode()) for found in re.findall(TEXT_OF_BYTES, data))]
    found = (match for text in texts for match in re.findall(PAYLOAD, text))
    return {
        (key.decode("ascii", "replace"), record.decode("ascii", "replace")) for key, record in found
    }
