"""Commands of OpenWire, made by hand, in its loose encoding."""

from __future__ import annotations

import struct
from typing import Any

from harness.protocols.openwire.steps import Kind

VERSION = 12
CONNECTION = "ID:host-1-2-0:1"
CONSUMER = f"{CONNECTION}:1:1"


def command(kind: int, body: bytes) -> bytes:
    """Put length and type before a body."""
    return struct.pack(">iB", len(body) + 1, kind) + body


def head(number: int, *, asks: bool = False) -> bytes:
    """Begin a command's body."""
    return struct.pack(">i?", number, asks)


def text(value: str | None) -> bytes:
    """Make a text."""
    return b"\0" if value is None else b"\1" + word(value)


def word(value: str) -> bytes:
    """Make a text that is there."""
    return struct.pack(">H", len(value.encode())) + value.encode()


def blob(value: bytes | None) -> bytes:
    """Make bytes."""
    return b"\0" if value is None else b"\1" + struct.pack(">i", len(value)) + value


def named(values: dict[str, Any]) -> bytes:
    """Make named values: numbers, flags and texts."""
    found = struct.pack(">i", len(values))
    for name, value in values.items():
        found += word(name)
        if isinstance(value, bool):
            found += struct.pack(">B?", 1, value)
        elif isinstance(value, int):
            found += struct.pack(">Bq", 6, value)
        else:
            found += b"\x09" + word(value)
    return found


def thing(kind: int, body: bytes) -> bytes:
    """Make an object within a command."""
    return b"\1" + bytes((kind,)) + body


def queue(name: str) -> bytes:
    """Make a destination."""
    return thing(100, text(name))


def producer() -> bytes:
    """Make a producer's name."""
    return thing(123, text(CONNECTION) + struct.pack(">qq", 1, 1))


def consumer() -> bytes:
    """Make a consumer's name."""
    return thing(122, text(CONNECTION) + struct.pack(">qq", 1, 1))


def message_name(number: int) -> bytes:
    """Make a message's name."""
    return thing(110, text(None) + producer() + struct.pack(">qq", number, 0))


def transaction_name(number: int | None) -> bytes:
    """Make a local transaction's name."""
    return (
        b"\0"
        if number is None
        else thing(111, struct.pack(">q", number) + thing(120, text(CONNECTION)))
    )


def hello(*, version: int = VERSION, **more: Any) -> bytes:
    """Make a greeting; ``more``: what the peer can do."""
    can = {
        "TightEncodingEnabled": False,
        "CacheEnabled": False,
        "StackTraceEnabled": True,
        "MaxInactivityDuration": 30_000,
    }
    return command(
        Kind.WIREFORMAT_INFO, b"ActiveMQ" + struct.pack(">i", version) + blob(named(can | more))
    )


def connection(client: str, number: int = 1) -> bytes:
    """Make what a client begins with."""
    who = thing(120, text(CONNECTION)) + text(client) + text(None) + text(None)
    return command(Kind.CONNECTION_INFO, head(number, asks=True) + who + b"\0" * 6 + text(None))


def subscribe(name: str, number: int) -> bytes:
    """Make the beginning of a consumer's command; what is behind it is nobody's business here."""
    return command(
        Kind.CONSUMER_INFO, head(number, asks=True) + consumer() + b"\0" + queue(name) + b"\0" * 40
    )


def _message(
    kind: int,
    number: int,
    name: int,
    value: bytes,
    destination: str,
    *,
    asks: bool,
    transaction: int | None,
    compressed: bool = False,
    **properties: str | int,
) -> bytes:
    body = (
        head(number, asks=asks)
        + producer()
        + queue(destination)
        + transaction_name(transaction)
        + b"\0"
        + message_name(name)
    )
    body += (
        b"\0" + text(None) + struct.pack(">i", 0) + text(None)
    )  # transaction at first, group, correlation
    body += struct.pack(">?qB", True, 0, 4) + b"\0" + struct.pack(">q", 0) + text(None)
    value = struct.pack(">i", len(value)) + value if kind == Kind.TEXT_MESSAGE else value
    body += blob(value) + blob(named(properties)) + b"\0" + b"\0"  # no command within, no target
    body += (
        struct.pack(">?i", compressed, 0) + b"\0" + struct.pack(">q", 0) + text(None) + b"\0\0\0"
    )
    return body + struct.pack(">qq?", 0, 0, False)


def send(
    number: int,
    value: bytes,
    *,
    destination: str = "q",
    asks: bool = True,
    transaction: int | None = None,
    kind: int = Kind.BYTES_MESSAGE,
    compressed: bool = False,
    **properties: str | int,
) -> bytes:
    """Make a message that a client sends, called after its number."""
    return command(
        kind,
        _message(
            kind,
            number,
            number,
            value,
            destination,
            asks=asks,
            transaction=transaction,
            compressed=compressed,
            **properties,
        ),
    )


def dispatch(
    name: int,
    value: bytes,
    *,
    destination: str = "q",
    deliveries: int = 0,
    kind: int = Kind.BYTES_MESSAGE,
) -> bytes:
    """Make a message that a broker gives."""
    inner = bytes((kind,)) + _message(
        kind, 0, name, value, destination, asks=False, transaction=None
    )
    body = head(0) + consumer() + queue(destination) + b"\1" + inner + struct.pack(">i", deliveries)
    return command(Kind.MESSAGE_DISPATCH, body)


def acknowledge(
    number: int,
    last: int,
    *,
    how: int = 2,
    first: int | None = None,
    asks: bool = True,
    transaction: int | None = None,
) -> bytes:
    """Make an acknowledgement."""
    body = (
        head(number, asks=asks)
        + queue("q")
        + transaction_name(transaction)
        + consumer()
        + bytes((how,))
    )
    body += (
        (b"\0" if first is None else message_name(first))
        + message_name(last)
        + struct.pack(">i", 1)
        + b"\0"
    )
    return command(Kind.MESSAGE_ACK, body)


def transact(number: int, transaction: int, what: int) -> bytes:
    """Make what is done to a transaction."""
    body = (
        head(number, asks=True)
        + thing(120, text(CONNECTION))
        + transaction_name(transaction)
        + bytes((what,))
    )
    return command(Kind.TRANSACTION_INFO, body)


def answer(number: int, error: str | None = None) -> bytes:
    """Make an answer."""
    body = head(0) + struct.pack(">i", number)
    if error is None:
        return command(Kind.RESPONSE, body)
    return command(
        Kind.EXCEPTION_RESPONSE,
        body + b"\1" + text("javax.jms.JMSException") + text(error) + b"\0\0\0",
    )


def alive() -> bytes:
    """Make a sign of life."""
    return command(Kind.KEEP_ALIVE_INFO, head(0))
