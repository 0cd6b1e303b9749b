"""``lostack sweep`` of the play as a program of its own: what ends it from outside can be tried."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from harness.cli.application import main
from harness.faults import Drop
from harness.sweep import pipelines
from harness.sweep.sweeping import Sweep
from tests.memory.plants import Plant
from tests.sweep.stepping import RIGHT, Stepping

if TYPE_CHECKING:
    from pathlib import Path

    from harness.model.cell import Cell
    from harness.sweep.settings import SweepSettings


def planted(cell: Cell) -> Plant:
    """Lose a record wherever anything is lost."""
    return Plant(lose=1) if isinstance(cell.scenario.fault, Drop) else RIGHT


def sweep_of(asked: SweepSettings, directory: Path, *, keep: bool = True) -> Sweep:
    """Return a sweep of the play."""
    del keep
    [base] = pipelines.swept([asked.what], asked)
    return Sweep(directory, asked, base, Stepping(planted))


if __name__ == "__main__":
    pipelines.sweep_of = sweep_of
    sys.exit(main(sys.argv[1:]))
