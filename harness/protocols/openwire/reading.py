"""Read values of OpenWire in its loose encoding, and commands. Pure: bytes in, values out.

A command is a length, a byte for its type, its number, a flag that requests an answer, and its
fields. An object inside a command begins with a flag that says whether it is present, and a byte
for its type.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from harness.protocols.openwire.steps import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from harness.wire.protocol import Data

MAGIC: Final = b"ActiveMQ"
OLDEST: Final = 10
"""Versions before name messages otherwise."""
TEXT_LENGTH: Final = 4
"""The length field before the characters of a text message, in bytes."""


class NotAFrameError(ValueError):
    """The bytes at this place are not a command."""


class ShortError(Exception):
    """The data ends too soon; more is needed."""


class Reader:
    """Reads one value after the other. Raises ShortError if the data ends, and NotAFrameError for
    impossible values.
    """

    def __init__(self, data: Data, at: int = 0) -> None:
        self._data = data
        self.at = at

    def take(self, size: int) -> bytes:
        """Return the next ``size`` bytes.

        Raises:
            ShortError: fewer are left.
            NotAFrameError: ``size`` is below 0.
        """
        if size < 0:
            raise NotAFrameError(f"something of {size} bytes")
        if self.at + size > len(self._data):
            raise ShortError
        found = bytes(self._data[self.at : self.at + size])
        self.at += size
        return found

    def skip(self, size: int) -> None:
        """Skip ``size`` bytes.

        Raises:
            ShortError: fewer are left.
        """
        if self.at + size > len(self._data):
            raise ShortError
        self.at += size

    def flag(self) -> bool:
        """Read a boolean."""
        return self.byte() != 0

    def byte(self) -> int:
        """Read a number of one byte."""
        return self.take(1)[0]

    def short(self) -> int:
        """Read a number of two bytes."""
        return int.from_bytes(self.take(2))

    def number(self) -> int:
        """Read a number of four bytes."""
        return int.from_bytes(self.take(4), signed=True)

    def long(self) -> int:
        """Read a number of eight bytes."""
        return int.from_bytes(self.take(8), signed=True)

    def text(self) -> str | None:
        """Read an optional text; return ``None`` if it is absent."""
        return self.word() if self.flag() else None

    def word(self) -> str:
        """Read a text without a presence flag."""
        return self.take(self.short()).decode("utf-8", "replace")

    def blob(self) -> bytes | None:
        """Read optional bytes; return ``None`` if they are absent."""
        return self.take(self.number()) if self.flag() else None

    def nested(self, *, within: int = 0) -> Any:
        """Read an optional object and return its name, in OpenWire's notation; ``None`` if it is
        absent.

        Raises:
            NotAFrameError: the object is of an unknown type, or nested too deeply.
        """
        if within > 3:  # noqa: PLR2004 - a transaction has a connection, a message a producer
            raise NotAFrameError("objects within objects")
        if not self.flag():
            return None
        what = self.byte()
        if what not in _OBJECTS:
            raise NotAFrameError(f"an object of type {what}")
        return _OBJECTS[what](self, within + 1)


def _name(*parts: object) -> str:
    return ":".join(str(part) for part in parts)


def _producer(reader: Reader, _within: int) -> str:
    connection, value, session = reader.text(), reader.long(), reader.long()
    return _name(connection, session, value)


def _consumer(reader: Reader, _within: int) -> str:
    return _name(reader.text(), reader.long(), reader.long())


def _message_name(reader: Reader, within: int) -> str:
    view = reader.text()
    producer = reader.nested(within=within)
    number = reader.long()
    _ = reader.long()
    return view or _name(producer, number)


def _local(reader: Reader, within: int) -> str:
    value = reader.long()
    return _name(reader.nested(within=within), value)


def _distributed(reader: Reader, _within: int) -> str:
    _, whole, branch = reader.number(), reader.blob() or b"", reader.blob() or b""
    return _name("xa", whole.hex(), branch.hex())


def _text(reader: Reader, _within: int) -> str | None:
    return reader.text()


_OBJECTS: Final[Mapping[int, Callable[[Reader, int], object]]] = {
    **dict.fromkeys((100, 101, 102, 103), _text),  # destinations
    110: _message_name,
    111: _local,
    112: _distributed,
    120: _text,
    122: _consumer,
    123: _producer,
    121: lambda reader, _: _name(reader.text(), reader.long()),
    124: _text,
}


@dataclass(slots=True)
class CommandFields:
    """The fields of a command. ``number``: its own; ``asks``: it requests an answer; ``answers``:
    the number of its request.
    """

    kind: int
    number: int = 0
    asks: bool = False
    answers: int | None = None
    error: str | None = None
    client: str | None = None
    destination: str | None = None
    transaction: str | None = None
    message: str | None = None
    consumer: str | None = None
    how: int = 0
    """The type of an acknowledgement, or of an operation on a transaction."""
    first: str | None = None
    format: dict[str, Any] = field(default_factory=dict)
    """The options and the version of a peer (its WIREFORMAT_INFO)."""


def said(kind: int, data: Data) -> CommandFields:
    """Read the fields of a command; of a message, those before its properties. ``data`` begins
    after the type.

    Raises:
        ShortError: more data is needed.
        NotAFrameError: the command cannot be read.
    """
    reader = Reader(data)
    if kind == Kind.WIREFORMAT_INFO:
        return CommandFields(kind, format=_format(reader))
    found = CommandFields(kind, reader.number(), reader.flag())
    if kind in Kind.messages():
        _message(reader, found)
    elif kind in _HEADS:
        _HEADS[kind](reader, found)
    elif kind in Kind.responses():
        found.answers = reader.number()
        if kind == Kind.EXCEPTION_RESPONSE:
            name, text = (reader.text(), reader.text()) if reader.flag() else (None, None)
            found.error = f"{(name or 'error').rpartition('.')[2]}: {text}"[:200]
    return found


def _message(reader: Reader, found: CommandFields) -> None:
    reader.nested()  # its producer
    found.destination, found.transaction = reader.nested(), reader.nested()
    reader.nested()  # where it was to go at first
    found.message = reader.nested()


def _dispatch(reader: Reader, found: CommandFields) -> None:
    found.consumer, found.destination = reader.nested(), reader.nested()
    if reader.flag():
        if reader.byte() not in Kind.messages():
            raise NotAFrameError("something is dispatched that is no message")
        reader.number()
        reader.flag()
        _message(reader, inner := CommandFields(0))
        found.message = inner.message


def _acknowledgement(reader: Reader, found: CommandFields) -> None:
    found.destination, found.transaction, found.consumer = (
        reader.nested(),
        reader.nested(),
        reader.nested(),
    )
    found.how = reader.byte()
    found.first, found.message = reader.nested(), reader.nested()


def _transaction(reader: Reader, found: CommandFields) -> None:
    reader.nested()  # the connection
    found.transaction, found.how = reader.nested(), reader.byte()


def _connection(reader: Reader, found: CommandFields) -> None:
    reader.nested()
    found.client = reader.text()


def _subscription(reader: Reader, found: CommandFields) -> None:
    found.consumer = reader.nested()
    reader.flag()
    found.destination = reader.nested()


def _source(reader: Reader, found: CommandFields) -> None:
    reader.nested()
    found.destination = reader.nested()


_HEADS: Final[Mapping[int, Callable[[Reader, CommandFields], None]]] = {
    Kind.MESSAGE_DISPATCH: _dispatch,
    Kind.MESSAGE_ACK: _acknowledgement,
    Kind.TRANSACTION_INFO: _transaction,
    Kind.CONNECTION_INFO: _connection,
    Kind.CONSUMER_INFO: _subscription,
    Kind.PRODUCER_INFO: _source,
}


def _format(reader: Reader) -> dict[str, Any]:
    if reader.take(len(MAGIC)) != MAGIC:
        raise NotAFrameError("a greeting without its first word")
    version = reader.number()
    return {"version": version} | properties(reader.blob())


@dataclass(frozen=True, slots=True)
class Content:
    """The content of a message. ``compressed``: it was not read. ``deliveries``: how often it was
    delivered before.
    """

    body: bytes
    properties: Mapping[str, object]
    compressed: bool
    deliveries: int


def content(data: Data) -> Content:
    """Return the content of the message in a whole command.

    Raises:
        ShortError: more data is needed.
        NotAFrameError: the message cannot be read.
        struct.error: a number is cut off.
    """
    reader = Reader(data, 4)
    kind = reader.byte()
    if dispatched := kind == Kind.MESSAGE_DISPATCH:
        reader.skip(5)
        reader.nested()
        reader.nested()
        kind = reader.byte() and reader.byte()
    reader.skip(5)
    _message(reader, CommandFields(kind))
    reader.nested()  # the transaction that it was in at first
    reader.text()  # group
    reader.skip(4)
    reader.text()  # correlation
    reader.skip(1 + 8 + 1)  # persistent, expiration, priority
    reader.nested()  # where answers go
    reader.skip(8)
    reader.text()  # type
    body, named = reader.blob() or b"", properties(reader.blob())
    compressed, deliveries = False, 0
    if not reader.flag():  # a command within: advisories have one
        reader.nested()
        compressed, deliveries = reader.flag(), reader.number()
    if dispatched:
        deliveries = max(deliveries, Reader(data, len(data) - 4).number())
    return Content(
        body[TEXT_LENGTH:] if kind == Kind.TEXT_MESSAGE else body, named, compressed, deliveries
    )


def properties(data: bytes | None) -> dict[str, object]:
    """Read named values. Reading ends at the first map or list, which is left out with all values
    after it.
    """
    if data is None:
        return {}
    reader = Reader(data)
    found: dict[str, object] = {}
    for _ in range(reader.number()):
        name, kind = reader.word(), reader.byte()
        if kind not in _VALUES:
            return found
        found[name] = _VALUES[kind](reader)
    return found


_VALUES: Final[Mapping[int, Callable[[Reader], object]]] = {
    0: lambda _: None,
    1: Reader.flag,
    2: Reader.byte,
    3: Reader.short,
    4: Reader.short,
    5: Reader.number,
    6: Reader.long,
    7: lambda reader: struct.unpack(">d", reader.take(8))[0],
    8: lambda reader: struct.unpack(">f", reader.take(4))[0],
    9: Reader.word,
    10: lambda reader: reader.take(reader.number()),
    13: lambda reader: reader.take(reader.number()).decode("utf-8", "replace"),
}
