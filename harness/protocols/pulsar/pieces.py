"""Messages that come in several parts (chunks), put together again.

Source: PIP-37; every part names the message by ``uuid``, says which part it is, and is a frame of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.protocols.pulsar import frames, payload

if TYPE_CHECKING:
    from harness.wire.rules import Direction

MOST_MESSAGES: Final = 10_000
"""Of how many messages the parts are kept; beyond that the oldest is forgotten."""


class Pieces:
    """What has come of messages whose last part is still to come, on one connection."""

    def __init__(self) -> None:
        self._before: dict[tuple[Direction, str], bytes] = {}

    def whole(self, way: Direction, outlined: frames.Outline, data: bytes, *, last: bool) -> bytes | None:
        """Return a payload that is whole, and None before the last part of one that comes in several.

        Raises:
            NotReadError: the checksum is wrong, or the parts together have more bytes than are kept.
        """
        if not frames.is_sound(outlined, data):
            raise payload.NotReadError("a message whose checksum is wrong")
        metadata, part = outlined.metadata, data[outlined.payload :]
        if not payload.is_chunk(metadata):
            return part
        name = (way, metadata.text(payload.UUID))
        before = self._before.pop(name, b"") if metadata.number(payload.CHUNK) else b""
        if len(before) + len(part) > payload.MOST_BYTES:
            raise payload.NotReadError(f"a message in parts, of more than {payload.MOST_BYTES} bytes")
        if last:
            return before + part
        self._before[name] = before + part
        if len(self._before) > MOST_MESSAGES:
            self._before.pop(next(iter(self._before)))
        return None
