"""What a program printed, in few lines."""

from __future__ import annotations

import itertools
from typing import Final

NOTICE: Final = "Picked up JAVA_TOOL_OPTIONS: "
"""How the line begins that a JVM prints about the options it was given; no program of the user's has said it."""
TAIL: Final = 5
"""Lines of a program's output that are shown where it fails."""


def last_lines(text: str) -> list[str]:
    r"""Return the last lines of a log; what it says again and again is shown once, with how often.

    >>> last_lines("starting\n\nboom\nboom\nboom")
    ['starting', 'boom (3 times)']
    """

    def told(line: str) -> bool:
        return bool(line.strip()) and not line.startswith(NOTICE)

    runs = [(line, len([*same])) for line, same in itertools.groupby(line for line in text.splitlines() if told(line))]
    return [line if count == 1 else f"{line} ({count} times)" for line, count in runs[-TAIL:]]
