"""The folder of a run, and a check for a full disk. A full disk is reported before the failures
that it causes.
"""

from __future__ import annotations

import datetime as dt
import os
from typing import TYPE_CHECKING

from harness.latest import mark
from harness.matrix.keeping import clean
from harness.model import safe_files
from harness.model.failures import EnvironmentFailure
from harness.saved import RUN_FILE

if TYPE_CHECKING:
    from pathlib import Path

LEAST = 1 << 20
"""A disk with fewer free bytes counts as full: one cell writes more than that."""


def full_disk(folder: Path) -> str | None:
    """Say that the disk of a folder is full, or return ``None``."""
    try:
        found = os.statvfs(folder)
    except OSError:  # the first write there reports it
        return None
    left = found.f_frsize * (
        found.f_bavail if os.geteuid() else found.f_bfree
    )  # root has what is kept back, too
    if found.f_files and not found.f_favail:
        return (
            f"the disk of {folder} is full (no more files fit on it): make room there, or choose "
            "another folder with --reports"
        )
    if left >= LEAST:
        return None
    return (
        f"the disk of {folder} is full ({left:,} bytes are left): make room there, or choose "
        "another folder with --reports"
    )


def behind(full: str | None, text: str) -> str:
    """Return the text of a failure, after its probable cause if that is known.

    >>> behind(None, "the broker ended"), behind("the disk is full", "the broker ended")
    ('the broker ended', 'the disk is full; the broker ended')
    """
    return f"{full}; {text}" if full else text


def new_directory(reports: Path, prefix: str = "") -> Path:
    """Make a folder for a run, named by the time, after a prefix. Two runs at the same time get
    different folders.

    Raises:
        EnvironmentFailure: the folder cannot be made.
    """
    try:
        reports.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(reports, error) from error
    stamp = f"{prefix}{dt.datetime.now(dt.UTC):%Y%m%d-%H%M%S}"
    for number in range(1, 1000):
        directory = reports / (stamp if number == 1 else f"{stamp}-{number}")
        try:
            directory.mkdir()
        except FileExistsError:
            continue
        except OSError as error:
            raise cannot_write(reports, error) from error
        return directory
    raise EnvironmentFailure(
        f"{reports} already has a thousand runs that began in this second: try again"
    )


def new_run(reports: Path) -> Path:
    """Make a folder for a run like :func:`new_directory`, and mark the one around it as lostack's.

    What a run there that was killed had begun to remove is removed.

    Raises:
        EnvironmentFailure: that cannot be done.
    """
    directory = new_directory(reports)
    for name in safe_files.folders(reports):
        if safe_files.is_file(reports, f"{name}/{RUN_FILE}"):
            clean(reports / name)
    try:
        mark(reports)
    except OSError as error:
        raise cannot_write(reports, error) from error
    return directory


def cannot_write(where: Path, error: OSError) -> EnvironmentFailure:
    """Return the failure of a run that cannot be written to its folder."""
    return EnvironmentFailure(
        f"cannot write reports to {where}: {error.strerror}; choose another folder with --reports"
    )
