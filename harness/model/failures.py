"""How work ends that cannot go on, by whom that can be mended."""

from __future__ import annotations


class UsageError(Exception):
    """What was asked for cannot be; the message, one line, says why and what can."""


class CellFailure(Exception):  # noqa: N818 - like the word below
    """A cell proves nothing, for a reason that its user can mend; the message, one line, says which and how."""


class EnvironmentFailure(Exception):  # noqa: N818 - the word of the exit-code table
    """The machine lacks something, or something outside the cells broke; the message says what and what to do."""


def why_damaged(error: Exception) -> str:
    """Say in plain words why a file could not be parsed.

    >>> why_damaged(KeyError("seed")), why_damaged(TypeError("'int' object is not iterable"))
    ("it has no 'seed'", 'it does not have the form of one')
    """
    if isinstance(error, KeyError):
        return f"it has no {error}"
    if isinstance(error, UnicodeDecodeError):
        return f"it is no UTF-8 from byte {error.start} on"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return "it does not have the form of one" if isinstance(error, TypeError | AttributeError) else str(error)
