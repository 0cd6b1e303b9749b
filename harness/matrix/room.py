"""The run's folder, and whether its disk is full, which is said before the failures that follow from it."""

from __future__ import annotations

import datetime as dt
import os
from typing import TYPE_CHECKING

from harness.model.failures import EnvironmentFailure

if TYPE_CHECKING:
    from pathlib import Path

LEAST = 1 << 20
"""The free bytes below which a disk counts as full: less than what one cell writes."""


def full_disk(folder: Path) -> str | None:
    """Say that the disk that a folder is on is full, or ``None``."""
    try:
        found = os.statvfs(folder)
    except OSError:  # whoever wants to write there says so
        return None
    left = found.f_frsize * (found.f_bavail if os.geteuid() else found.f_bfree)  # root has what is kept back, too
    if found.f_files and not found.f_favail:
        return (
            f"the disk of {folder} is full (it can hold no more files): make room there, or choose another folder with --reports"
        )
    if left >= LEAST:
        return None
    return f"the disk of {folder} is full ({left:,} bytes are left): make room there, or choose another folder with --reports"


def behind(full: str | None, text: str) -> str:
    """Put a failure behind its probable cause.

    >>> behind(None, "the broker ended"), behind("the disk is full", "the broker ended")
    ('the broker ended', 'the disk is full; the broker ended')
    """
    return f"{full}; {text}" if full else text


def new_directory(reports: Path) -> Path:
    """Make a folder of its own for a run, named by the time; two runs at once get two.

    Raises:
        EnvironmentFailure: the folder cannot be made.
    """
    try:
        reports.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(reports, error) from error
    stamp = dt.datetime.now(dt.UTC).strftime("%Y%m%d-%H%M%S")
    for number in range(1, 1000):
        directory = reports / (stamp if number == 1 else f"{stamp}-{number}")
        try:
            directory.mkdir()
        except FileExistsError:
            continue
        except OSError as error:
            raise cannot_write(reports, error) from error
        return directory
    raise EnvironmentFailure(f"{reports} already has a thousand runs of this second: wait a second")


def cannot_write(where: Path, error: OSError) -> EnvironmentFailure:
    """Return the failure to tell where a run cannot be written down."""
    return EnvironmentFailure(f"cannot write reports to {where}: {error.strerror}; choose another folder with --reports")
