"""The last lines of a program's output, for messages."""

from __future__ import annotations

import itertools
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from harness.model import safe_files
from harness.model.history import LOGS
from harness.model.secrets import masked

if TYPE_CHECKING:
    from pathlib import Path

NOTICE: Final = "Picked up JAVA_TOOL_OPTIONS: "
"""The beginning of a line that every JVM prints about its options. It is not part of the user's
program's output.
"""
TAIL: Final = 5
"""How many lines of its output are shown if a program fails."""
MOST_BYTES: Final = 1 << 16
"""How many bytes at the end of a program's log are read."""


def last_lines(text: str) -> list[str]:
    r"""Return the last lines of a log, without empty ones and without secrets. A line that is
    repeated is shown once, with the number of times.

    >>> last_lines("starting\n\nboom\nboom\nboom")
    ['starting', 'boom (3 times)']
    """

    def told(line: str) -> bool:
        return bool(line.strip()) and not line.startswith(NOTICE)

    runs = [
        (masked(line), len([*same]))
        for line, same in itertools.groupby(line for line in text.splitlines() if told(line))
    ]
    return [line if count == 1 else f"{line} ({count} times)" for line, count in runs[-TAIL:]]


def log_text(cell: Path, node: str) -> str:
    """Return the end of the log of a cell's node; empty if there is none. If it cannot be read
    safely, that is said in its place.

    A damaged history may name anything: only a regular file in the folder of logs is read.
    """
    try:
        [_] = PurePath(node).parts
        return safe_files.read_end(cell, f"{LOGS}/{node}.log", MOST_BYTES).decode(
            "utf-8", "replace"
        )
    except safe_files.UnsafeFileError as error:
        return f"(its log was not read: {error.strerror})"
    except (OSError, ValueError):
        return ""
