"""What a lane says of a frame that did not get through whole."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from harness.wire.inlet import Flow
from harness.wire.lane import Lane
from harness.wire.pipe import Pipe
from harness.wire.rules import Direction
from harness.wire.streams import CHUNK_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable


class Source:
    """A stream that gives one piece after the other."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = [*pieces]

    async def recv(self, _count: int) -> bytes:
        """Return the next piece."""
        return self._pieces.pop(0) if self._pieces else b""

    async def recv_into(self, view: memoryview) -> int:
        """Write the next piece into ``view``."""
        piece = await self.recv(len(view))
        view[: len(piece)] = piece
        return len(piece)


class Breaking:
    """A stream that breaks at its ``last`` piece: the kernel may have some of its bytes."""

    def __init__(self, last: int) -> None:
        self._left = last

    async def sendall(self, data: bytes) -> None:
        """Take a piece, or break.

        Raises:
            OSError: it is the last piece.
        """
        assert len(data)
        self._left -= 1
        if not self._left:
            raise OSError


def lane_on(pieces: tuple[bytes, ...], last: int, settle: Callable[..., None]) -> tuple[Lane, Any]:
    """Return a lane whose destination breaks, and a frame of all these bytes."""
    hub: Any = SimpleNamespace(scratch=lambda: memoryview(bytearray(CHUNK_BYTES)))
    conn: Any = SimpleNamespace(
        frozen_by=(),
        flows={Direction.REQUEST: Flow()},
        session=SimpleNamespace(sending=lambda _: None, taken=lambda *_: None),
        turn=asyncio.Lock(),
    )
    source: Any = Source(*pieces)
    target: Any = Breaking(last)
    lane = Lane(hub, conn, Direction.REQUEST, source, target)
    assert isinstance(lane._pipe, Pipe)
    frame = SimpleNamespace(size=sum(map(len, pieces)), id=None)
    return lane, SimpleNamespace(frame=frame, payload=None, cell=SimpleNamespace(settle=settle))


LARGE = bytes(CHUNK_BYTES)


@pytest.mark.parametrize(
    ("pieces", "last", "said"),
    [
        ((b"whole",), 1, []),
        ((b"in ", b"two"), 1, [False]),
        ((b"in ", b"two"), 2, []),
        ((LARGE, LARGE), 1, [False]),
        ((LARGE, LARGE), 2, []),
        ((LARGE, b"end"), 1, [False]),
        ((LARGE, b"end"), 2, []),
    ],
)
def test_of_a_frame_whose_last_bytes_were_on_their_way_nothing_is_said(
    pieces: tuple[bytes, ...], last: int, said: list[bool]
) -> None:
    """The peer may have it whole. A frame of which bytes are missing has not arrived."""
    settled: list[bool] = []

    def settle(_carried: object, *, reached: bool) -> None:
        settled.append(reached)

    async def passed() -> None:
        lane, carried = lane_on(pieces, last, settle)
        await lane._forward(carried)

    with pytest.raises(OSError, match=r"^$"):
        asyncio.run(passed())
    assert settled == said


def test_a_frame_of_which_nothing_was_sent_has_not_arrived() -> None:
    """Its connection was frozen before its first byte, and closed. The frame before it went."""
    settled: list[bool] = []

    def settle(_carried: object, *, reached: bool) -> None:
        settled.append(reached)

    async def closes() -> None:
        raise OSError

    async def twice() -> None:
        lane, carried = lane_on((b"one", b"two"), 3, settle)
        carried.frame.size = len(b"one")
        await lane._forward(carried)
        conn: Any = lane._conn
        conn.gate = closes
        conn.session.sending = lambda _: setattr(conn, "frozen_by", (1,))
        await lane._forward(carried)

    with pytest.raises(OSError, match=r"^$"):
        asyncio.run(twice())
    assert settled == [True, False]
