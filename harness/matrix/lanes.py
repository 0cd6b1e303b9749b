"""Runs cells in lanes. A lane has one deployment at a time, on which its workers run cells; cells
share a broker, or kill one of a few.
"""

from __future__ import annotations

import itertools
import queue
from collections import Counter
from math import ceil
from typing import TYPE_CHECKING, TypeAlias

from harness.interfaces import LimitsDeployments, TakesOneCell
from harness.judge.verdict import Kind
from harness.matrix.threads import WATCH_S, Thread, join
from harness.model.failures import EnvironmentFailure
from harness.model.scenario import SECURED, Deployment
from harness.model.waiting import WaitCancelledError, cancellable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.interfaces import Deployed, Launcher
    from harness.matrix.cell_runner import CellRunner
    from harness.matrix.run_state import RunState
    from harness.model.cell import Cell

_Group: TypeAlias = "tuple[Cell, ...]"
"""Cells that run at once because they share one fault, the death of their shared broker; usually
one cell.
"""
_Waiting: TypeAlias = "queue.SimpleQueue[_Group]"
_Turn: TypeAlias = "tuple[Deployment, str, _Waiting]"
"""One deployment in a lane: its kind, its name, and the cells that wait for it."""

UNPROVED = frozenset({Kind.VOID, Kind.STUCK})
"""Verdicts after which the state of a deployment that cells may kill is unknown."""
ONE_AT_A_TIME = (
    Deployment.CLUSTER,
    Deployment.TRACED_CLUSTER,
    Deployment.APART,
    Deployment.SMALL,
    Deployment.TRACED,
)
OF_ONE_BROKER = (Deployment.SHARED, Deployment.OWN)
WORTH_A_BROKER = 2
"""How many cells that kill their broker must wait before another broker starts: a start takes as
long as one cell.
"""
DIE_AT_ONCE = 8
"""How many cells share one death of their broker, unless more than these run at once anyhow. They
mostly wait for each other, and each death costs a start, and what the JVM learns anew.
"""
OWN_LANES = 2
"""How many brokers, at most, run at once for cells that kill theirs. The second one runs when no
cell needs several brokers any more: two cores cannot drive both. A launcher may ask for fewer.
"""


