"""The header that a schema registry's clients put in front of a value: a zero, the schema's id and,
for Protobuf, the message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

HEAD = 5
"""Length of the header in bytes: one zero byte and the schema's id in four."""
MORE = 0x80
"""This bit of a number's byte says that another byte follows."""


def unframed(value: bytes) -> Iterator[bytes]:
    r"""Yield the candidates for the payload: the value without its header (if it seems to have
    one), then the whole value.

    >>> list(unframed(b"\0\0\0\0\7x")), list(unframed(b"x"))
    ([b'x', b'\x00\x00\x00\x00\x07x'], [b'x'])
    """
    if len(value) > HEAD and value[0] == 0:
        yield value[HEAD:]
    yield value


def schema_id(value: bytes) -> int | None:
    r"""Return the schema's id from a value's header, or ``None`` if the value has no header.

    >>> schema_id(b"\0\0\0\1\7x"), schema_id(b'{"id": 1}'), schema_id(b"\0\0")
    (263, None, None)
    """
    return int.from_bytes(value[1:HEAD], "big") if len(value) >= HEAD and value[0] == 0 else None


def indexes(data: bytes) -> tuple[tuple[int, ...], bytes]:
    r"""Split a Protobuf payload into the indexes of its message type in the schema, and the
    message's bytes.

    ``(2, 0)`` is the first type inside the third one. A single zero byte stands for the first type.

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
    r"""Return a Protobuf message without the indexes of its message type in front.

    >>> without_indexes(b"\0abc"), without_indexes(b"\4\2\0abc")
    (b'abc', b'abc')
    """
    return indexes(data)[1]


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Return the zigzag number at ``at`` and the offset behind it; the number 0 if the data ends
    before.
    """
    raw = shift = 0
    while at < len(data):
        byte = data[at]
        raw |= (byte & (MORE - 1)) << shift
        at, shift = at + 1, shift + 7
        if not byte & MORE:
            break
    return (raw >> 1) ^ -(raw & 1), at
