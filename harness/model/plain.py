"""Reads plain data, of JSON or TOML, into the types that it was written from."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from harness.model.conversion import convert
from harness.model.names import Name

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

T = TypeVar("T")


def made(kind: type[T], plain: object, name: str = "it") -> T:
    """Return plain data as a value of a type. A number or text of the wrong type is not converted.

    ``name``: what the data are called in a message.

    >>> made(tuple[int, ...], [1, "two"], "seeds")
    Traceback (most recent call last):
    ValueError: seeds[1] must be of type int, not str

    Raises:
        ValueError: the data do not fit the type, or it is a dataclass that has not these fields.
    """
    if isinstance(plain, dict) and dataclasses.is_dataclass(kind):
        check_fields(kind, plain)
    try:
        return convert(plain, kind, dec_hook=_named)
    except msgspec.ValidationError as error:
        raise ValueError(_said(str(error), name)) from error


def check_fields(kind: type, plain: Mapping[str, object], hidden: Collection[str] = ()) -> None:
    """Raise ValueError if a dataclass has not each of these fields, or must have another one.
    ``hidden``: fields of it that are not read.
    """
    fields = {each.name: each for each in dataclasses.fields(kind) if each.name not in hidden}
    if unknown := sorted(plain.keys() - fields):
        known = ", ".join(sorted(fields))
        raise ValueError(f"the field {unknown[0]} is unknown; the known ones: {known}")
    for name, each in fields.items():
        needed = each.default is each.default_factory is dataclasses.MISSING
        if needed and name not in plain:
            raise ValueError(f"it has no {name!r}")


def _said(error: str, name: str) -> str:
    """Return an error of msgspec in plain words."""
    if not (found := _WRONG.match(error)):
        return f"{name} is wrong: {error}"
    wanted, got, at = found.groups(default="")
    where = at.removeprefix("$").removeprefix(".")
    inside = f"{name}{where}" if where.startswith("[") else where or name
    return f"{inside} must be of type {wanted}, not {got}"


def _named(kind: type, plain: object) -> object:
    if not issubclass(kind, Name):
        raise NotImplementedError(kind)
    if not isinstance(plain, str):
        raise TypeError(f"Expected `str`, got `{type(plain).__name__}`")
    return kind(plain)


_WRONG: Final = re.compile(r"Expected `(.+?)`, got `(.+?)`(?: - at `(.*)`)?$")
