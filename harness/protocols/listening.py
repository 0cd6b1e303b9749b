"""What the sessions share whose frames are found one after the other in each direction."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar, cast

from harness.wire.protocol import Frame, Immovable, Opaque

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.model.events import Event
    from harness.wire.protocol import Data, Fed, Move
    from harness.wire.rules import Direction

H = TypeVar("H")


class Listening(Generic[H]):
    """The state of one connection, as far as it is the same for these protocols."""

    immovable: ClassVar[str]
    """Why no frame can be sent on another connection."""
    kept: ClassVar[tuple[type, ...]] = (Frame,)
    """What is found once, and is the same until it is taken from the buffer."""
    unreadable: ClassVar[tuple[type[Exception], ...]] = ()
    """What is raised where bytes are no frame."""

    def __init__(self) -> None:
        self._heard: dict[Direction, H] = {}
        """What of each direction was found and is not taken from the buffer yet."""
        self._owner: str | None = None

    def feed(self, way: Direction, data: Data) -> Fed:
        """Find the next frame."""
        known = self._heard.get(way)
        if known is not None:
            return cast("Fed", known)
        try:
            found = self._next(way, data)
        except self.unreadable as error:
            return Opaque(str(error))
        if isinstance(found, self.kept):
            self._heard[way] = cast("H", found)
        return found

    def _next(self, way: Direction, data: Data) -> Fed:
        """Find the next frame in the buffer, of which nothing was found before."""
        raise NotImplementedError

    def taken(self, way: Direction, size: int) -> None:  # noqa: ARG002 - of a frame, whole
        """Take note that bytes have left the buffer: the next frame may be looked for."""
        self._heard.pop(way, None)

    def move(self, frame: H, data: bytes) -> Move | Immovable:  # noqa: ARG002 - whatever it is
        """Return that the frame cannot be sent on another connection."""
        return Immovable(self.immovable)

    def owner(self) -> str | None:
        """Return what tells whose the connection is: a name that the client gave itself, or what it
        named first.
        """
        return self._owner

    def silence_s(self, way: Direction) -> float | None:  # noqa: ARG002 - for those that have a time-out
        """Return ``None``: a connection may be silent."""
        return None

    def ended(self, by: str, ledger: object) -> Iterable[Event]:  # noqa: ARG002 - nobody's end is told
        """Return no line: nothing becomes durable, or is undone, where it is not seen otherwise."""
        return ()
