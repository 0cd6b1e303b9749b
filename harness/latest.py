"""The link ``latest`` beside the runs. It points to the run that was started last, as soon as its
cells begin.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from harness.saved import RunInfo, SavedRunError

if TYPE_CHECKING:
    from pathlib import Path

LATEST = "latest"


def is_newest(directory: Path, info: RunInfo) -> bool:
    """Return whether no run that was started after this one is the ``latest``."""
    try:
        latest = RunInfo.load(run_directory(directory.parent / LATEST))
    except (SavedRunError, OSError, ValueError):  # whatever it points to, it is no run
        return True
    return _age(info) >= _age(latest)


def _age(info: RunInfo) -> tuple[str, int, str]:
    """Return a sort key: the start, then the number at the end of the id for runs of one second
    (``...-2``, ``...-10``).
    """
    return info.started, len(info.id), info.id


def point_latest(directory: Path, info: RunInfo) -> str | None:
    """Make ``latest`` point to this run's folder, atomically, unless it points to a newer run.

    ``latest`` lies beside the folder. It is a symbolic link or, if the file system has none, a file
    that holds the folder's name. Returns a warning if it cannot be written.
    """
    if not is_newest(directory, info):
        return None
    latest = directory.parent / LATEST
    part = latest.with_name(f".{LATEST}.{os.getpid()}")
    try:
        part.unlink(missing_ok=True)
        try:
            part.symlink_to(directory.name, target_is_directory=True)
        except (OSError, NotImplementedError):
            part.write_text(directory.name + "\n", encoding="utf-8")
        part.replace(latest)
    except OSError as error:
        part.unlink(missing_ok=True)
        return f"{latest} was not updated and still points to an older run: {error.strerror}"
    return None


def run_directory(named: Path) -> Path:
    """Return the run's folder for a path: the path itself, or the folder that a ``latest`` points
    to.

    Raises:
        SavedRunError: there is no run at the path.
    """
    if named.is_file() and named.name == LATEST:
        return named.parent / named.read_text(encoding="utf-8").strip()
    if not named.is_dir():
        raise SavedRunError(f"there is no saved run at {named}")
    return named.resolve()
