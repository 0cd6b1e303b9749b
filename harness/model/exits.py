"""What a command ends with."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """The exit codes of a command. A broken promise beats a void run."""

    KEPT = 0
    BROKEN = 1
    USAGE = 2
    ENVIRONMENT = 3
    VOID = 4
    INTERRUPTED = 130
