"""What packages of others bring by entry points: names, each with ``module:attribute`` where it is found."""

from __future__ import annotations

import functools
import importlib
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, TypeVar, cast

from harness.model.failures import EnvironmentFailure

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

T = TypeVar("T")


def _nothing(_: object) -> None:
    """What has nothing wrong."""


def with_others(group: str, ours: Mapping[str, str]) -> dict[str, str]:
    """Return our names and those that installed packages bring in an entry-point group, each with where it is found.

    Raises:
        EnvironmentFailure: two packages bring the same name; one line.
    """
    listed = dict(ours)
    for entry in brought(group):
        if entry.name in listed:
            whose = "lostack has one" if entry.name in ours else "so does another package"
            raise EnvironmentFailure(
                f"the package {packaged(entry)} brings {entry.name} in {group}, and {whose}: uninstall it, or have it renamed"
            )
        listed[entry.name] = entry.value
    return listed


@functools.cache
def brought(group: str) -> tuple[EntryPoint, ...]:
    """Return what installed packages bring in a group, in the order of the names."""
    return tuple(sorted(entry_points(group=group), key=lambda entry: entry.name))


def packaged(entry: EntryPoint) -> str:
    """Return the name of the package that an entry point belongs to."""
    return entry.dist.name if entry.dist is not None else entry.value


def load(where: str) -> Any:
    """Import what stands at ``module:attribute``. What it raises is the module's own."""
    module, _, attribute = where.partition(":")
    return getattr(importlib.import_module(module), attribute)


def load_brought(group: str, name: str, where: str, kind: type[T], check: Callable[[T], str | None] = _nothing) -> T:
    """Import the object of an entry point, which must be a ``kind``. ``check`` says what is wrong with it.

    Raises:
        EnvironmentFailure: a third-party package fails, or leaves the interpreter; one line.
    """
    theirs = next((entry for entry in brought(group) if entry.name == name), None)
    if theirs is None:
        return cast("T", load(where))
    try:
        found = load(where)
        because = check(found) if isinstance(found, kind) else f"{where} is no {kind.__name__}"
    except (Exception, SystemExit) as error:
        raise _broken(theirs, f"{type(error).__name__}: {error}".splitlines()[0]) from error
    if because:
        raise _broken(theirs, because)
    return cast("T", found)


def _broken(entry: EntryPoint, because: str) -> EnvironmentFailure:
    return EnvironmentFailure(
        f"the package {packaged(entry)} brings {entry.name} in {entry.group}, and cannot be loaded ({because}): "
        "mend or uninstall it"
    )
