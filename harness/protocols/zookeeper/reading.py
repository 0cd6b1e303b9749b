"""Read Jute, the encoding of ZooKeeper's frames: big-endian numbers, and values of variable size
after their length. Pure.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from harness.protocols.zookeeper.steps import CREATES, OPCODES, WITH_DATA, Op

if TYPE_CHECKING:
    from collections.abc import Iterator

_INT: Final = struct.Struct(">i")
_MULTI_HEADER: Final = struct.Struct(">i?i")
"""The header of each operation in a ``multi`` request: its type, whether it is the end mark, an
error.
"""
FAILED: Final = -1
"""What an operation is called in an answer that says why all were refused; and what stands behind
the last one.
"""


class UnreadableError(ValueError):
    """The bytes end too soon, or hold an impossible value."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation on a node, with the node's new data if the operation has it."""

    path: str
    data: bytes = b""


class Cursor:
    """Reads one field after the other. Each read raises :class:`UnreadableError`."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self._data = data
        self.at = at

    def number(self) -> int:
        """Read 4 bytes."""
        return int(self.unpack(_INT)[0])

    def unpack(self, what: struct.Struct) -> tuple[int, ...]:
        """Read a structure."""
        return what.unpack(self._take(what.size))

    def buffer(self) -> bytes:
        """Read bytes after their length. Length -1 stands for no bytes.

        Raises:
            UnreadableError: the length is below -1.
        """
        size = self.number()
        if size < -1:
            raise UnreadableError(f"a length of {size}")
        return self._take(max(size, 0))

    def skip(self, size: int) -> None:
        """Skip bytes."""
        self._take(size)

    def text(self) -> str:
        """Read a text after its length."""
        return self.buffer().decode("utf-8", "replace")

    def _take(self, size: int) -> bytes:
        taken = self._data[self.at : self.at + size]
        if len(taken) != size:
            raise UnreadableError(f"it ends {size - len(taken)} bytes too soon")
        self.at += size
        return taken


def operation(cursor: Cursor, op: Op | None) -> Operation:
    """Read an operation that begins with a path, up to the end of its data."""
    path = cursor.text()
    return Operation(path, cursor.buffer() if op in WITH_DATA else b"")


def operations(cursor: Cursor) -> Iterator[Operation]:
    """Read the operations of a ``multi`` request.

    Raises:
        UnreadableError: an operation is of an unknown type.
    """
    while True:
        number, done, _ = cursor.unpack(_MULTI_HEADER)
        if done:
            return
        op = OPCODES.get(number)
        yield operation(cursor, op)
        if op in CREATES:
            for _ in range(cursor.number()):
                cursor.skip(_INT.size)
                cursor.buffer()
                cursor.buffer()
            cursor.skip(_INT.size + (8 if op is Op.CREATE_TTL else 0))
        elif op in (Op.SET_DATA, Op.DELETE, Op.CHECK):
            cursor.skip(_INT.size)
        else:
            raise UnreadableError(f"an operation {number} among several")


def refused(cursor: Cursor) -> int:
    """Return the first error in the answer to a ``multi`` request, in which all operations are
    refused, or none is.
    """
    while True:
        number, done, _ = cursor.unpack(_MULTI_HEADER)
        if done or number != FAILED:
            return 0
        if error := cursor.number():
            return error
