"""The error for a wrong declaration, and the checks and suggestions that several modules use."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_COMMENT: Final = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_READING: Final = ("SELECT", "WITH", "VALUES", "PRAGMA")
"""How a query that only reads begins. SQLite opens the file read-only as well, and so refuses
``WITH … DELETE``.
"""


class DeclarationError(ValueError):
    """A pipeline cannot be run as declared. The message is one line and says what to do."""


def nearest(name: str, names: Iterable[str]) -> str:
    """Return a suggestion: the name most similar to ``name``, or else all names.

    >>> nearest("comand", ["command", "role"])
    'did you mean command?'
    """
    names = list(names)
    near = difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.5)
    return f"did you mean {near[0]}?" if near else f"there are: {', '.join(names)}"


def choice(where: str, value: str, names: Iterable[str]) -> str:
    """Return ``value`` if it is one of ``names``.

    Raises:
        DeclarationError: ``value`` is not among them. The message suggests a similar one.
    """
    names = [str(name) for name in names]
    if value not in names:
        raise DeclarationError(f"{where}: {value!r} is not known; {nearest(str(value), names)}")
    return value


def check_home(where: str, path: str) -> None:
    """Raise :class:`DeclarationError` if a path begins in a home folder that only a shell knows.

    >>> check_home("output: file", "~/out.csv")
    Traceback (most recent call last):
    harness.pipelines.refusing.DeclarationError: output: file: ~/out.csv: only a shell knows ~:
    write the whole path
    """
    if path.startswith("~/"):
        raise DeclarationError(f"{where}: {path}: only a shell knows ~: write the whole path")


def check_reads(where: str, query: str) -> None:
    """Raise :class:`DeclarationError` if a query does more than read.

    >>> check_reads("output: query", "/* all of them */ SELECT id FROM results")
    >>> check_reads("output: query", "DELETE FROM results")
    Traceback (most recent call last):
    harness.pipelines.refusing.DeclarationError: output: query: begins with DELETE; write a query
    that only reads: SELECT …
    """
    words = _COMMENT.sub(" ", query).split(maxsplit=1)
    if words and (first := words[0].upper().partition("(")[0]) not in _READING:
        raise DeclarationError(
            f"{where}: begins with {first}; write a query that only reads: SELECT …"
        )
