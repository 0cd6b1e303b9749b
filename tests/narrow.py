"""What a test knows of a value and its declared type does not say."""

from __future__ import annotations

from typing import TypeVar

Kind = TypeVar("Kind")


def narrow(value: object, kind: type[Kind]) -> Kind:
    """Return a value that must be of a kind.

    Raises:
        AssertionError: it is of another one.
    """
    assert isinstance(value, kind), f"{value!r} is no {kind.__name__}"
    return value
