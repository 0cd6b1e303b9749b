"""Runs one cell from its start to its verdict."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from harness.latest import point_latest
from harness.matrix.failing import end_history, fail_at_once, failing_alone
from harness.matrix.keeping import tidy_cell
from harness.matrix.long_cells import LongCells
from harness.matrix.room import cannot_write, full_disk
from harness.model import events as kinds
from harness.model.ending import RUNNER
from harness.model.events import CellPhase
from harness.model.failures import CellFailure
from harness.model.history import HISTORY, HistoryWriter
from harness.model.plan import PLAN_FILE, plan_of
from harness.model.safe_files import write_whole
from harness.model.waiting import WaitCancelledError, cancellable
from harness.saved import CELLS, judge_cell

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from harness.interfaces import CellRun, Deployed
    from harness.matrix.run_state import RunState
    from harness.model.cell import Cell
    from harness.model.keep import Keep
    from harness.saved import CellResult, RunInfo

_Play: TypeAlias = "Callable[[Path, HistoryWriter], None]"
"""Plays a cell: its folder, and the runner's history of it."""


class CellRunner:
    """Runs cells of a run, each in a folder of its own."""

    def __init__(self, state: RunState, info: RunInfo, keep: Keep) -> None:
        """``info``: the run. ``keep``: of which cells everything stays."""
        self._state = state
        self._info = info
        self._keep = keep
        self._long = LongCells()

    def run(self, deployed: Deployed, cell: Cell) -> None:
        """Run a cell on a deployment. What voids more than this cell ends the run."""
        self._judged(cell, partial(self._play, deployed, cell))

    def void(self, cell: Cell, because: str) -> None:
        """Let a cell be void, without running it."""
        self._judged(cell, partial(fail_at_once, because))

    def tell_long(self) -> None:
        """Say which cells have run for long, and how far they are."""
        self._long.tell(self._state.progress.say)

    def _judged(self, cell: Cell, play: _Play) -> None:
        state = self._state
        try:
            directory = state.directory / CELLS / cell.slug
            if not state.results:  # the first ones
                # a failure here is reported when the reports are written
                point_latest(state.directory, self._info)
            state.progress.began(cell, directory)
            result = self._recorded(cell, directory, play)
            state.results[result.plan.id] = result
            tidy_cell(result, self._keep)
            state.progress.ended(result)
        except BaseException as error:  # noqa: BLE001 - whatever it is ends the run, which raises it
            state.fail(error)

    @staticmethod
    def _recorded(cell: Cell, directory: Path, play: _Play) -> CellResult:
        with HistoryWriter(directory / HISTORY / RUNNER, cell=cell.id, by="runner") as history:
            plan = plan_of(cell)
            try:
                write_whole(directory, PLAN_FILE, plan.to_json())
            except OSError as error:
                raise cannot_write(directory, error) from error
            history.write(kinds.Cell(phase=CellPhase.BEGUN, seal=plan.seal))
            play(directory, history)
            end_history(history, directory)
        return judge_cell(directory)

    def _play(
        self, deployed: Deployed, cell: Cell, directory: Path, history: HistoryWriter
    ) -> None:
        cell_run: CellRun | None = None
        try:
            with failing_alone(history, directory), cancellable(self._state.stop):
                cell_run = deployed.cell_run(cell, directory, history)
                with self._long.running(cell, cell_run):
                    self._steps(cell_run, history)
        finally:
            if cell_run is not None:
                with failing_alone(history, directory):
                    cell_run.close()

    def _steps(self, cell_run: CellRun, history: HistoryWriter) -> None:
        steps = (
            (CellPhase.PREPARED, cell_run.prepare),
            (CellPhase.LOADED, cell_run.load),
            (CellPhase.FAULTED, cell_run.inject),
            (CellPhase.DRAINED, cell_run.drain),
            (CellPhase.OBSERVED, cell_run.observe),
        )
        for phase, step in steps:
            if self._state.stop.is_set():
                raise WaitCancelledError(phase)
            step()
            # a full disk may have cut the programs' last log lines
            if full_disk(self._state.directory):
                raise CellFailure("the last lines of histories and logs may be missing")
            history.write(kinds.Cell(phase=phase))