class Lanes:
    """The lanes of a run. ``jobs``: how many cells share a broker at once; if a deployment takes
    one cell at a time, how many cells run in all.
    """

    def __init__(self, state: RunState, cells: CellRunner, jobs: int) -> None:
        self._state = state
        self._cells = cells
        self._jobs = jobs
        self._lanes: list[Thread] = []

    @property
    def are_over(self) -> bool:
        """Whether every lane that has started has ended."""
        return all(lane.over.is_set() for lane in self._started())

    def run(self, system: Launcher, cells: Sequence[Cell], turn: str = "") -> None:
        """Run cells of a system. ``turn``: what the names of its deployments end with."""
        waiting = {need: self._waiting(need, cells) for need in Deployment}
        lanes = Counter[Deployment]()
        for needs, deployments, workers in self._kinds(system):
            wanted = [need for need in needs if not waiting[need].empty()]
            count = sum(waiting[need].qsize() for need in wanted) - max(
                (lanes[need] for need in wanted), default=0
            )
            for _ in range(min(deployments, count)):
                lanes.update(wanted)
                turns = [
                    (need, f"{system.name}-{need}-{lanes[need]}{turn}", waiting[need])
                    for need in wanted
                ]
                self._lanes.append(
                    Thread(target=self._lane, args=(system, turns, workers), name=turns[0][1])
                )
        try:
            for lane in self._lanes:
                if lane.ident is None:
                    lane.start()
            join(self._lanes)
        except BaseException:
            self._state.stop.set()
            join(self._started())
            raise

    def _kinds(self, system: Launcher) -> Sequence[tuple[tuple[Deployment, ...], int, int]]:
        """Return the kinds of lanes: the deployments in turn, the number of such lanes, the workers
        in each.
        """
        jobs = self._jobs
        if isinstance(system, TakesOneCell) and system.one_cell:
            # one lane begins with those that kill it; the others help
            return ((OF_ONE_BROKER[::-1], 1, 1), (OF_ONE_BROKER, jobs - 1, 1))
        own = system.own_at_once if isinstance(system, LimitsDeployments) else OWN_LANES
        helps = (Deployment.OWN,) if min(own, jobs) > 1 else ()
        return (
            ((Deployment.SHARED,), 1, jobs),
            (SECURED, 1, 1),
            ((Deployment.OWN,), 1, 1),
            # one after the other: three or four brokers are enough at once
            ((*ONE_AT_A_TIME, *helps), 1, 1),
        )

    def _waiting(self, need: Deployment, planned: Sequence[Cell]) -> _Waiting:
        """Return the cells that need this deployment. Cells that share one broker's death form a
        group.
        """
        groups: dict[object, list[Cell]] = {}
        for cell in planned:
            if cell.scenario.deployment is need:
                groups.setdefault(cell.dies_with or cell.id, []).append(cell)
        waiting = queue.SimpleQueue[_Group]()
        at_once = max(1, min(self._jobs**2, max(self._jobs, DIE_AT_ONCE)))
        for cells in groups.values():
            deaths = ceil(len(cells) / at_once)
            for each in range(deaths):
                waiting.put(tuple(cells[each::deaths]))
        return waiting

    def _started(self) -> Sequence[Thread]:
        return [lane for lane in self._lanes if lane.ident is not None]

    def _lane(self, system: Launcher, turns: Sequence[_Turn], workers: int) -> None:
        """Deploy, and let workers run cells on it. If a killed broker does not come back, the next
        cells get a new deployment.
        """
        try:
            for turn, (need, name, waiting) in enumerate(turns):
                if turn and waiting.qsize() < (1 if need.shared else WORTH_A_BROKER):
                    continue  # the worker that began with them runs them
                for number in itertools.count(1):
                    named = name if number == 1 else f"{name}-again-{number}"
                    self._deployment(system, need, named, waiting, workers)
                    if self._state.is_over:
                        return
                    if need.shared or waiting.empty():
                        break
        except WaitCancelledError:
            return
        except BaseException as error:  # noqa: BLE001 - whatever it is ends the run, which raises it
            self._state.fail(error)

    def _deployment(
        self, system: Launcher, need: Deployment, name: str, waiting: _Waiting, workers: int
    ) -> None:
        self._state.progress.say(f"starting {name}")
        directory = self._state.directory / "deployments" / name
        with cancellable(self._state.stop):
            deployed = self._state.timed(f"deploy-{name}", lambda: system.deploy(need, directory))
        try:
            lasting = need.shared
            threads = [
                Thread(target=self._work, args=(deployed, waiting, lasting)) for _ in range(workers)
            ]
            for thread in threads:
                thread.start()
            self._watch(deployed, threads)
        finally:
            deployed.close()

    def _watch(self, deployed: Deployed, threads: Sequence[Thread]) -> None:
        """Wait for the workers. If the deployment fails, end them at once."""
        try:
            deployed.check()
            for thread in threads:
                while not thread.over.wait(WATCH_S):
                    deployed.check()
                    self._cells.tell_long()
        except EnvironmentFailure:
            self._state.stop.set()
            join(threads)
            raise

    def _work(self, deployed: Deployed, waiting: _Waiting, lasting: bool) -> None:  # noqa: FBT001 - of a thread
        """Run cells until none waits. A deployment that cells may kill is given up after a cell
        that proved nothing.
        """
        while not self._state.is_over:
            try:
                group = waiting.get_nowait()
            except queue.Empty:
                return
            if not lasting:
                deployed.together(group)
            besides = [Thread(target=self._cells.run, args=(deployed, cell)) for cell in group[1:]]
            for thread in besides:
                thread.start()
            self._cells.run(deployed, group[0])
            join(besides)
            if not lasting and any(self._unproved(cell) for cell in group):
                return

    def _unproved(self, cell: Cell) -> bool:
        result = self._state.results.get(cell.id)
        return result is None or result.verdict.kind in UNPROVED
