"""The systems that ``test_plans.py`` and ``test_systems.py`` are run against: those of the
registry, and declared pipelines.
"""

from __future__ import annotations

import itertools
import json
import re
import threading
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from harness import registry, systems
from harness.interfaces import PreparesForCells
from harness.model import events as kinds
from harness.model.cell import expand
from harness.model.ending import counted
from harness.model.history import HISTORY, SUFFIX, HistoryError, HistoryWriter, read_files
from harness.model.plan import PLAN_FILE, plan_of
from harness.model.safe_files import write_whole
from harness.model.scenario import Deployment, Predicted
from harness.model.semantics import Semantic
from harness.model.waiting import WaitTimeoutError, wait_until
from harness.pipelines import failure_points, read_pipeline
from harness.pipelines.cells import cells_of
from harness.saved import CELLS, judge_cell
from harness.systems.declared.system import DeclaredSystem

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from harness.interfaces import CellRun, Deployed, Launcher
    from harness.model.cell import Cell
    from harness.saved import CellResult

EXAMPLES = Path(__file__).parents[2] / "examples"
GONE_S = 10.0
PATIENCE_S = 2.0
"""How long a declared pipeline rests that was never seen before: the programs of the example are
never late.
"""
STEPS = {
    "prepare": "prepared",
    "load": "loaded",
    "inject": "faulted",
    "drain": "drained",
    "observe": "observed",
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


def declared() -> Subject:
    """Return declared pipelines: the right ones among the examples, of which the
    simplest is run.
    """
    files = sorted(EXAMPLES.glob("*/pipeline.toml"), key=lambda file: file.parent.name != "orders")

    def cells(seed: int) -> tuple[Cell, ...]:
        return tuple(
            cell for each in pipelines for cell in cells_of(each, failure_points(each), seed=seed)
        )

    pipelines = [replace(read_pipeline(file), patience_s=PATIENCE_S) for file in files]
    return Subject("declared", DeclaredSystem, cells, at_once=False)


SYSTEMS: dict[str, Callable[[], Subject]] = {
    name: partial(of_registry, name) for name in systems.SYSTEMS
} | {"declared": declared}
IN_CORE = frozenset({"kafka"})
"""What is tried with every commit; the others are dear, and in the rest."""


def system_params(*, really: bool) -> list[Any]:
    """Return the systems as parameters of a fixture; ``really``: with the marks of what they need
    to run.
    """
    return [
        pytest.param(make, id=name, marks=_marks(name) if really else ())
        for name, make in SYSTEMS.items()
    ]


def _marks(name: str) -> tuple[pytest.MarkDecorator, ...]:
    if name in systems.SYSTEMS and registry.described(name).simulated:
        return ()
    needs = registry.needed_by(name) if name in systems.SYSTEMS else ("kafka",)
    marks = tuple(getattr(pytest.mark, each) for each in needs)
    return marks if name in IN_CORE else (*marks, pytest.mark.rest(together=name))


class FailingHistory(HistoryWriter):
    """A history that cannot be written any more from its n-th line on: its disk is full."""

    fails_at = 0

    def write(self, event: str, **fields: Any) -> None:
        """Write a line, while there is room."""
        if self.fails_at and self._lines + 1 >= self.fails_at:
            raise HistoryError("cannot write the history: there is no room")
        super().write(event, **fields)


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
        self.history.write(kinds.CELL, phase="begun", seal=plan.seal)
        self.history.fails_at = fails_at
        self.run: CellRun = deployed.cell_run(cell, self.directory, self.history)

    def step(self, name: str) -> list[str]:
        """Take a step; return what the runner's history says of it, without times."""
        before = len(self.lines())
        getattr(self.run, name)()
        said = self.lines()[before:]
        self.history.write(kinds.CELL, phase=STEPS[name])
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
        self.history.write(kinds.CELL, phase="ended", files=files)
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
    _seeds: Any = field(default_factory=lambda: itertools.count(1))

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
