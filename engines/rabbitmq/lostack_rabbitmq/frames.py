"""Read frames of AMQP 0-9-1, the arguments of methods, and a message's properties. Pure: bytes in,
values out.

A frame is ``type, channel, size, payload, 0xCE``. A message is the frame of its method, one of its
properties, and those of its body.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.wire.protocol import Data

GREETING: Final = b"AMQP\x00\x00\x09\x01"
HEAD: Final = 7
METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
_TYPES: Final = frozenset({METHOD, HEADER, BODY, HEARTBEAT})
_END: Final = b"\xce"
DEEPEST: Final = 16
"""How deep tables may lie in tables."""


class NotAFrameError(ValueError):
    """The bytes are not of this protocol."""


@dataclass(frozen=True, slots=True)
class Head:
    """The beginning of a frame. ``size``: of all of it."""

    kind: int
    channel: int
    size: int


def head_at(data: Data) -> Head | None:
    """Return the head of the frame at the beginning of the data; ``None``: more is needed.

    >>> head_at(bytes([8, 0, 0, 0, 0, 0, 0, 0xCE]))
    Head(kind=8, channel=0, size=8)

    Raises:
        NotAFrameError: no frame begins so.
    """
    if len(data) and data[0] not in _TYPES:
        raise NotAFrameError(f"a frame of the type {data[0]}")
    if len(data) < HEAD:
        return None
    kind, channel, size = struct.unpack_from(">BHI", data)
    if kind == HEARTBEAT and size:
        raise NotAFrameError("a heart-beat with a payload")
    return Head(kind, channel, HEAD + size + 1)


def payload(frame: Data) -> bytes:
    """Return the payload of a whole frame.

    Raises:
        NotAFrameError: the frame does not end where it says.
    """
    if bytes(frame[-1:]) != _END:
        raise NotAFrameError("a frame without its end")
    return bytes(frame[HEAD:-1])


class Reader:
    """Reads values one after the other. Each method raises NotAFrameError where there is none."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self, form: str) -> Any:
        """Return one number, in a form of ``struct``."""
        size = struct.calcsize(f">{form}")
        return struct.unpack(f">{form}", self.bytes(size))[0]

    def bytes(self, size: int) -> bytes:
        """Return so many bytes."""
        end = self._at + size
        if end > len(self._data):
            raise NotAFrameError("a value is cut off")
        found, self._at = self._data[self._at : end], end
        return found

    def short(self) -> str:
        """Return a short string."""
        return self.bytes(self.number("B")).decode("utf-8", "replace")

    def table(self, within: int = 0) -> dict[str, Any]:
        """Return a table."""
        inner = Reader(self.bytes(self.number("I")))
        found = {}
        while inner.more:
            name = inner.short()
            found[name] = inner.value(within + 1)
        return found

    @property
    def more(self) -> bool:
        """Whether anything is left."""
        return self._at < len(self._data)

    def value(self, within: int) -> Any:  # noqa: PLR0911 - one for each type
        """Return a value of a table, whose type comes first."""
        if within > DEEPEST:
            raise NotAFrameError(f"more than {DEEPEST} tables in each other")
        kind = chr(self.number("B"))
        match kind:
            case "S" | "x":
                raw = self.bytes(self.number("I"))
                return raw.decode("utf-8", "replace") if kind == "S" else raw
            case "F":
                return self.table(within)
            case "A":
                inner = Reader(self.bytes(self.number("I")))
                found = []
                while inner.more:
                    found.append(inner.value(within + 1))
                return found
            case "D":
                places, digits = self.number("B"), self.number("i")
                return digits / 10**places
            case "V":
                return None
            case "t":
                return bool(self.number("B"))
        if kind not in _NUMBERS:
            raise NotAFrameError(f"a value of the type {kind!r}")
        return self.number(_NUMBERS[kind])


_NUMBERS: Final = dict(zip("bBsuIilfdT", "bBhHiiqfdQ", strict=True))
"""RabbitMQ's types of numbers, and those of ``struct``."""
_PROPERTIES: Final = (
    ("content-type", "s"),
    ("content-encoding", "s"),
    ("headers", "F"),
    ("delivery-mode", "B"),
    ("priority", "B"),
    ("correlation-id", "s"),
    ("reply-to", "s"),
    ("expiration", "s"),
    ("message-id", "s"),
    ("timestamp", "Q"),
    ("type", "s"),
    ("user-id", "s"),
    ("app-id", "s"),
    ("cluster-id", "s"),
)


def properties(data: bytes) -> dict[str, Any]:
    """Return the properties of a message with its headers among them, from its flags on.

    Raises:
        NotAFrameError: they are none.
    """
    reader = Reader(data)
    flags = reader.number("H")
    found: dict[str, Any] = {}
    for place, (name, kind) in enumerate(_PROPERTIES):
        if not flags & 1 << 15 - place:
            continue
        if kind == "F":
            found = {**reader.table(), **found}
        else:
            found[name] = reader.short() if kind == "s" else reader.number(kind)
    return found


@dataclass(frozen=True, slots=True)
class Method:
    """A method: the numbers of its class and its own, and those of its arguments that are read."""

    number: tuple[int, int]
    said: Mapping[str, Any] = field(default_factory=dict)


_ARGUMENTS: Final[Mapping[tuple[int, int], str]] = {
    (10, 11): "client-properties:F",
    (10, 31): "channel-max:H frame-max:I heartbeat:H",
    (10, 50): "code:H message:s",
    (20, 40): "code:H message:s",
    (50, 10): "-:H queue:s",
    (50, 11): "queue:s",
    (60, 20): "-:H queue:s consumer:s bits:B",
    (60, 21): "consumer:s",
    (60, 40): "-:H exchange:s key:s bits:B",
    (60, 50): "code:H message:s exchange:s key:s",
    (60, 60): "consumer:s tag:Q bits:B exchange:s key:s",
    (60, 70): "-:H queue:s bits:B",
    (60, 71): "tag:Q bits:B exchange:s key:s",
    (60, 80): "tag:Q bits:B",
    (60, 90): "tag:Q bits:B",
    (60, 120): "tag:Q bits:B",
}
"""By method, the arguments that are read; those behind them are not."""


def method(data: bytes) -> Method:
    """Return the method in a payload.

    Raises:
        NotAFrameError: it is none.
    """
    reader = Reader(data)
    number = reader.number("H"), reader.number("H")
    said: dict[str, Any] = {}
    for argument in _ARGUMENTS.get(number, "").split():
        name, _, kind = argument.partition(":")
        said[name] = (
            reader.table()
            if kind == "F"
            else reader.short()
            if kind == "s"
            else reader.number(kind)
        )
    return Method(number, said)


def content(data: bytes) -> tuple[int, bytes]:
    """Return the size of a message's body, and its properties from their flags on.

    Raises:
        NotAFrameError: this is no such frame.
    """
    reader = Reader(data)
    reader.bytes(4)
    return reader.number("Q"), data[12:]
