"""What clients of a schema registry put in front of a value: a zero, the schema's number, and of Protobuf which message it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

HEAD = 5
"""Bytes: a zero, and the number of a schema."""
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


def without_indexes(data: bytes) -> bytes:
    r"""Return a Protobuf message without the list of numbers in front that says which message of its schema it is.

    >>> without_indexes(b"\0abc"), without_indexes(b"\4\2\0abc")
    (b'abc', b'abc')
    """
    count, at = _number(data, 0)
    for _ in range(count):
        _, at = _number(data, at)
    return data[at:]


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
