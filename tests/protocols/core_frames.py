"""Packets of Core, made by hand: version 136, one session on channel 10."""

from __future__ import annotations

import struct
from typing import Any

from harness.protocols.core.steps import Kind

SESSION, CHANNEL, CONSUMER, VERSION = 1, 10, 0, 136
GREETING = b"ARTEMIS"
UNNUMBERED = -1


def packet(kind: int, body: bytes = b"", channel: int = CHANNEL) -> bytes:
    """Make a packet."""
    return struct.pack(">ibq", 9 + len(body), kind, channel) + body


def text(value: str) -> bytes:
    """Write a text of up to 4094 characters."""
    size = len(value)
    if size < 9:
        return struct.pack(">i", size) + value.encode("utf-16-be")
    return struct.pack(">iH", size, len(value.encode())) + value.encode()


def maybe(value: bytes | None) -> bytes:
    """Write what may not be there."""
    return b"\0" if value is None else b"\1" + value


def simple(value: str) -> bytes:
    """Write a text of two bytes a character."""
    coded = value.encode("utf-16-le")
    return struct.pack(">i", len(coded)) + coded


def create(
    client: str | None = "key.consumer.1",
    *,
    bound: bool = False,
    by_commit: bool = False,
    before: bool = False,
    version: int = VERSION,
) -> bytes:
    """Ask for a session, in the second form, which names the client; without one, in the first.

    ``bound``: its sends and acknowledgements wait for its commit; ``by_commit``: its
    acknowledgements alone.
    """
    flags = struct.pack(">ib??i?", 102400, 0, not bound, not (bound or by_commit), -1, before)
    body = (
        text("a session")
        + struct.pack(">qi", CHANNEL, version)
        + maybe(None)
        + maybe(text("secret"))
        + flags
        + maybe(None)
    )
    if client is None:
        return packet(Kind.CREATESESSION, body, SESSION)
    return packet(Kind.CREATESESSION_V2, body + maybe(text(client)), SESSION)


def created() -> bytes:
    """Grant it."""
    return packet(Kind.CREATESESSION_RESP, struct.pack(">i", VERSION), SESSION)


def named(name: str, value: str) -> bytes:
    """Say something about a session."""
    return packet(Kind.SESS_ADD_METADATA2, text(name) + text(value) + b"\1")


def subscribe(queue: str, consumer: int = CONSUMER) -> bytes:
    """Ask for a consumer."""
    return packet(
        Kind.SESS_CREATECONSUMER,
        struct.pack(">q", consumer) + simple(queue) + maybe(None) + struct.pack(">??i", 0, 1, 4),
    )


def message(
    body: bytes, *, number: int = 0, address: str = "q", kind: int = 4, **properties: Any
) -> bytes:
    """Make a message; it has an id of its client's, and its properties are texts, numbers or
    nothing.
    """
    head = (
        struct.pack(">q", number)
        + maybe(simple(address))
        + maybe(b"u" * 16)
        + struct.pack(">b?qqb", kind, True, 0, 1, 4)
    )
    listed = b"".join(simple(name) + _value(value) for name, value in properties.items())
    whole = struct.pack(">i", 13 + len(body)) + body + head
    return whole + (b"\1" + struct.pack(">i", len(properties)) + listed if properties else b"\0")


def _value(value: Any) -> bytes:
    if value is None:
        return b"\0"
    return b"\x0a" + simple(value) if isinstance(value, str) else struct.pack(">bq", 7, value)


def send(
    body: bytes, *, asks: bool = True, number: int = UNNUMBERED, version: int = VERSION, **more: Any
) -> bytes:
    """Send a message; ``number``: by which its answer names it."""
    tail = struct.pack(">?", asks) + (struct.pack(">q", number) if version >= 130 else b"")
    return packet(
        Kind.SESS_SEND,
        message(body, **more) + tail + (struct.pack(">i", 3) if version >= 134 else b""),
    )


def give(
    number: int, body: bytes, *, deliveries: int = 1, consumer: int = CONSUMER, **more: Any
) -> bytes:
    """Give a message."""
    return packet(
        Kind.SESS_RECEIVE_MSG,
        message(body, number=number, **more) + struct.pack(">qi", consumer, deliveries),
    )


def acknowledge(
    number: int, *, asks: bool = True, alone: bool = True, consumer: int = CONSUMER
) -> bytes:
    """Acknowledge a message, or all up to it."""
    kind = Kind.SESS_INDIVIDUAL_ACKNOWLEDGE if alone else Kind.SESS_ACKNOWLEDGE
    return packet(kind, struct.pack(">qq?", consumer, number, asks))


def commit(number: int = UNNUMBERED) -> bytes:
    """Commit."""
    return packet(Kind.SESS_COMMIT, struct.pack(">q", number))


def rollback() -> bytes:
    """Roll back."""
    return packet(Kind.SESS_ROLLBACK, b"\0")


def branch(kind: int, name: bytes, more: bytes = b"") -> bytes:
    """Say something of a distributed transaction of one branch: begin, end, prepare, commit it."""
    return packet(
        kind, struct.pack(">ii", 7, 1) + b"\1" + struct.pack(">i", len(name)) + name + more
    )


def told(code: int = 0, refused: str | None = None) -> bytes:
    """Answer that."""
    return packet(
        Kind.SESS_XA_RESP,
        struct.pack(">?i", refused is not None, code) + maybe(text(refused) if refused else None),
    )


def answer(number: int | None = UNNUMBERED) -> bytes:
    """Grant what was asked; ``None``: in the old way, which names nothing."""
    return packet(Kind.NULL_RESPONSE, b"" if number is None else struct.pack(">q", number))


def refuse(said: str | None, number: int | None = None) -> bytes:
    """Refuse it."""
    coded = maybe(None if said is None else text(said))
    return packet(
        Kind.EXCEPTION,
        struct.pack(">i", 110) + coded + (b"" if number is None else struct.pack(">q", number)),
    )


def ping(ttl_ms: int = 60_000) -> bytes:
    """Say that one is there."""
    return packet(Kind.PING, struct.pack(">q", ttl_ms), 0)
