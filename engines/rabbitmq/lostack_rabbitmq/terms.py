"""Read Erlang's external term format, in which the broker keeps what it is told. Pure: bytes in,
values out.

Atoms are texts, tuples are tuples, binaries are bytes; a process, a port, a reference or a function
is its own bytes.
"""

from __future__ import annotations

import struct
from typing import Any, Final

VERSION: Final = 131
_ATOMS: Final = {100: ">H", 115: ">B", 118: ">H", 119: ">B"}
_TUPLES: Final = {104: ">B", 105: ">I"}
_BIGS: Final = {110: ">B", 111: ">I"}
_NUMBERS: Final = {97: ">B", 98: ">i", 70: ">d"}
_STRING, _BITS = 107, 77
_BYTES: Final = {_STRING: ">H", 109: ">I", _BITS: ">I"}
"""A short list of small numbers, a binary, and one whose last byte is not whole."""
_NIL, _LIST, _MAP = 106, 108, 116
_FUN, _EXPORT = 112, 113
_NAMED: Final = {88: 12, 103: 9, 89: 8, 102: 5, 120: 12}
"""Processes and ports: how many bytes follow the atom of their node."""


class NotATermError(ValueError):
    """The bytes are not a term."""


class _Reader:
    def __init__(self, data: bytes, at: int) -> None:
        self.data = data
        self.at = at

    def take(self, size: int) -> bytes:
        end = self.at + size
        if size < 0 or end > len(self.data):
            raise NotATermError("a term is cut off")
        found, self.at = self.data[self.at : end], end
        return found

    def number(self, form: str) -> Any:
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def term(self) -> Any:  # noqa: PLR0911 - one for each kind
        kind = self.number(">B")
        if kind in _NUMBERS:
            return self.number(_NUMBERS[kind])
        if kind in _ATOMS:
            return self.take(self.number(_ATOMS[kind])).decode("utf-8", "replace")
        if kind in _TUPLES:
            return tuple(self.term() for _ in range(self.number(_TUPLES[kind])))
        if kind in _BIGS:
            size, negative = self.number(_BIGS[kind]), self.number(">B")
            value = int.from_bytes(self.take(size), "little")
            return -value if negative else value
        if kind in (_LIST, _NIL):
            return self._list(kind)
        if kind in _BYTES:
            size = self.number(_BYTES[kind])
            found = self.take(size + (kind == _BITS))
            return list(found) if kind == _STRING else found[kind == _BITS :]
        if kind == _MAP:
            return {_key(self.term()): self.term() for _ in range(self.number(">I"))}
        return self._opaque(kind)

    def _list(self, kind: int) -> list[Any]:
        if kind == _NIL:
            return []
        found = [self.term() for _ in range(self.number(">I"))]
        tail = self.term()
        return found if tail == [] else [*found, tail]

    def _opaque(self, kind: int) -> bytes:
        """Return a process, a port, a reference or a function as its own bytes."""
        start = self.at
        if kind in _NAMED:
            self.term()
            self.take(_NAMED[kind])
        elif kind in (90, 114):
            words = self.number(">H")
            self.term()
            self.take(4 * words + (4 if kind == 90 else 1))  # noqa: PLR2004
        elif kind == _FUN:
            self.take(self.number(">I") - 4)
        elif kind == _EXPORT:
            self.term(), self.term(), self.term()
        else:
            raise NotATermError(f"a term of the type {kind}")
        return self.data[start : self.at]


def _key(term: Any) -> Any:
    return tuple(term) if isinstance(term, list) else term


def term(data: bytes) -> Any:
    """Return the term in the data.

    >>> term(bytes([131, 104, 2, 119, 2, 111, 107, 97, 7]))
    ('ok', 7)

    Raises:
        NotATermError: there is none.
    """
    if data[:1] != bytes([VERSION]):
        raise NotATermError("no term begins so")
    try:
        return _Reader(data, 1).term()
    except (TypeError, RecursionError) as error:
        raise NotATermError(f"a term that cannot be read: {error}") from error
