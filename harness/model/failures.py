"""The errors that end a command or a cell, one for each place where the cause can be fixed:
options, cell, machine.
"""

from __future__ import annotations

import traceback
from pathlib import PurePath


class UsageError(Exception):
    """The user asked for something impossible. The message, one line, says why, and what is
    possible.
    """


class CellFailure(Exception):  # noqa: N818 - like the word below
    """A cell proves nothing, for a reason that the user can fix. The message, one line, says which
    and how.
    """


class EnvironmentFailure(Exception):  # noqa: N818 - the word of the exit-code table
    """The machine lacks something, or something outside the cells broke. The message says what, and
    what to do.
    """


def defect(error: BaseException) -> str:
    """Say in one line that an error is lostack's own, where it was raised, and what to report."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" in {PurePath(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else ""
    report = (
        "report the traceback above, the command, and what lostack --version and lostack doctor "
        "print"
    )
    return f"this is a defect of lostack ({type(error).__name__}{where}), and no verdict: {report}"


def traced(error: BaseException) -> str:
    """Return an error's traceback, and behind it the line of :func:`defect`."""
    return f"{''.join(traceback.format_exception(error))}lostack: {defect(error)}"


def why_damaged(error: Exception) -> str:
    """Say in plain words why a file could not be parsed. The subject of the sentence is the file.

    >>> why_damaged(KeyError("seed")), why_damaged(TypeError("'int' object is not iterable"))
    ("it has no 'seed'", 'it does not have the expected form')
    """
    if isinstance(error, KeyError):
        return f"it has no {error}"
    if isinstance(error, UnicodeDecodeError):
        return f"it is not UTF-8 from byte {error.start} on"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return (
        "it does not have the expected form"
        if isinstance(error, TypeError | AttributeError)
        else str(error)
    )
