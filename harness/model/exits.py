"""The exit codes of all commands."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """The exit codes of the commands. If a run has broken and void cells, the command ends with
    BROKEN.
    """

    KEPT = 0
    BROKEN = 1
    USAGE = 2
    ENVIRONMENT = 3
    VOID = 4
    DEFECT = 70
    """An error of lostack itself, with its traceback: EX_SOFTWARE of sysexits.h."""
    INTERRUPTED = 130
