"""Read frames of AMQP 1.0, and the sections of a message. Pure: bytes in, values out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from harness.protocols.amqp import values
from harness.protocols.amqp.steps import DESCRIPTORS, Performative
from harness.protocols.amqp.values import Described, NotAValueError, ShortError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.wire.protocol import Data

HEAD: Final = 8
"""The length in bytes of a frame's header, and of the protocol greeting."""
MOST_BYTES: Final = 1 << 30
MAGIC: Final = b"AMQP"
SASL, PLAIN = 3, 0
"""The protocol that a greeting asks for."""
SASL_FRAME: Final = 1
RECEIVED, ACCEPTED, REJECTED, TRANSACTIONAL, DECLARED = 0x23, 0x24, 0x25, 0x34, 0x33
COORDINATOR, DECLARE, DISCHARGE = 0x30, 0x31, 0x32
HEADER, APPLICATION_PROPERTIES, DATA, VALUE = 0x70, 0x74, 0x75, 0x77


class NotAFrameError(ValueError):
    """The bytes at this place are not a frame."""


@dataclass(frozen=True, slots=True)
class Body:
    """The body of a frame. ``end``: its end; a message, or a part of one, follows there."""

    step: Performative
    channel: int = 0
    fields: tuple[Any, ...] = ()
    end: int = 0

    def field(self, number: int) -> Any:
        """Return a field; ``None`` if it is absent."""
        return self.fields[number] if number < len(self.fields) else None


def greeting(data: Data) -> bool | None:
    """Return whether the data begins with a greeting; ``None`` if more data is needed to tell.

    Raises:
        NotAFrameError: the greeting is of another protocol or version.
    """
    if bytes(data[: len(MAGIC)]) != MAGIC[: len(data)]:
        return False
    if len(data) < HEAD:
        return None
    if data[len(MAGIC)] not in (SASL, PLAIN):
        raise NotAFrameError(f"a greeting that asks for {data[len(MAGIC)]}")
    return True


def size(data: Data) -> int:
    """Return the size of the frame whose header is at the beginning of the data.

    Raises:
        NotAFrameError: the header is not that of a frame.
    """
    found = int.from_bytes(data[:4])
    if not HEAD <= found <= MOST_BYTES or not HEAD <= data[4] * 4 <= found:
        raise NotAFrameError(f"a frame of {found} bytes, with {data[4]} words before its body")
    return found


def body(data: Data) -> Body:
    """Read the body of a frame. The message after it may be incomplete.

    Raises:
        NotAFrameError: the body cannot be read.
        ShortError: more data is needed.
    """
    channel = int.from_bytes(data[6:8])
    if data[5] == SASL_FRAME:
        return Body(Performative.SASL)
    try:
        said, end = values.value(data, data[4] * 4)
    except ShortError:
        raise
    except NotAValueError as error:
        raise NotAFrameError(str(error)) from error
    if (
        not isinstance(said, Described)
        or not isinstance(said.what, int)
        or said.what not in DESCRIPTORS
        or not isinstance(said.value, list)
    ):
        raise NotAFrameError("a frame that says nothing that is known")
    return Body(DESCRIPTORS[said.what], channel, tuple(said.value), end)


@dataclass(frozen=True, slots=True)
class Message:
    """The content of a message. ``said``: its value section, if any. ``deliveries``: how often it
    was delivered before.
    """

    content: bytes = b""
    properties: Mapping[str, object] = field(default_factory=dict)
    said: Described | None = None
    deliveries: int = 0


def message(data: Data) -> Message:
    """Read the sections of a message.

    Raises:
        NotAFrameError: they cannot be read.
    """
    content: Any = b""
    named: Mapping[str, object] = {}
    said, deliveries, at = None, 0, 0
    while at < len(data):
        try:
            section, at = values.value(data, at)
        except NotAValueError as error:
            raise NotAFrameError(f"a message: {error}") from error
        if not isinstance(section, Described):
            raise NotAFrameError("a message that has no sections")
        if section.what == HEADER and isinstance(section.field(4), int):
            deliveries = section.field(4)
        elif section.what == APPLICATION_PROPERTIES and isinstance(section.value, dict):
            named = section.value
        elif section.what == DATA and isinstance(section.value, bytes):
            content += section.value
        elif section.what == VALUE and isinstance(section.value, Described):
            said = section.value
        elif section.what == VALUE:
            content = section.value.encode() if isinstance(section.value, str) else section.value
    return Message(content if isinstance(content, bytes) else b"", named, said, deliveries)
