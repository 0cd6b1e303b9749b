"""What stays of a cell when it has ended: of a kept one its plan, history and logs.

Services' data, outboxes, checkpoints and users' own files are large, and nobody looks at those of
a cell that is green. Each part that is deleted is first moved into ``.removed`` in the run's
folder. A run that is killed therefore leaves each part of a cell whole or without a trace; the next
run empties ``.removed``.
"""

from __future__ import annotations

import secrets
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from harness.model import safe_files
from harness.model.history import HISTORY, LOGS
from harness.model.plan import PLAN_FILE
from harness.saved import TRACE_FILE

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from harness.model.keep import Keep
    from harness.saved import CellResult

REMOVED: Final = ".removed"
"""The folder, in that of a run, of what is about to be removed."""
NEEDED: Final = frozenset({PLAN_FILE, HISTORY, LOGS, TRACE_FILE})
"""What every cell keeps: the judge, the reports, an export and shrinking read nothing else."""
LARGE_LOG: Final = 1 << 20
"""A log of more bytes is cut, to its last :data:`LOG_END` bytes."""
LOG_END: Final = 1 << 16


def tidy_cell(result: CellResult, keep: Keep) -> None:
    """Remove what does not stay of a cell that has ended and is judged."""
    if not keep.whole(green=result.verdict.green):
        with suppress(OSError):  # what cannot be removed stays
            tidy_folder(result.directory, result.directory.parents[1])


def tidy_folder(folder: Path, run: Path) -> None:
    """Leave the history and the logs in a folder; ``run``: the folder of its run."""
    remove_from(folder, run, set(safe_files.names(folder)) - NEEDED)
    with suppress(OSError):  # something odd among them: they stay as they are
        for name in safe_files.files(folder, LOGS, lambda name: name.endswith(".log")):
            if (folder / name).stat().st_size > LARGE_LOG:
                _cut(folder, name)


def clean(run: Path) -> None:
    """Remove what a run, or one that was killed, had put aside to be removed."""
    shutil.rmtree(run / REMOVED, ignore_errors=True)


def forget_unbegun(folder: Path, *first: str) -> None:
    """Remove the folder of what ended before its first cell, if it holds nothing but files of the
    names in ``first``, which are written when it begins. Logs of a broker that did not start stay.
    """
    with suppress(OSError):  # something odd among them: it stays
        if _has_only(folder, set(first)):
            shutil.rmtree(folder, ignore_errors=True)


def _has_only(folder: Path, names: set[str]) -> bool:
    inside = safe_files.folders(folder)
    return set(safe_files.names(folder)) - set(inside) <= names and all(
        _has_only(folder / name, names) for name in inside
    )


def remove_from(folder: Path, run: Path, names: Collection[str]) -> None:
    """Remove what has these names in a folder, as far as that is possible. ``run``: the folder of
    its run.
    """
    for name in names:
        with suppress(OSError):  # a container's file belongs to another user: it stays
            gone = safe_files.make_folder(run, REMOVED) / secrets.token_hex(8)
            (folder / name).rename(gone)
            if gone.is_dir() and not gone.is_symlink():
                shutil.rmtree(gone, ignore_errors=True)
            else:
                gone.unlink()


def _cut(folder: Path, name: str) -> None:
    end = safe_files.read_end(folder, name, LOG_END)
    said = f"(lostack has kept the last {LOG_END:,} bytes of this log; --keep all keeps it whole)\n"
    safe_files.write_whole(folder, name, said.encode() + end, mode=0o600)
