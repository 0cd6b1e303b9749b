"""The last lines of a program's output, for messages."""

from __future__ import annotations

import itertools
from typing import Final

from harness.model.secrets import masked

NOTICE: Final = "Picked up JAVA_TOOL_OPTIONS: "
"""The beginning of a line that every JVM prints about its options. It is not part of the user's
program's output.
"""
TAIL: Final = 5
"""How many lines of its output are shown if a program fails."""


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
