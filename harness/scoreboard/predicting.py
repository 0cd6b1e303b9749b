"""What was predicted of the scoreboard before it was run, and what came out otherwise."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.model import safe_files
from harness.model.conversion import convert

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from harness.scoreboard.board import Cell, Outcome

FILE: Final = Path(__file__).with_name("predictions.toml")
KEPT: Final = "kept"
"""What is predicted where the file says nothing."""


@dataclass(frozen=True, slots=True)
class Predicted:
    """One prediction: what comes of the points ``points`` (globs) in the rows ``rows`` (a glob)."""

    rows: str
    points: tuple[str, ...]
    outcome: str
    because: str


def read_predictions(file: Path = FILE) -> tuple[Predicted, ...]:
    """Return the predictions in a file."""
    data = safe_files.parse_toml(file.read_text(encoding="utf-8"))
    return convert(data["predicted"], tuple[Predicted, ...])


def predicted(predictions: Sequence[Predicted], row: str, point: str) -> str:
    """Return what is predicted of a cell: by the first that means it, or else *kept*."""
    return next(
        (
            each.outcome
            for each in predictions
            if fnmatch.fnmatch(row, each.rows)
            and any(fnmatch.fnmatch(point, name) for name in each.points)
        ),
        KEPT,
    )


def differs(outcomes: Sequence[Outcome], predictions: Sequence[Predicted]) -> Iterator[str]:
    """Yield a line for each cell that came out otherwise than predicted."""
    for one in outcomes:
        for cell in one.cells:
            meant = predicted(predictions, one.row, cell.point)
            if meant != cell.outcome:
                yield f"{one.row} {cell.point}: predicted {meant}, {_found(cell)}"


def _found(cell: Cell) -> str:
    return f"{cell.outcome}: {cell.reason}" if cell.outcome != KEPT else cell.outcome
