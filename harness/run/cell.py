"""One cell, step by step, on any system. Implements :class:`harness.interfaces.CellRun`."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from harness.abilities import BrokerSettings
from harness.controls import NotFiredError, injectable
from harness.model import events as kinds
from harness.model.events import DrainPhase, FaultPhase
from harness.model.failures import CellFailure
from harness.model.secrets import masked
from harness.run.parts import ReadersStart

if TYPE_CHECKING:
    from harness.model.cell import Cell
    from harness.model.history import HistoryWriter
    from harness.run.parts import Parts


class CellRun:
    """The run of one cell."""

    def __init__(self, cell: Cell, history: HistoryWriter, parts: Parts) -> None:
        self.cell = cell
        self.parts = parts
        self._history = history
        self._fault = injectable(cell.scenario.fault)
        self._does = "it begins"
        self._ends = ExitStack()
        for (
            part
        ) in parts.ground:  # also if it is never opened: it may hold something since it was made
            self._ends.callback(part.close)

    def prepare(self) -> None:
        """Open the parts that the cell stands on, start the reading stages, arm the fault."""
        self._does = "its programs start"
        for part in self.parts.ground:
            part.open()
        self._check_settings()
        if self.parts.when is ReadersStart.BEFORE_LOAD:
            self.parts.stages.start()
        if self.parts.armed_before_load:
            self._fault.arm(self.parts.controls)

    def _check_settings(self) -> None:
        """Raise CellFailure if the broker runs without a setting that the scenario names."""
        wanted = self.cell.scenario.broker_settings
        if not wanted:
            return
        told = self.parts.controls.ability(BrokerSettings).told
        if missed := sorted(name for name in wanted if told.get(name) != wanted[name]):
            raise CellFailure(
                f"the broker was started without the scenario's {', '.join(missed)}: the system "
                f"{self.cell.system} has to pass broker_settings on"
            )

    def load(self) -> None:
        """Let the records flow. If reading must begin only when all records are there, wait for
        them, then start the readers.
        """
        self._does = "its records begin to flow"
        self.parts.feed.start()
        if self.parts.when is not ReadersStart.FILLED:
            return
        self.parts.stages.stand_by()
        self.parts.feed.await_filled()
        if not self.parts.armed_before_load:
            self._fault.arm(self.parts.controls)
        self.parts.stages.start()

    def inject(self) -> None:
        """Inject the fault; then call all of ``freed``, in order, even if one of them fails."""
        self._does = "it waits until the fault is over"
        with ExitStack() as frees:
            for free in reversed(self.parts.freed):
                frees.callback(free)
            try:
                self._fault.inject(self.parts.controls)
            except NotFiredError as error:
                if error.because is not None:
                    because = masked(error.because)
                    self._history.write(kinds.Fault(phase=FaultPhase.GIVEN_UP, because=because))
        if self.parts.when is ReadersStart.AFTER_FAULT:
            self.parts.stages.start()

    def drain(self) -> None:
        """Wait until everything is at rest."""
        self._does = "it waits until everything is at rest"
        self._history.write(kinds.Drain(phase=DrainPhase.BEGUN, stage=None, because=None))
        self.parts.controls.disarm()
        end = self.parts.drain().wait()
        phase = DrainPhase.COMPLETED if end.because is None else DrainPhase.FAILED
        self._history.write(
            kinds.Drain(phase=phase, stage=end.stage, because=end.because, **end.more)
        )

    def observe(self) -> None:
        """Let every authority write what it knows into the history."""
        self._does = "its results are read"
        for authority in self.parts.authorities:
            authority()

    def where(self) -> str:
        """Say what the run does at the moment, and how far its records are."""
        far = self.parts.where()
        return f"{self._does}{far and '; '}{far}"

    def close(self) -> None:
        """Close all parts in reverse order. If one fails, close the rest and raise its error
        afterwards.
        """
        self._ends.close()
