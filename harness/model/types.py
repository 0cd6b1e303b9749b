"""Checks whether data read from a file has the types that its dataclass declares."""

from __future__ import annotations

import dataclasses
import functools
import types
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from collections.abc import Iterable


def misfit(value: object, hint: Any, name: str = "") -> str | None:
    """Say where ``value`` does not have the type ``hint``, or return ``None``.

    ``name`` is the field's name in the message. An int is accepted as a float; a bool is not
    accepted as a number.

    >>> misfit((1, "two"), tuple[int, ...], "seeds")
    'seeds cannot hold "two"'
    >>> misfit({"a": 1}, dict[str, float], "phases") is None
    True
    """
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return None
    if origin in (Union, types.UnionType):
        return None if any(misfit(value, one) is None for one in inner) else _said(value, name)
    return _inside(value, inner, name) if _is(value, origin or hint) else _said(value, name)


def _inside(value: object, inner: tuple[object, ...], name: str) -> str | None:
    """Look into what holds other values."""
    if dataclasses.is_dataclass(value):
        kind: type = type(value)
        hints = _hints_of(kind)
        return _first(misfit(getattr(value, field), hint, field) for field, hint in hints.items())
    if isinstance(value, dict) and inner:
        return _first(
            misfit(part, hint, name)
            for pair in value.items()
            for part, hint in zip(pair, inner, strict=True)
        )
    if isinstance(value, tuple | frozenset) and inner:
        return _first(misfit(part, inner[0], name) for part in value)
    return None


@functools.cache
def _hints_of(kind: type) -> dict[str, Any]:
    """Return the types of a dataclass's fields; to look them up is dear."""
    return get_type_hints(kind)


def _first(found: Iterable[str | None]) -> str | None:
    return next((text for text in found if text), None)


def _said(value: object, name: str) -> str:
    shown = repr(value) if not isinstance(value, str) else f'"{value}"'
    return f"{name} cannot hold {shown[:60]}"


def _is(value: object, kind: type) -> bool:
    if kind in (int, float) and isinstance(value, bool):
        return False
    if kind is float:
        return isinstance(value, int | float)
    return isinstance(value, kind)
