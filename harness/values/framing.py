"""What clients of a schema registry put in front of a value: a zero, the schema's id, and of Protobuf which message it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

HEAD = 5
"""Bytes: a zero, and the id of a schema."""
MORE = 0x80
"""Of a byte of a number: there is another one."""


def unframed(value: bytes) -> Iterator[bytes]:
    r"""Yield what a value may hold: without its head, where it looks like one, then the value itself.

    >>> list(unframed(b"\0\0\0\0\7x")), list(unframed(b"x"))
    ([b'x', b'\x00\x00\x00\x00\x07x'], [b'x'])
    """
    if len(value) > HEAD and value[0] == 0:
        yield value[HEAD:]
    yield value


def schema_id(value: bytes) -> int | None:
    r"""Return the schema's id in a value's head, or ``None`` where the value has no head.

    >>> schema_id(b"\0\0\0\1\7x"), schema_id(b'{"id": 1}'), schema_id(b"\0\0")
    (263, None, None)
    """
    return int.from_bytes(value[1:HEAD], "big") if len(value) >= HEAD and value[0] == 0 else None


def indexes(data: bytes) -> tuple[tuple[int, ...], bytes]:
    r"""Return which message of its schema a Protobuf message is, and the message itself.

    ``(2, 0)`` is the first message inside the third one. A lone zero stands for the first message.

    >>> indexes(b"\0abc"), indexes(b"\4\4\0abc")
    (((0,), b'abc'), ((2, 0), b'abc'))
    """
    count, at = _number(data, 0)
    found = []
    for _ in range(min(count, len(data))):
        index, at = _number(data, at)
        found.append(index)
    return tuple(found) or (0,), data[at:]


def without_indexes(data: bytes) -> bytes:
    r"""Return a Protobuf message without the list of numbers in front that says which message of its schema it is.

    >>> without_indexes(b"\0abc"), without_indexes(b"\4\2\0abc")
    (b'abc', b'abc')
    """
    return indexes(data)[1]


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Return a zigzag number, and where what follows begins; 0 where there is none."""
    raw = shift = 0
    while at < len(data):
        byte = data[at]
        raw |= (byte & (MORE - 1)) << shift
        at, shift = at + 1, shift + 7
        if not byte & MORE:
            break
    return (raw >> 1) ^ -(raw & 1), at
