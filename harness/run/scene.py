"""The scene of a cell: its load, its history and its folders, which all of its parts share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.model import events as kinds
from harness.model.history import HISTORY, LOGS
from harness.model.tail import SoFar
from harness.stages.outbox import Outbox

if TYPE_CHECKING:
    from pathlib import Path

    from harness.model.cell import Cell
    from harness.model.history import HistoryWriter


class CellScene:
    """What the parts of one cell share, whatever its system. Systems add what their cells have besides."""

    def __init__(self, cell: Cell, directory: Path, history: HistoryWriter) -> None:
        self.cell = cell
        self.directory = directory
        self.history = history
        self.load = cell.load()
        self.so_far = SoFar(directory / HISTORY)

    @property
    def history_folder(self) -> Path:
        """Where the history is."""
        return self.directory / HISTORY

    @property
    def logs(self) -> Path:
        """Where programs print to."""
        return self.directory / LOGS

    @property
    def failpoints(self) -> Path:
        """Where failpoints are armed."""
        return self.directory / "failpoints"

    @property
    def outbox(self) -> Path:
        """The source of our own producers."""
        return self.directory / "outbox.sqlite"

    def make_folders(self) -> None:
        """Make the folders that programs write into."""
        self.logs.mkdir(parents=True, exist_ok=True)

    def make_outbox(self) -> None:
        """Put the records into the source."""
        Outbox.create(self.outbox, self.load.records)

    def progress(self) -> Any:
        """Return a value that changes while programs write anything down."""
        return {by: count for by, count in self.so_far.lines().items() if by != "wire"}

    def observe_offered(self) -> None:
        """Write what was offered."""
        for record in self.load.records:
            self.history.write(kinds.OFFERED, record=record.id, key=record.key, position=record.position)

    def observe_cursor(self) -> None:
        """Write where the source's cursor stands, as the outbox has it."""
        outbox = Outbox(self.outbox)
        position = outbox.cursor()
        outbox.close()
        self.history.write(kinds.CURSOR, position=position, where="outbox")
