"""Small parts of Markdown."""

from __future__ import annotations

import inspect
import re
from typing import Final

MADE: Final = "Made by `python -m tests.docs`.\n"


def plain(text: str) -> str:
    """Return a docstring's words in Markdown.

    >>> plain("See :mod:`harness.model.places`: ``place`` of a :class:`~a.b.C`.")
    'See `harness.model.places`: `place` of a `C`.'
    """
    text = re.sub(r":\w+:`~(?:\w+\.)*(\w+)`", r"`\1`", text)
    text = re.sub(r":\w+:`([^`]+)`", r"`\1`", text)
    return inspect.cleandoc(text).replace("``", "`")


def cell(text: str) -> str:
    """Return a text as it can stand in a table."""
    return " ".join(text.split()).replace("|", "\\|")


def columns(*names: str) -> list[str]:
    """Return the first two lines of a table.

    >>> columns("a", "b")
    ['| a | b |', '|---|---|']
    """
    return [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
