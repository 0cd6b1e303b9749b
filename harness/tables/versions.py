"""Versions of a table, each a file of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def newest_of(versions: Mapping[int, Path]) -> object:
    """Return what tells the newest version from any other: its number, and of its file what another
    file with the same number has otherwise. ``versions``: number → file.
    """
    if not versions:
        return None
    number = max(versions)
    try:
        stat = versions[number].stat()
    except OSError:  # it has gone meanwhile
        return number
    return number, stat.st_ino, stat.st_mtime_ns, stat.st_size
