"""What is said where a declaration is wrong: one line, with the name that was probably meant."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class DeclarationError(ValueError):
    """A pipeline cannot be run as declared; one line, with what to do."""


def nearest(name: str, names: Iterable[str]) -> str:
    """Say which name was probably meant.

    >>> nearest("comand", ["command", "role"])
    'did you mean command?'
    """
    names = list(names)
    near = difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.5)
    return f"did you mean {near[0]}?" if near else f"there are: {', '.join(names)}"


def choice(where: str, value: str, names: Iterable[str]) -> str:
    """Return ``value`` if it is one of ``names``.

    Raises:
        DeclarationError: it is none; the line names the nearest.
    """
    names = [str(name) for name in names]
    if value not in names:
        raise DeclarationError(f"{where}: {value!r} is none; {nearest(str(value), names)}")
    return value
