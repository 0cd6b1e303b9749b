"""The progress of a run: a live display on a terminal, plain lines elsewhere (CI)."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

from rich.console import Console
from rich.live import Live
from rich.text import Text

from harness.report.escaping import shown
from harness.report.summary import SIGNS, outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from harness.matrix.listener import Progress
    from harness.model.cell import Cell
    from harness.saved import CellResult

_COLOURS = {
    "kept": "green",
    "convicted": "green",
    "broken": "red",
    "stuck": "yellow",
    "void": "magenta",
}


@contextmanager
def make_progress(stream: IO[str]) -> Iterator[Progress]:
    """Yield the progress that suits a stream."""
    console = Console(file=stream, highlight=False, soft_wrap=True)
    if console.is_terminal:
        live = _Live(console)
        with live.screen:
            yield live
    else:
        yield _Lines(console)


class _Lines:
    """Shows progress as one line per ended cell."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._total = 0
        self._done = 0

    def say(self, text: str) -> None:
        """Print a line."""
        self._console.print(Text(shown(text)))

    def planned(self, cells: Sequence[Cell]) -> None:
        """Print how many cells are planned."""
        self._total, self._done = len(cells), 0
        self.say("1 cell" if self._total == 1 else f"{self._total} cells")

    def began(self, cell: Cell, directory: Path) -> None:
        """Print nothing: a cell has one line, at its end."""

    def ended(self, result: CellResult) -> None:
        """Print the verdict, the cell and the reason."""
        self._done += 1
        self._console.print(self._line(result))

    def _line(self, result: CellResult) -> Text:
        line = Text(f"[{self._done:>{len(str(self._total))}}/{self._total}] ")
        colour = _COLOURS.get(result.verdict.label, "red")
        line.append(f"{SIGNS[outcome(result.verdict)]} {result.verdict.label:<9}", style=colour)
        plan = result.plan
        line.append(f" {plan.pipeline}/{plan.scenario}/{plan.semantic}/s{plan.seed}", style="bold")
        line.append(f"  {result.seconds:.1f} s  {shown(result.verdict.reason)}")
        return line


class _Live(_Lines):
    """Shows the same lines above a status line with the cells that are running."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._running: dict[str, Cell] = {}
        self._since = time.monotonic()
        self.screen = Live(
            get_renderable=self._status, console=console, refresh_per_second=4, transient=True
        )

    def began(self, cell: Cell, _: Path) -> None:
        """Add the cell to the status line."""
        self._running[cell.id] = cell

    def ended(self, result: CellResult) -> None:
        """Remove the cell from the status line, and print its line."""
        self._running.pop(result.plan.id, None)
        super().ended(result)

    def _status(self) -> Text:
        names = ", ".join(
            f"{cell.scenario.id}/{cell.semantic}" for cell in list(self._running.values())[:4]
        )
        return Text(
            shown(
                f"{self._done}/{self._total} cells, {time.monotonic() - self._since:.0f} s  {names}"
            ),
            style="dim",
        )


class Listening:
    """Progress that also calls a function for each ended cell."""

    def __init__(self, progress: Progress, ended: Callable[[CellResult], None]) -> None:
        self._progress, self._ended = progress, ended

    def say(self, text: str) -> None:
        """Pass the line on."""
        self._progress.say(text)

    def planned(self, cells: Sequence[Cell]) -> None:
        """Pass the plan on."""
        self._progress.planned(cells)

    def began(self, cell: Cell, directory: Path) -> None:
        """Pass the start on."""
        self._progress.began(cell, directory)

    def ended(self, result: CellResult) -> None:
        """Pass the result on, and call the function."""
        self._progress.ended(result)
        self._ended(result)
