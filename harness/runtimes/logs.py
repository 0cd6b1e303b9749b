"""Read the end of a node's log."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

TAIL_BYTES: Final = 1 << 16


def tail(log: Path, start: int, lines: int) -> str:
    """Return the last ``lines`` lines after byte ``start``, from the last 64 KiB of a log."""
    try:
        with log.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(start, end - TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError as error:
        return f"(no log: {error.strerror})"
    return "\n".join(text.splitlines()[-lines:])
