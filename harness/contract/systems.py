"""What the suites about systems are run against: a system, its cells, and a step of one cell at a
time.
"""

from __future__ import annotations

import itertools
import json
import re
import threading
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from harness import registry
from harness.interfaces import PreparesForCells
from harness.model import events as kinds
from harness.model.cell import expand
from harness.model.ending import counted
from harness.model.events import CellPhase, Event
from harness.model.history import HISTORY, SUFFIX, HistoryError, HistoryWriter, Line, read_files
from harness.model.plan import PLAN_FILE, plan_of
from harness.model.safe_files import write_whole
from harness.model.scenario import Deployment, Predicted
from harness.model.semantics import Semantic
from harness.model.waiting import WaitTimeoutError, wait_until
from harness.saved import CELLS, judge_cell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from harness.interfaces import CellRun, Deployed, Launcher
    from harness.model.cell import Cell
    from harness.saved import CellResult

GONE_S = 10.0
STEPS = {
    "prepare": CellPhase.PREPARED,
    "load": CellPhase.LOADED,
    "inject": CellPhase.FAULTED,
    "drain": CellPhase.DRAINED,
    "observe": CellPhase.OBSERVED,
}
"""The steps of a cell, in order, with the phase that each ends."""


@dataclass(frozen=True)
class Subject:
    """A system, and the cells that it is tried with."""

    name: str
    make: Callable[[], Launcher]
    cells: Callable[[int], Sequence[Cell]]
    """Every cell that it has of a seed, those that do not apply among them."""
    at_once: bool = True
    """Whether cells share a deployment."""
    registered: bool = True
    """Whether it is a system of the registry. Else its cells are of declared pipelines."""

    def without_fault(self, seed: int) -> dict[Semantic, Cell]:
        """Return, by semantic, the cells of its first pipeline in which nothing is
        done to anybody.
        """
        found: dict[str, dict[Semantic, Cell]] = {}
        for cell in self.cells(seed):
            theory, scenario = cell.expectation, cell.scenario
            if (
                scenario.fault.evidence().trigger == "none"
                and scenario.deployment is Deployment.SHARED
            ):
                group = found.setdefault(f"{cell.pipeline}/{scenario.id}", {})
                if (
                    isinstance(theory, Predicted)
                    and not theory.control
                    and registry.inapplicable(cell) is None
                ):
                    group.setdefault(cell.semantic, cell)
        return next(iter(found.values()), {})


def of_registry(name: str) -> Subject:
    """Return a system of the registry."""

    def cells(seed: int) -> tuple[Cell, ...]:
        mine = [scenario for scenario in registry.scenarios() if registry.runs(name, scenario)]
        return tuple(
            expand(
                mine,
                semantics=Semantic,
                seeds=[seed],
                system=name,
                client=registry.clients_of(name)[0],
            )
        )

    return Subject(name, partial(registry.system, name), cells)


class FailingHistory(HistoryWriter):
    """A history that cannot be written any more from its n-th line on: its disk is full."""

    fails_at = 0

    def write(self, event: Event | Line) -> None:
        """Write a line, while there is room.

        Raises:
            HistoryError: there is none.
        """
        if self.fails_at and self._lines + 1 >= self.fails_at:
            raise HistoryError("cannot write the history: there is no room")
        super().write(event)


