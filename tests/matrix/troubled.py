"""The in-memory system with trouble at any step, and how the tests of the runner run it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from harness.latest import LATEST, MARK
from harness.matrix.runner import RunPlan, run
from harness.model.cell import Cell
from harness.model.semantics import Semantic
from scenarios.plain import DELIVERY_LOST
from tests.memory.system import MemorySystem

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from harness.interfaces import CellRun, Deployed
    from harness.model.history import HistoryWriter
    from harness.model.scenario import Deployment, Scenario
    from harness.saved import CellResult, SavedRun

Trouble: TypeAlias = Callable[[str, str], None]
"""Called before every step with its name and the cell's scenario id (empty for the steps of the
whole run); may raise.
"""
OF_A_CELL = ("cell_run", "prepare", "load", "inject", "drain", "observe", "close")
"""Steps of a cell, in order."""
OF_A_RUN = ("set-up", "deploy", "check")
"""Steps that every cell stands on."""


class TroubledSystem(MemorySystem):
    """The in-memory system, with trouble."""

    def __init__(self, trouble: Trouble) -> None:
        super().__init__()
        self._trouble = trouble

    def prepare(self, say: Callable[[str], None]) -> None:
        """Prepare, with trouble."""
        self._trouble("set-up", "")
        super().prepare(say)

    def deploy(self, need: Deployment, directory: Path) -> _Deployed:  # type: ignore[override]
        """Deploy, with trouble."""
        self._trouble("deploy", "")
        return _Deployed(super().deploy(need, directory), self._trouble)


@dataclass(frozen=True)
class _Deployed:
    inner: Deployed
    trouble: Trouble

    def together(self, cells: Sequence[Cell]) -> None:
        self.inner.together(cells)

    def cell_run(self, cell: Cell, directory: Path, history: HistoryWriter) -> _CellRun:
        self.trouble("cell_run", cell.scenario.id)
        return _CellRun(
            self.inner.cell_run(cell, directory, history), self.trouble, cell.scenario.id
        )

    def check(self) -> None:
        self.trouble("check", "")
        self.inner.check()

    def close(self) -> None:
        self.inner.close()


@dataclass(frozen=True)
class _CellRun:
    inner: CellRun
    trouble: Trouble
    scenario: str

    def prepare(self) -> None:
        self.trouble("prepare", self.scenario)
        self.inner.prepare()

    def load(self) -> None:
        self.trouble("load", self.scenario)
        self.inner.load()

    def inject(self) -> None:
        self.trouble("inject", self.scenario)
        self.inner.inject()

    def drain(self) -> None:
        self.trouble("drain", self.scenario)
        self.inner.drain()

    def observe(self) -> None:
        self.trouble("observe", self.scenario)
        self.inner.observe()

    def close(self) -> None:
        self.inner.close()
        self.trouble("close", self.scenario)


@dataclass
class Watched:
    """Progress that remembers what it was told."""

    cells: list[str] = field(default_factory=list)
    begun: list[str] = field(default_factory=list)
    results: list[CellResult] = field(default_factory=list)

    def say(self, text: str) -> None:
        """Ignore it."""

    def planned(self, cells: Sequence[Cell]) -> None:
        """Remember what is to run."""
        self.cells += [cell.id for cell in cells]

    def began(self, cell: Cell, _: Path) -> None:
        """Remember what began."""
        self.begun.append(cell.id)

    def ended(self, result: CellResult) -> None:
        """Remember what came of it."""
        self.results.append(result)


def named(count: int, scenario: Scenario = DELIVERY_LOST) -> tuple[Cell, ...]:
    """Return cells that are alike, of scenarios ``cell-1``, ``cell-2``, ..."""
    return tuple(
        Cell(
            replace(scenario, id=f"cell-{number}"),
            Semantic.AT_LEAST_ONCE,
            "memory",
            "none",
            "process",
            seed=1,
            records=24,
        )
        for number in range(1, count + 1)
    )


def plan_for(
    cells: tuple[Cell, ...],
    reports: Path,
    trouble: Trouble = lambda _step, _scenario: None,
    jobs: int = 1,
) -> RunPlan:
    """Return the plan of a run with trouble; with one job, cells run in their order."""
    return RunPlan(
        (TroubledSystem(trouble),),
        cells,
        (),
        reports,
        jobs=jobs,
        command="test",
        seeds=(1,),
        records=24,
    )


def run_troubled(
    cells: tuple[Cell, ...],
    reports: Path,
    trouble: Trouble = lambda _step, _scenario: None,
    jobs: int = 1,
) -> SavedRun:
    """Run cells with trouble."""
    return run(plan_for(cells, reports, trouble, jobs), Watched())


def only_run(reports: Path) -> Path:
    """Return the one run that lies in a reports folder."""
    (directory,) = (path for path in reports.iterdir() if path.name not in {LATEST, MARK})
    return directory
