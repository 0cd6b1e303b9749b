"""Put together messages that come in several parts (chunks).

Source: PIP-37. Every part is a frame, names its message by ``uuid``, and has its number. A message
is whole if all its parts have come in order, and together have the size that the last one states. A
part that has come before is skipped, as in the Java client, because a producer that sends the rest
of a message again may start with a part that the broker has.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from harness.protocols.pulsar import payload

if TYPE_CHECKING:
    from harness.protocols.pulsar.protobuf import Message

MOST_MESSAGES: Final = 10_000
"""For how many incomplete messages the parts are kept. Beyond that, the oldest is forgotten."""


class Pieces:
    """The parts of incomplete messages. A message's name begins with its holder (a producer or
    consumer).
    """

    def __init__(self) -> None:
        self._came: OrderedDict[tuple[object, ...], list[bytes]] = OrderedDict()

    def whole(self, name: tuple[object, ...], metadata: Message, part: bytes) -> bytes | None:
        """Return the whole message if this part completes it; ``None`` if parts are still missing.

        Raises:
            NotReadError: the parts together have another size than stated, or more bytes than are
                kept.
        """
        before = self._before(name, metadata)
        if before is None:
            return None
        size = sum(map(len, before)) + len(part)
        if size > payload.MOST_BYTES:
            raise payload.NotReadError(
                f"a message in parts, of more than {payload.MOST_BYTES} bytes"
            )
        if not payload.is_last(metadata):
            return None
        if (
            payload.IN_ALL in metadata
            and (said := metadata.number(payload.IN_ALL)) != size
            and not payload.is_encrypted(metadata)
        ):
            raise payload.NotReadError(f"a message in parts that says {said} bytes, and is {size}")
        return b"".join((*before, part))

    def take(self, name: tuple[object, ...], metadata: Message, part: bytes) -> None:
        """Keep a part that has come. If an earlier part is missing, the message is never whole; a
        repeated part is skipped.
        """
        number = metadata.number(payload.CHUNK)
        before = self._before(name, metadata)
        if before is not None and not payload.is_last(metadata):
            self._came[name] = [*before, part]
            if len(self._came) > MOST_MESSAGES:
                self._came.popitem(last=False)
        elif number >= len(self._came.get(name, ())):
            self._came.pop(name, None)

    def forget(self, holder: object) -> None:
        """Forget the incomplete messages of a holder."""
        for name in [name for name in self._came if name[0] == holder]:
            del self._came[name]

    def _before(self, name: tuple[object, ...], metadata: Message) -> list[bytes] | None:
        """Return the parts before one, where it is the next one, or the first."""
        number = metadata.number(payload.CHUNK)
        came = self._came.get(name, [])
        return [] if number == 0 else came if number == len(came) else None
