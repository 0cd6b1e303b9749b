"""The scene of a cell: the load, the history and the folders that all parts of the cell share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from harness.model import events as kinds
from harness.model.history import HISTORY, LOGS
from harness.model.tail import SoFar
from harness.stages.gate import open_gate
from harness.stages.outbox import Outbox

if TYPE_CHECKING:
    from harness.model.cell import Cell
    from harness.model.history import HistoryWriter


class CellScene:
    """The load, the history and the folders of one cell. Systems may add more in a subclass."""

    def __init__(self, cell: Cell, directory: Path, history: HistoryWriter) -> None:
        self.cell = cell
        self.directory = directory
        self.history = history
        self.load = cell.load()
        self.so_far = SoFar(directory / HISTORY)

    @property
    def history_folder(self) -> Path:
        """The folder of the history."""
        return self.directory / HISTORY

    @property
    def logs(self) -> Path:
        """The folder of the programs' output."""
        return self.directory / LOGS

    @property
    def failpoints(self) -> Path:
        """The folder in which failpoints are armed."""
        return self.directory / "failpoints"

    @property
    def gate(self) -> str:
        """The file for which the producer waits before its last unit; empty if a target is in that
        unit: nothing can follow it.
        """
        load = self.load
        last_unit = (len(load.records) - 1) // load.unit * load.unit + 1
        struck = max(each.position for each in (load.target, *load.targets))
        return str(self.failpoints / "gate") if struck < last_unit else ""

    def open_gate(self) -> None:
        """Let the producer send its last unit: the fault has fired, or is over."""
        if self.gate:
            open_gate(Path(self.gate))

    @property
    def outbox(self) -> Path:
        """The file of the outbox, from which lostack's own producers take records."""
        return self.directory / "outbox.sqlite"

    def make_folders(self) -> None:
        """Make the folders that programs write into."""
        self.logs.mkdir(parents=True, exist_ok=True)

    def make_outbox(self) -> None:
        """Create the outbox with all records."""
        Outbox.create(self.outbox, self.load.records)

    def progress(self) -> object:
        """Return a value that changes while programs write history lines."""
        return {by: count for by, count in self.so_far.lines().items() if by != "wire"}

    def observe_offered(self) -> None:
        """Write all offered records to the history."""
        for record in self.load.records:
            self.history.write(
                kinds.Offered(record=record.id, key=record.key, position=record.position)
            )

    def observe_cursor(self) -> None:
        """Write the position of the outbox's cursor to the history."""
        outbox = Outbox(self.outbox)
        position = outbox.cursor()
        outbox.close()
        self.history.write(kinds.Cursor(position=position, where="outbox"))
