"""Frames of AMQP 1.0, made by hand."""

from __future__ import annotations

import struct
from typing import Any


def made(channel: int, said: bytes, payload: bytes = b"") -> bytes:
    """Make a frame."""
    return struct.pack(">IBBH", 8 + len(said) + len(payload), 2, 0, channel) + said + payload


def described(what: int, *fields: bytes) -> bytes:
    """Make a list that means something, of values that are made."""
    body = b"".join(fields)
    return bytes((0, 0x53, what, 0xD0)) + struct.pack(">II", len(body) + 4, len(fields)) + body


NULL, TRUE, FALSE = b"\x40", b"\x41", b"\x42"
GREETING = b"AMQP\x00\x01\x00\x00"
SASL = b"AMQP\x03\x01\x00\x00"
ALIVE = struct.pack(">IBBH", 8, 2, 0, 0)
CHANNEL, BACK = 0, 3
"""What the two sides call the one session."""
ACCEPTED, REJECTED = described(0x24), described(0x25)


def text(value: str | None) -> bytes:
    """Make a text."""
    return NULL if value is None else b"\xa1" + bytes((len(value),)) + value.encode()


def blob(value: bytes) -> bytes:
    """Make bytes."""
    return b"\xb0" + struct.pack(">I", len(value)) + value


def number(value: int | None) -> bytes:
    """Make a number."""
    return NULL if value is None else b"\x70" + struct.pack(">I", value)


def greet(name: str, idle_ms: int = 30_000) -> bytes:
    """Open a connection."""
    return made(0, described(0x10, text(name), NULL, NULL, NULL, number(idle_ms)))


def begin(channel: int, answers: int | None = None) -> bytes:
    """Begin a session."""
    remote = NULL if answers is None else b"\x60" + struct.pack(">H", answers)
    return made(channel, described(0x11, remote, number(0), number(100), number(100)))


def attach(channel: int, handle: int, *, receives: bool, address: str | None) -> bytes:
    """Attach a link to a queue; ``address`` None: to the coordinator. ``receives``: who says so is
    its receiver.
    """
    here = (
        described(0x30)
        if address is None
        else described(0x28 if receives == (channel == CHANNEL) else 0x29, text(address))
    )
    ends = (here, described(0x29)) if receives == (channel == CHANNEL) else (described(0x28), here)
    return made(
        channel,
        described(
            0x12,
            text(f"link-{handle}"),
            number(handle),
            TRUE if receives else FALSE,
            NULL,
            NULL,
            *ends,
        ),
    )


def message(value: bytes, *, deliveries: int = 0, **properties: str | int | None) -> bytes:
    """Make the sections of a message."""
    pairs = b"".join(
        number(word) if isinstance(word, int) else text(word)
        for pair in properties.items()
        for word in pair
    )
    named = b"\xd1" + struct.pack(">II", len(pairs) + 4, 2 * len(properties)) + pairs
    head = described(0x70, TRUE, NULL, NULL, NULL, number(deliveries))
    return head + b"\0\x53\x74" + named + b"\0\x53\x75" + blob(value)


def in_transaction(transaction: bytes | None, outcome: bytes = NULL) -> bytes:
    """Make a state within a transaction."""
    return outcome if transaction is None else described(0x34, blob(transaction), outcome)


def transfer(
    channel: int,
    handle: int,
    delivery: int | None,
    payload: bytes,
    *,
    settled: bool = False,
    more: bool = False,
    transaction: bytes | None = None,
) -> bytes:
    """Make a message's transfer, or a part of it."""
    flags = (TRUE if settled else FALSE, TRUE if more else FALSE)
    return made(
        channel,
        described(
            0x14,
            number(handle),
            number(delivery),
            NULL,
            NULL,
            *flags,
            NULL,
            in_transaction(transaction),
        ),
        payload,
    )


def disposition(
    channel: int,
    first: int,
    last: int | None = None,
    *,
    receives: bool = True,
    state: bytes = ACCEPTED,
    settled: bool = True,
) -> bytes:
    """Make what is said of deliveries."""
    return made(
        channel,
        described(
            0x15,
            TRUE if receives else FALSE,
            number(first),
            number(last),
            TRUE if settled else FALSE,
            state,
        ),
    )


def declare(handle: int, delivery: int) -> bytes:
    """Ask for a transaction."""
    return transfer(CHANNEL, handle, delivery, b"\0\x53\x77" + described(0x31, NULL))


def discharge(handle: int, delivery: int, transaction: bytes, *, fails: bool = False) -> bytes:
    """End one."""
    said: Any = described(0x32, blob(transaction), TRUE if fails else FALSE)
    return transfer(CHANNEL, handle, delivery, b"\0\x53\x77" + said)
