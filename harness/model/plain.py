"""Reads plain data, of JSON or TOML, into the types that it was written from."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from harness.model.names import Name

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

T = TypeVar("T")


def made(kind: type[T], plain: object, name: str = "it") -> T:
    """Return plain data as a value of a type. A number or text of the wrong type is not converted.

    ``name``: what the data are called in a message.

    >>> made(tuple[int, ...], [1, "two"], "seeds")
    Traceback (most recent call last):
    ValueError: seeds is wrong: Expected `int`, got `str` - at `$[1]`

    Raises:
        ValueError: the data do not fit the type, or it is a dataclass and has no such field.
    """
    if isinstance(plain, dict) and dataclasses.is_dataclass(kind):
        check_known(kind, plain)
    try:
        return msgspec.convert(plain, kind, dec_hook=_named)
    except msgspec.ValidationError as error:
        raise ValueError(f"{name} is wrong: {error}") from error


def check_known(kind: type, plain: Mapping[str, Any], hidden: Collection[str] = ()) -> None:
    """Raise ValueError if a dataclass lacks one of these fields, or if that is ``hidden``."""
    known = sorted({each.name for each in dataclasses.fields(kind)}.difference(hidden))
    if unknown := sorted(plain.keys() - known):
        raise ValueError(f"the field {unknown[0]} is unknown; the known ones: {', '.join(known)}")


def _named(kind: type, plain: Any) -> Any:
    if issubclass(kind, Name) and isinstance(plain, str):
        return kind(plain)
    raise NotImplementedError(kind)
