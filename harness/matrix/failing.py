"""How the failure of one cell voids that cell alone, and which failures end the run."""

from __future__ import annotations

import traceback
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from harness.matrix.room import behind, full_disk
from harness.model import events as kinds
from harness.model.ending import counted
from harness.model.events import CellPhase
from harness.model.failures import CellFailure, EnvironmentFailure
from harness.model.history import HISTORY, HistoryError, HistoryWriter, read_files
from harness.model.secrets import masked
from harness.model.waiting import WaitCancelledError
from harness.saved import (
    INTERRUPTED,
    TRACE_FILE,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def end_history(history: HistoryWriter, directory: Path) -> None:
    """Write the runner's last line: what the files of the history hold. A history that cannot be
    read voids its cell, and no other.
    """
    try:
        files = counted(read_files(directory / HISTORY))
    except HistoryError as error:
        history.write(kinds.Failed(because=str(error)))
        return
    history.write(kinds.Cell(phase=CellPhase.ENDED, files=files))


def fail_at_once(because: str, _: Path, history: HistoryWriter) -> None:
    """Write that a cell failed before it began."""
    history.write(kinds.Failed(because=because))


@contextmanager
def failing_alone(history: HistoryWriter, directory: Path) -> Iterator[None]:
    """Record a failure, so that it voids only its own cell. A failure of the whole deployment is
    raised.

    If the disk is full, the reason says so first.
    """
    try:
        yield
    except WaitCancelledError:
        history.write(kinds.Failed(because=INTERRUPTED))
    except (HistoryError, EnvironmentFailure) as error:
        with suppress(HistoryError):  # a full disk may yet have room for a line
            history.write(kinds.Failed(because=masked(behind(full_disk(directory), str(error)))))
        raise
    except CellFailure as error:
        history.write(kinds.Failed(because=masked(behind(full_disk(directory), str(error)))))
    except Exception as error:  # noqa: BLE001 - whatever a system raises
        history.write(
            kinds.Failed(because=masked(behind(full_disk(directory), _traced(error, directory))))
        )


def _traced(error: Exception, directory: Path) -> str:
    """Return type and text of an unexpected error, and save its traceback in the cell's folder."""
    told = f"{type(error).__name__}: {error}"
    try:
        with (directory / TRACE_FILE).open(
            "a", encoding="utf-8", errors="backslashreplace"
        ) as file:
            file.write(masked("".join(traceback.format_exception(error))))
    except OSError:
        return told
    return f"{told} (its traceback: {TRACE_FILE})"
