"""Entries of a quorum queue's log, made as the node makes them."""

from __future__ import annotations

import struct
from typing import Any

PROPERTIES = b"\x20\x00\x00\x00\x00\x1a\x0flostack-attemptS\x00\x00\x00\x05p-1.2"
PROCESS = b"X" + b"w\x04node" + bytes(12)


def external(value: Any) -> bytes:  # noqa: PLR0911 - one for each type
    """Return a value in Erlang's external format, without its version."""
    match value:
        case str():
            return b"w" + bytes([len(value)]) + value.encode()
        case int():
            return b"b" + struct.pack(">i", value)
        case bytes() if value == PROCESS:
            return value
        case bytes():
            return b"m" + struct.pack(">I", len(value)) + value
        case tuple():
            return b"h" + bytes([len(value)]) + b"".join(map(external, value))
        case list() if value:
            return b"l" + struct.pack(">I", len(value)) + b"".join(map(external, value)) + b"j"
        case dict():
            pairs = b"".join(external(k) + external(v) for k, v in value.items())
            return b"t" + struct.pack(">I", len(value)) + pairs
    return b"j"


def command(*said: Any) -> bytes:
    """Return an entry of a log."""
    return b"\x83" + external(("$usr", {"ts": 7}, said, "noreply"))


def message(*parts: bytes) -> Any:
    """Return a message as a queue has it."""
    content = ("content", 60, "none", PROPERTIES, "amqp", list(reversed(parts)))
    exchange = ("resource", b"/", "exchange", b"")
    return ("basic_message", exchange, [b"k.in"], content, b"id", "true")


def enqueue(number: int, *parts: bytes) -> bytes:
    """Return the entry of a message; ``number``: its channel's for it."""
    return command("enqueue", PROCESS, number, message(*parts))
