"""The part of Protocol Buffers that Pulsar's commands need: read and write fields by their numbers.
Pure.

A message is a sequence of fields, each with a number and one of four encodings. Names and meanings
are not in the data; the code that reads a field knows them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Value: TypeAlias = int | bytes
VARINT, EIGHT_BYTES, SIZED, FOUR_BYTES = 0, 1, 2, 5
_FIXED: Final = {EIGHT_BYTES: 8, FOUR_BYTES: 4}
MOST_VARINT_BYTES: Final = 10
_SIGN: Final = 1 << 63
_ALL: Final = 1 << 64


class MalformedError(ValueError):
    """The bytes are not a message."""


class Message:
    """A message that was read. An absent field has the caller's default; of a repeated field the
    last value counts.
    """

    def __init__(self, data: bytes | memoryview) -> None:
        """Read the whole of ``data``.

        Raises:
            MalformedError: ``data`` is not a message.
        """
        self._fields: dict[int, list[Value]] = {}
        at, end = 0, len(data)
        while at < end:
            key, at = varint(data, at)
            number, kind = key >> 3, key & 7
            value: Value
            if kind == VARINT:
                value, at = varint(data, at)
            elif kind in (SIZED, *_FIXED):
                size, at = varint(data, at) if kind == SIZED else (_FIXED[kind], at)
                if size > end - at:
                    raise MalformedError(
                        f"field {number} of {size} bytes, and there are {end - at}"
                    )
                value, at = bytes(data[at : at + size]), at + size
            else:
                raise MalformedError(f"an encoding {kind}")
            if number == 0:
                raise MalformedError("a field without a number")
            self._fields.setdefault(number, []).append(value)

    def __contains__(self, number: int) -> bool:
        return number in self._fields

    def number(self, number: int, default: int = 0) -> int:
        """Return an unsigned integer.

        Raises:
            MalformedError: the field is not an integer.
        """
        return self.numbers(number)[-1] if number in self._fields else default

    def signed(self, number: int, default: int = 0) -> int:
        """Return a signed integer.

        >>> Message(made({1: -1})).signed(1), Message(made({1: -1})).number(1) == 2**64 - 1
        (-1, True)
        """
        value = self.number(number, default)
        return value - _ALL if value >= _SIGN else value

    def numbers(self, number: int) -> list[int]:
        """Return every integer of a repeated field that is not packed.

        Raises:
            MalformedError: a value is not an integer.
        """
        found = self._fields.get(number, [])
        if not all(isinstance(each, int) for each in found):
            raise MalformedError(f"field {number} is no integer")
        return [each for each in found if isinstance(each, int)]

    def raws(self, number: int) -> list[bytes]:
        """Return the bytes of every value of a field.

        Raises:
            MalformedError: a value is an integer.
        """
        found = self._fields.get(number, [])
        if not all(isinstance(each, bytes) for each in found):
            raise MalformedError(f"field {number} is an integer")
        return [each for each in found if isinstance(each, bytes)]

    def raw(self, number: int) -> bytes:
        """Return the bytes of a field; empty if it is absent."""
        return self.raws(number)[-1] if number in self._fields else b""

    def text(self, number: int, default: str = "") -> str:
        """Return a field as text."""
        return self.raw(number).decode("utf-8", "replace") if number in self._fields else default

    def inner(self, number: int) -> Message:
        """Return the message in a field; an empty one if it is absent.

        Raises:
            MalformedError: the field is not a message.
        """
        return Message(self.raw(number))

    def inners(self, number: int) -> list[Message]:
        """Return the message in every value of a field.

        Raises:
            MalformedError: a value is not a message.
        """
        return [Message(each) for each in self.raws(number)]


def varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    r"""Return the integer (below 2**64) at ``at``, and the offset of its end.

    >>> varint(b"\xac\x02", 0)
    (300, 2)

    Raises:
        MalformedError: the integer is too large, or cut off.
    """
    value = shift = 0
    for byte in data[at : at + MOST_VARINT_BYTES]:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:  # noqa: PLR2004 - the highest bit says that there is more
            return value & (_ALL - 1), at + shift // 7
    raise MalformedError("an integer that does not end")


def put(value: int) -> bytes:
    r"""Encode an integer.

    >>> put(300)
    b'\xac\x02'
    """
    value &= _ALL - 1
    written = bytearray()
    while value >= 0x80:  # noqa: PLR2004 - as above
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*written, value))


def made(fields: Mapping[int, Value | str | Iterable[Value]]) -> bytes:
    r"""Encode a message with these fields. A field with several values is repeated.

    >>> made({1: 5, 2: "a", 3: [b"b", b""]})
    b'\x08\x05\x12\x01a\x1a\x01b\x1a\x00'
    """
    written = bytearray()
    for number, said in fields.items():
        for value in [said] if isinstance(said, int | bytes | str) else said:
            raw = value.encode() if isinstance(value, str) else value
            if isinstance(raw, int):
                written += put(number << 3 | VARINT) + put(raw)
            else:
                written += put(number << 3 | SIZED) + put(len(raw)) + raw
    return bytes(written)
