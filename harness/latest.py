"""``latest`` beside the runs: the run that was started last, from the moment at which its cells begin."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from harness.saved import RunInfo, SavedRunError

if TYPE_CHECKING:
    from pathlib import Path

LATEST = "latest"


def is_newest(directory: Path, info: RunInfo) -> bool:
    """Say whether ``latest`` points to no run that was started after this one."""
    try:
        latest = RunInfo.load(run_directory(directory.parent / LATEST))
    except (SavedRunError, OSError, ValueError):  # whatever it points to, it is no run
        return True
    return _age(info) >= _age(latest)


def _age(info: RunInfo) -> tuple[str, int, str]:
    """Order runs by their start; those of one second are numbered by their ids (``...``, ``...-2``, ``...-10``)."""
    return info.started, len(info.id), info.id


def point_latest(directory: Path, info: RunInfo) -> str | None:
    """Make ``latest``, beside the run's folder, point to it, unless it points to a newer run; atomic.

    Returns a warning where that cannot be done. A symbolic link; where the file system has none, a file that holds the
    folder's name.
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
        return f"{latest} still points elsewhere: {error.strerror}"
    return None


def run_directory(named: Path) -> Path:
    """Return the folder that a name means: itself, or what a ``latest`` points to.

    Raises:
        SavedRunError: there is no such run.
    """
    if named.is_file() and named.name == LATEST:
        return named.parent / named.read_text(encoding="utf-8").strip()
    if not named.is_dir():
        raise SavedRunError(f"there is no saved run at {named}")
    return named.resolve()
