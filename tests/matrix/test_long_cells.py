"""A cell of minutes says where it is."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from harness.matrix import long_cells
from harness.matrix.long_cells import LongCells
from harness.matrix.runner import run
from tests.matrix.troubled import Watched, named, plan_for
from tests.pipelines.scenes import Clock

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


class Slow:
    """The run of a cell that says where it is; of what else a run does nothing is asked here."""

    def where(self) -> str:
        """Say it."""
        return "it waits until the fault is over; 7 of 48 records are in the output"


def test_a_line_a_minute_says_where_a_cell_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """None before the first minute is over, and none when it has ended; a run that cannot tell is
    named all the same.
    """
    clock, lines, long = Clock(), list[str](), LongCells()
    monkeypatch.setattr(long_cells, "time", clock)
    slow: Any = Slow()
    silent: Any = object()
    one, other = named(2)
    with long.running(one, slow), long.running(other, silent):
        for _ in range(121):
            long.tell(lines.append)
            clock.now += 1
    clock.now += 1000
    long.tell(lines.append)
    where = ": it waits until the fault is over; 7 of 48 records are in the output"
    assert lines == [
        f"{cell}/at-least-once has run for {seconds} s{far}"
        for seconds in (60, 120)
        for cell, far in (("cell-1", where), ("cell-2", ""))
    ]


@dataclass
class RecordingProgress(Watched):
    """Progress that keeps the lines; ``said``: set with the first about a cell that is long."""

    lines: list[str] = field(default_factory=list)
    said: threading.Event = field(default_factory=threading.Event)

    def say(self, text: str) -> None:
        """Keep it."""
        if "has run for" in text:
            self.lines.append(text)
            self.said.set()


def test_the_runner_tells_while_a_cell_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From another thread than the cell's, which waits; a run of which no cell is long says
    nothing.
    """
    progress = RecordingProgress()

    def drains(step: str, _: str) -> None:
        if step == "drain":
            assert progress.said.wait(30)

    run(plan_for(named(1), tmp_path / "quick"), progress)
    assert not progress.said.is_set()
    monkeypatch.setattr(long_cells, "TELL_S", 0.0)
    run(plan_for(named(1), tmp_path / "slow", drains), progress)
    assert progress.lines[0].startswith("cell-1/at-least-once has run for 0 s")