class Play:
    """One cell on a deployment, a step at a time, as the runner takes it."""

    def __init__(self, deployed: Deployed, cell: Cell, run: Path, fails_at: int = 0) -> None:
        self.cell = cell
        self.directory = run / CELLS / cell.slug
        self.history = FailingHistory(
            self.directory / HISTORY / f"runner{SUFFIX}", cell=cell.id, by="runner"
        )
        plan = plan_of(cell)
        write_whole(self.directory, PLAN_FILE, plan.to_json())
        self.history.write(kinds.Cell(phase=CellPhase.BEGUN, seal=plan.seal))
        self.history.fails_at = fails_at
        self.run: CellRun = deployed.cell_run(cell, self.directory, self.history)

    def step(self, name: str) -> list[str]:
        """Take a step; return what the runner's history says of it, without times."""
        before = len(self.lines())
        getattr(self.run, name)()
        said = self.lines()[before:]
        self.history.write(kinds.Cell(phase=STEPS[name]))
        return said

    def through(self, last: str) -> Play:
        """Take all steps up to one."""
        for name in itertools.takewhile(lambda each: each != last, STEPS):
            self.step(name)
        self.step(last)
        return self

    def close(self) -> None:
        """Close the cell, and end its history."""
        try:
            self.run.close()
        finally:
            self.history.close()

    def judged(self) -> CellResult:
        """Close it, and judge it."""
        self.run.close()
        files = counted(read_files(self.directory / HISTORY))
        self.history.write(kinds.Cell(phase=CellPhase.ENDED, files=files))
        self.history.close()
        return judge_cell(self.directory)

    def lines(self) -> list[str]:
        """Return the runner's history so far, without times."""
        told = [
            json.loads(line) for line in self.history.path.read_text(encoding="utf-8").splitlines()
        ]
        return [
            json.dumps(
                {name: value for name, value in each.items() if name not in {"t", "w", "line"}}
            )
            for each in told
        ]


@dataclass
class Ground:
    """A system that is prepared, twice, and deployed; one cell has run on it, to whatever end."""

    subject: Subject
    run: Path
    said: list[str] = field(default_factory=list)
    _seeds: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def __post_init__(self) -> None:
        self._before = processes()
        self.system = self.subject.make()
        cells = tuple(self.subject.without_fault(0).values())
        for _ in range(2):
            self.system.prepare(self.said.append)
            if isinstance(self.system, PreparesForCells):
                self.system.prepare_for(cells, self.said.append)
        self.deployed = self.system.deploy(
            Deployment.SHARED, self.run / "deployments" / self.subject.name
        )
        try:
            first = self.play()
            try:
                told = {name: first.step(name) for name in STEPS}
            finally:
                first.close()
        except BaseException:
            self.deployed.close()
            raise
        self.lines_of_preparing = len(told["prepare"])
        """How many lines the runner's history has of the preparation of a cell."""
        self._shared = processes()
        self._threads = threads()
        self.semantics = tuple(self.subject.without_fault(0))

    def play(self, semantic: Semantic | None = None, fails_at: int = 0) -> Play:
        """Return another cell without a fault, of a semantic, or of any."""
        cells = self.subject.without_fault(next(self._seeds))
        cell = cells[semantic] if semantic else next(iter(cells.values()))
        return Play(self.deployed, cell, self.run, fails_at)

    def left_by(self, play: Play) -> list[str]:
        """Wait until nothing is left of a closed cell; return what is, all the same."""
        return left(
            lambda: [
                *gone_wrong(processes() - self._shared, play.directory),
                *sorted(threads() - self._threads),
            ]
        )

    def end(self) -> list[str]:
        """Close the deployment, twice; return what is left of it."""
        self.deployed.close()
        self.deployed.close()
        return left(lambda: gone_wrong(processes() - self._before, self.run))


def threads() -> set[str]:
    """Return the kinds of threads that run, by their names without numbers: what cells share may
    take new ones of a kind.
    """
    return {re.sub(r"\d+", "n", f"thread: {each.name}") for each in threading.enumerate()}


def processes() -> frozenset[psutil.Process]:
    """Return the living processes below this one."""
    return frozenset(
        one
        for one in psutil.Process().children(recursive=True)
        if one.is_running() and not _is_zombie(one)
    )


def _is_zombie(process: psutil.Process) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return True


def gone_wrong(alive: frozenset[psutil.Process], directory: Path) -> list[str]:
    """Name processes, and the files below a folder that this process, or any below it, has open."""
    found = [f"alive: {one}" for one in alive]
    for each in (psutil.Process(), *processes()):
        try:
            found += [
                f"open in {each}: {file.path}"
                for file in each.open_files()
                if Path(file.path).is_relative_to(directory)
            ]
        except psutil.Error:  # it has just ended
            continue
    return found


def left(look: Callable[[], list[str]]) -> list[str]:
    """Wait until there is nothing; return what there is, all the same."""
    try:
        wait_until(lambda: not look(), within_s=GONE_S, because="all to be gone", poll_s=0.05)
    except WaitTimeoutError:
        return look()
    return []
