"""RESP, versions 2 and 3: find values in a byte stream, and make commands. Pure: bytes in, values
out.

A command is an array of bulk strings. An answer is any value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.wire.protocol import Data

Value: TypeAlias = "bytes | int | Refusal | list[Value] | None"
"""A map is the list of its keys and values in turn. Of the types that are one line, a number is an
integer, and every other is its text.
"""
MOST_DEEP: Final = 64
"""How deep values may be nested."""
MOST_VALUES: Final = 1 << 20
"""How many values an array may have."""
LONGEST: Final = 1 << 16
"""How many bytes a line may have."""
LARGEST: Final = 1 << 30
"""How many bytes a string may have."""
_LINES: Final = b"+-:_,#("
_STRINGS: Final = b"$!="
_LISTS: Final = b"*~>%|"
_PAIRS: Final = b"%|"
END: Final = b"\r\n"


class NotRespError(ValueError):
    """The bytes at this place are no value."""


class ShortError(Exception):
    """The value is not complete. ``need``: how many bytes it has at least, from the beginning of
    the data; ``whole``: whether it ends there.
    """

    def __init__(self, need: int, *, whole: bool = False) -> None:
        super().__init__(need)
        self.need = need
        self.whole = whole


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error that the server answers."""

    text: bytes

    @property
    def name(self) -> str:
        """Its first word, such as WRONGTYPE."""
        return self.text.split(b" ", 1)[0].decode("ascii", "replace") or "ERR"


@dataclass(slots=True)
class Reader:
    """Reads values from data, one after another."""

    data: Data
    at: int = 0

    def value(self, deep: int = 0, *, last: bool = True) -> Value:
        r"""Return the next value. ``last``: nothing follows that belongs to the same outer value.

        >>> Reader(b"*2\r\n$1\r\na\r\n:7\r\n").value()
        [b'a', 7]

        Raises:
            NotRespError: there is none.
            ShortError: it is not complete.
        """
        if deep > MOST_DEEP:
            raise NotRespError(f"values nested more than {MOST_DEEP} deep")
        kind, said = self._line()
        if kind in _LINES:
            return _of_line(kind, said)
        if kind in _STRINGS:
            return self._string(kind, said, last=last)
        count = _number(said, MOST_VALUES)
        if count < 0:
            return None
        count *= 2 if kind in _PAIRS else 1
        ends = last and kind != b"|"
        values = [self.value(deep + 1, last=ends and n == count - 1) for n in range(count)]
        if kind == b"|":  # attributes, which stand before the value that they are about
            return self.value(deep + 1, last=last)
        return values

    def kind(self) -> bytes:
        """Return the first byte of the next value."""
        return bytes(self.data[self.at : self.at + 1])

    def _line(self) -> tuple[bytes, bytes]:
        kind = self.kind()
        if kind and kind not in _LINES + _STRINGS + _LISTS:
            raise NotRespError(f"a value that begins with {kind!r}")
        line = bytes(self.data[self.at : self.at + LONGEST])
        end = line.find(END)
        if end < 0:
            if len(line) == LONGEST:
                raise NotRespError(f"a line of more than {LONGEST} bytes")
            raise ShortError(len(self.data) + 1)
        self.at += end + len(END)
        return kind, line[1:end]

    def _string(self, kind: bytes, said: bytes, *, last: bool) -> bytes | Refusal | None:
        size = _number(said, LARGEST)
        if size < 0:
            return None
        end = self.at + size + len(END)
        if end > len(self.data):
            raise ShortError(end, whole=last)
        text = bytes(self.data[self.at : end - len(END)])
        if bytes(self.data[end - len(END) : end]) != END:
            raise NotRespError(f"a string longer than its {size} bytes")
        self.at = end
        return Refusal(text) if kind == b"!" else text


def _of_line(kind: bytes, said: bytes) -> bytes | int | Refusal | None:
    if kind == b":":
        return _number(said, 1 << 64, least=-(1 << 64))
    if kind == b"_":
        return None
    return Refusal(said) if kind == b"-" else said


def _number(said: bytes, most: int, least: int = -1) -> int:
    digits = said[1:] if said[:1] in (b"-", b"+") else said
    if not digits.isdigit() or len(digits) > len(str(1 << 64)) or not least <= int(said) <= most:
        raise NotRespError(f"a number {said[:20]!r}")
    return int(said)


def values(data: Data) -> Iterator[tuple[int, int, Value]]:
    """Yield each complete value in some data: where it begins, where it ends, and itself. A value
    that is cut off at the end is left out.

    Raises:
        NotRespError: something else stands there.
    """
    reader = Reader(data)
    while (at := reader.at) < len(data):
        try:
            value = reader.value()
        except ShortError:
            return
        yield at, reader.at, value


def command(*words: bytes | str) -> bytes:
    r"""Make a command.

    >>> command("XACK", b"q", b"g", b"1-0")
    b'*4\r\n$4\r\nXACK\r\n$1\r\nq\r\n$1\r\ng\r\n$3\r\n1-0\r\n'
    """
    raw = [word.encode() if isinstance(word, str) else word for word in words]
    return b"*%d\r\n" % len(raw) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in raw)


def words(value: Value) -> tuple[bytes, ...]:
    """Return the words of a command; nothing if the value is no command.

    >>> words([b"PING"]), words([7]), words(b"OK")
    ((b'PING',), (), ())
    """
    if not isinstance(value, list):
        return ()
    found = tuple(word for word in value if isinstance(word, bytes))
    return found if len(found) == len(value) else ()
