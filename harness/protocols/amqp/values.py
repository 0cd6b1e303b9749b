"""Read values of AMQP 1.0. Pure: bytes in, values out.

A value begins with a byte for its type, which also gives its size. A *described* value begins with
a null byte and another value, which gives its meaning.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from harness.wire.protocol import Data

DEEPEST: Final = 16
DESCRIBED, ARRAYS = 0x00, 0xE
_WIDTHS: Final = {0x4: 0, 0x5: 1, 0x6: 2, 0x7: 4, 0x8: 8, 0x9: 16}
"""By the first half of the byte, of what has a fixed size."""
_LENGTHS: Final = {0xA: 1, 0xB: 4, 0xC: 1, 0xD: 4, 0xE: 1, 0xF: 4}
"""Likewise, of what begins with its size: how many bytes that has."""


class NotAValueError(ValueError):
    """The bytes at this place are not a value."""


class ShortError(NotAValueError):
    """The data ends inside a value; more is needed."""


@dataclass(frozen=True, slots=True)
class Described:
    """A value with its descriptor (a number or a name)."""

    what: object
    value: Any

    def field(self, number: int) -> Any:
        """Return a field of a list; ``None`` if it is absent."""
        return (
            self.value[number]
            if isinstance(self.value, list) and number < len(self.value)
            else None
        )


def value(data: Data, at: int, *, within: int = 0) -> tuple[Any, int]:
    """Return the value at ``at``, and the offset of its end.

    >>> value(bytes([0x00, 0x53, 0x24, 0x45]), 0)
    (Described(what=36, value=[]), 4)
    >>> value(bytes([0xC0, 5, 2, 0x52, 7, 0x41, 0x40]), 0)
    ([7, True], 7)

    Raises:
        NotAValueError: there is no value.
    """
    if within > DEEPEST:
        raise NotAValueError("values within values")
    kind = _byte(data, at)
    at += 1
    if kind == DESCRIBED:
        what, at = value(data, at, within=within + 1)
        inner, at = value(data, at, within=within + 1)
        return Described(what, inner), at
    group = kind >> 4
    if group in _WIDTHS:
        end = at + _WIDTHS[group]
        return _fixed(kind, _part(data, at, end)), end
    if group not in _LENGTHS:
        raise NotAValueError(f"a value of type {kind:#04x}")
    size = _LENGTHS[group]
    begin = at + size
    end = begin + int.from_bytes(_part(data, at, begin))
    content = _part(data, begin, end)
    if group in (0xA, 0xB):
        return (content if kind & 0xF == 0 else content.decode("utf-8", "replace")), end
    if group >= ARRAYS:
        return content, end  # the type of its elements is not needed
    return _compound(kind, content, size, within), end


def _compound(
    kind: int, content: bytes, size: int, within: int
) -> list[object] | dict[str, object]:
    if len(content) < size:
        raise NotAValueError("a list that is shorter than its count")
    count, at = int.from_bytes(content[:size]), size
    found = []
    for _ in range(min(count, len(content))):
        try:
            one, at = value(content, at, within=within + 1)
        except ShortError as error:
            raise NotAValueError(f"a value within another: {error}") from error
        found.append(one)
    if kind & 0xF == 0:
        return found
    return {str(name): each for name, each in zip(found[::2], found[1::2], strict=False)}


def _byte(data: Data, at: int) -> int:
    if at >= len(data):
        raise ShortError("a value that ends too soon")
    return data[at]


def _part(data: Data, at: int, end: int) -> bytes:
    if end > len(data):
        raise ShortError("a value that ends too soon")
    return bytes(data[at:end])


_SINGLE: Final[Mapping[int, bool | int | None]] = {
    0x40: None,
    0x41: True,
    0x42: False,
    0x43: 0,
    0x44: 0,
}
_READ: Final[Mapping[int, Callable[[bytes], bool | int | float]]] = {
    0x56: lambda raw: raw != b"\0",
    0x72: lambda raw: struct.unpack(">f", raw)[0],
    0x82: lambda raw: struct.unpack(">d", raw)[0],
    **dict.fromkeys(
        (0x51, 0x54, 0x55, 0x61, 0x71, 0x81, 0x83), lambda raw: int.from_bytes(raw, signed=True)
    ),
    **dict.fromkeys((0x50, 0x52, 0x53, 0x60, 0x70, 0x80), int.from_bytes),
}


def _fixed(kind: int, raw: bytes) -> object:
    if not raw:
        if kind == 0x45:  # noqa: PLR2004 - a list of nothing
            return []
        if kind not in _SINGLE:
            raise NotAValueError(f"a value of type {kind:#04x}")
        return _SINGLE[kind]
    return _READ[kind](raw) if kind in _READ else raw
