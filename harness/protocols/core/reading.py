"""Read packets of Core: fields, and messages with their properties. Pure: bytes in, values out."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from harness.wire.protocol import Data

HEAD: Final = 13
"""Bytes of length, type and channel."""
TEXT: Final = 3
"""The type of a message whose body is a text."""
SHORT, _LONG = 9, 0xFFF
"""How long texts must be to be written in other ways."""
_FIXED: Final = {2: ">?", 3: ">b", 5: ">h", 6: ">i", 7: ">q", 8: ">f", 9: ">d", 11: ">H"}
"""How values of properties are written, by their types."""
_NULL, _BYTES, _STRING = 0, 4, 10


class NotAPacketError(ValueError):
    """The bytes at this place are not a packet."""


class Reader:
    """Reads one value after the other. Raises NotAPacketError if the data ends too soon."""

    def __init__(self, data: Data, at: int = 0) -> None:
        self._data = memoryview(data)
        self.at = at

    def one(self, form: str) -> Any:
        """Read a value in a format of :mod:`struct`."""
        return struct.unpack(form, self.some(struct.calcsize(form)))[0]

    def some(self, size: int) -> bytes:
        """Read ``size`` bytes.

        Raises:
            NotAPacketError: fewer are left.
        """
        if size < 0 or size > len(self._data) - self.at:
            raise NotAPacketError(f"{size} bytes where {len(self._data) - self.at} are left")
        self.at += size
        return bytes(self._data[self.at - size : self.at])

    def text(self) -> str:
        """Read a text, which has one of three encodings, depending on its length."""
        size = self.one(">i")
        if size < SHORT:
            return self.some(2 * size).decode("utf-16-be", "replace")
        return (
            self.some(self.one(">H")).decode("utf-8", "replace") if size < _LONG else self.simple()
        )

    def simple(self) -> str:
        """Read a text of Core's type SimpleString, which has two bytes for each character."""
        return self.some(self.one(">i")).decode("utf-16-le", "replace")

    def maybe(self, kind: str) -> str | None:
        """Read an optional text of a kind (``text`` or ``simple``); return ``None`` if it is
        absent.
        """
        return getattr(self, kind)() if self.one(">b") else None

    def properties(self) -> dict[str, object]:
        """Read the properties of a message."""
        if not self.one(">b"):
            return {}
        found = {}
        for _ in range(self.one(">i")):
            name = self.simple()
            found[name] = self._value(self.one(">b"))
        return found

    def _value(self, kind: int) -> object:
        if kind == _NULL:
            return None
        if kind == _BYTES:
            return self.some(self.one(">i"))
        if kind == _STRING:
            return self.simple()
        if kind not in _FIXED:
            raise NotAPacketError(f"a property of type {kind}")
        return self.one(_FIXED[kind])


@dataclass(frozen=True, slots=True)
class Message:
    """A message. ``number``: the broker's number for it, or 0 if it has none yet."""

    number: int
    address: str | None
    body: bytes
    properties: dict[str, object] = field(default_factory=dict)


def message(data: Data) -> Message:
    """Read the message of a whole packet, SESS_SEND or SESS_RECEIVE_MSG.

    Raises:
        NotAPacketError: it cannot be read.
    """
    reader = Reader(data, HEAD)
    body = reader.some(reader.one(">i") - HEAD)
    number, address = reader.one(">q"), reader.maybe("simple")
    if reader.one(">b"):
        reader.some(16)  # what the client calls it
    kind = reader.one(">b")
    reader.some(1 + 8 + 8 + 1)  # whether it is kept, until when, since when, how urgent it is
    found = reader.properties()
    if kind == TEXT:
        body = (Reader(body).maybe("simple") or "").encode()
    return Message(number, address, body, found)


@dataclass(frozen=True, slots=True)
class Session:
    """The parameters of a new session.

    ``sends_bound`` and ``acknowledges_bound``: whether its messages, or its acknowledgements, take
    effect only with its commit.
    """

    channel: int
    version: int
    sends_bound: bool
    acknowledges_bound: bool
    acknowledged_before: bool
    client: str | None


def session(data: Data, *, names_client: bool) -> Session:
    """Read a whole CREATESESSION packet, in either of its two forms.

    Raises:
        NotAPacketError: it cannot be read.
    """
    reader = Reader(data, HEAD)
    reader.text()
    channel, version = reader.one(">q"), reader.one(">i")
    reader.maybe("text")
    reader.maybe("text")
    reader.some(4 + 1)
    sends, acknowledgements = reader.one(">?"), reader.one(">?")
    reader.some(4)
    before = reader.one(">?")
    reader.maybe("text")
    return Session(
        channel,
        version,
        not sends,
        not acknowledgements,
        before,
        reader.maybe("text") if names_client else None,
    )


def branch(data: Data) -> str:
    """Return the name of the distributed transaction that a whole packet is about.

    Raises:
        NotAPacketError: it cannot be read.
    """
    reader = Reader(data, HEAD)
    reader.one(">i")
    own, whole = reader.some(reader.one(">i")), reader.some(reader.one(">i"))
    return f"xa:{whole.hex()}:{own.hex()}"


def refusal(data: Data) -> str | None:
    """Return the reason of the refusal in a whole SESS_XA_RESP packet; ``None`` if it does not
    refuse.

    Raises:
        NotAPacketError: it cannot be read.
    """
    reader = Reader(data, HEAD)
    refuses, code = reader.one(">?"), reader.one(">i")
    return f"{reader.maybe('text') or 'refused'} ({code})" if refuses else None


def error(data: Data) -> str:
    """Return the reason of the refusal in a whole EXCEPTION packet.

    Raises:
        NotAPacketError: it cannot be read.
    """
    reader = Reader(data, HEAD)
    code = reader.one(">i")
    return f"{reader.maybe('text') or 'refused'} ({code})"
