"""Checks what a declaration claims of its readers and writers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.model.semantics import Guarantee
from harness.pipelines.refusing import DeclarationError, choice

if TYPE_CHECKING:
    from collections.abc import Sequence


def check_guarantees(names: Sequence[str], *, system: str, logs: bool) -> None:
    """Raise DeclarationError if a guarantee is unknown, is named twice, or cannot be judged.

    ``logs``: whether the system has logs.

    >>> check_guarantees(("monotonic",), system="kafka", logs=True)
    >>> check_guarantees(("monotonous",), system="kafka", logs=True)
    Traceback (most recent call last):
    harness.pipelines.refusing.DeclarationError: guarantees: 'monotonous' is not known; did you mean
    monotonic?
    """
    for name in names:
        choice("guarantees", name, Guarantee)
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise DeclarationError(f"guarantees: {twice} is named twice: name each once")
    if names and not logs:
        raise DeclarationError(
            f"guarantees: on {system} there are no offsets by which readers and writers could be "
            "judged: leave it out"
        )
