"""What the tests of protocols share: a session, and what it makes of the frames that pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.contract.speaker import read_back
from harness.model.history import Line
from harness.model.record import Record
from harness.wire.protocol import Need, Opaque, Secure, Unframed
from harness.wire.rules import Direction

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.model.events import Event
    from harness.model.identity import Identity
    from harness.wire.protocol import Protocol

TO, FROM = Direction.REQUEST, Direction.RESPONSE
LIMIT = 1 << 12
HistoryLines = list[tuple[Any, ...]]
"""Lines of a history: the kind of each, and what :attr:`Conversation.tells` names of it."""


def value(record: str) -> bytes:
    """Return the payload of a record."""
    return Record(record, "k0", 1, "x").encode("key")


class Conversation:
    """A session, the seventh connection of a wire, and what it makes of frames."""

    tells: tuple[str, ...] = ("record", "request", "outcome")

    def __init__(
        self, protocol: Protocol, identity: Identity | None = None, *, limit: int = LIMIT
    ) -> None:
        self.session = protocol.session(7, limit=limit)
        self.ledger = protocol.ledger("key", identity)
        self.last: Any = None
        self.seen: Any = None

    def say(self, data: bytes, *, reached: bool = True) -> HistoryLines:
        """Let the client say one frame; return the lines of it."""
        return self._pass(TO, data, reached=reached)

    def hear(self, data: bytes, *, reached: bool = True) -> HistoryLines:
        """Let the broker say one frame; return the lines of it."""
        return self._pass(FROM, data, reached=reached)

    def _pass(self, way: Direction, data: bytes, *, reached: bool) -> HistoryLines:
        frame = self.session.feed(way, data)
        assert not isinstance(frame, Need | Unframed | Secure | Opaque), frame
        assert frame.size == len(data)
        self.last, self.seen = frame, self.session.read(frame, data, self.ledger)
        self.session.sending(frame)
        lines = list(self.session.settled(frame, self.ledger, reached=reached))
        self.session.taken(way, frame.size)
        check_lines([Line("frame", frame.facts), *lines])
        return [
            (event.event, *(getattr(event, name, None) for name in self.tells)) for event in lines
        ]


def check_lines(lines: Iterable[Event | Line]) -> None:
    """Check that lines of the wire are events, which have all their fields.

    Raises:
        ValueError: a line would be damage.
    """
    for line in lines:
        event = read_back(line)
        assert event.facts is None, f"no fields of {event.event}: {event.facts}"
