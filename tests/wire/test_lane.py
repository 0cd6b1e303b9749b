"""What a lane says of a frame that did not get through whole."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from harness.wire.lane import Lane


class BreakingPipe:
    """A pipe that breaks with ``ahead`` bytes of the frame not yet handed to the socket."""

    silent = True

    def __init__(self, ahead: int) -> None:
        self._ahead = ahead
        self.ahead = -1

    async def pass_on(self, size: int) -> bool:
        """Break."""
        assert size
        self.ahead = self._ahead
        raise OSError


@pytest.mark.parametrize(("ahead", "said"), [(1, [False]), (0, [])])
def test_of_a_frame_whose_last_bytes_were_on_their_way_nothing_is_said(
    ahead: int, said: list[bool]
) -> None:
    """The peer may have it whole. A frame of which bytes are missing has not arrived."""
    settled: list[bool] = []

    def settle(_carried: object, *, reached: bool) -> None:
        settled.append(reached)

    lane: Any = Lane.__new__(Lane)
    lane._conn = SimpleNamespace(frozen_by=())
    lane._pipe = BreakingPipe(ahead)
    frame = SimpleNamespace(size=8, id=None)
    carried = SimpleNamespace(frame=frame, payload=None, cell=SimpleNamespace(settle=settle))
    with pytest.raises(OSError, match=r"^$"):
        asyncio.run(lane._forward(carried))
    assert settled == said
