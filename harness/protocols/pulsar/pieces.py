"""Messages that come in several parts (chunks), put together again.

Source: PIP-37; every part names the message by ``uuid``, says which part it is, and is a frame of its own. A message is whole
where its parts have come one behind the other, and are together as large as the last one says. A part that has come before is
passed over, as the Java client does: who sends the rest of a message again may begin with one that the broker has.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from harness.protocols.pulsar import payload

if TYPE_CHECKING:
    from harness.protocols.pulsar.protobuf import Message

MOST_MESSAGES: Final = 10_000
"""Of how many messages the parts are kept; beyond that the oldest is forgotten."""


class Pieces:
    """What has come of messages whose last part is still to come. A message has a name, within whatever holds its parts."""

    def __init__(self) -> None:
        self._came: OrderedDict[tuple[Any, ...], list[bytes]] = OrderedDict()

    def whole(self, name: tuple[Any, ...], metadata: Message, part: bytes) -> bytes | None:
        """Return what a part makes whole, and None where it does not: more is to come, or something before it has not come.

        Raises:
            NotReadError: the parts together are not as large as they say, or have more bytes than are kept.
        """
        before = self._before(name, metadata)
        if before is None:
            return None
        size = sum(map(len, before)) + len(part)
        if size > payload.MOST_BYTES:
            raise payload.NotReadError(f"a message in parts, of more than {payload.MOST_BYTES} bytes")
        if not payload.is_last(metadata):
            return None
        if (
            payload.IN_ALL in metadata
            and (said := metadata.number(payload.IN_ALL)) != size
            and not payload.is_encrypted(metadata)
        ):
            raise payload.NotReadError(f"a message in parts that says {said} bytes, and is {size}")
        return b"".join((*before, part))

    def take(self, name: tuple[Any, ...], metadata: Message, part: bytes) -> None:
        """Take note that a part has come. What lacks one before it is never whole; one that comes again is passed over."""
        number = metadata.number(payload.CHUNK)
        before = self._before(name, metadata)
        if before is not None and not payload.is_last(metadata):
            self._came[name] = [*before, part]
            if len(self._came) > MOST_MESSAGES:
                self._came.popitem(last=False)
        elif number >= len(self._came.get(name, ())):
            self._came.pop(name, None)

    def forget(self, holder: Any) -> None:
        """Forget the messages whose names begin so."""
        for name in [name for name in self._came if name[0] == holder]:
            del self._came[name]

    def _before(self, name: tuple[Any, ...], metadata: Message) -> list[bytes] | None:
        """Return the parts before one, where it is the next one, or the first."""
        number = metadata.number(payload.CHUNK)
        came = self._came.get(name, [])
        return [] if number == 0 else came if number == len(came) else None
