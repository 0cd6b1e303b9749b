"""Whether a disk is full: what follows from that is told behind it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

LEAST = 1 << 20
"""Bytes without which nothing goes on: less than a broker, a database and a history write in a cell."""


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
    """Say something behind the reason that it probably has.

    >>> behind(None, "the broker ended"), behind("the disk is full", "the broker ended")
    ('the broker ended', 'the disk is full; the broker ended')
    """
    return f"{full}; {text}" if full else text
