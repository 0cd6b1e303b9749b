"""Finds what other packages register by entry points. An entry point is a name with its place,
``module:attribute``.
"""

from __future__ import annotations

import functools
import importlib
from importlib.metadata import EntryPoint, entry_points
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar, cast

from harness.model.failures import EnvironmentFailure

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

T = TypeVar("T")


def _nothing(_: object) -> None:
    """The default check, which accepts everything."""


def with_others(group: str, ours: Mapping[str, str]) -> dict[str, str]:
    """Return lostack's own names and those that installed packages register in an entry-point
    group, each with its place.

    Raises:
        EnvironmentFailure: two packages register the same name. The message is one line.
    """
    listed = dict(ours)
    for entry in entry_points_of(group):
        if entry.name in listed:
            whose = (
                "lostack has that name itself"
                if entry.name in ours
                else "another package does so, too"
            )
            raise EnvironmentFailure(
                f"the package {packaged(entry)} registers {entry.name} in {group}, but {whose}: "
                "uninstall or rename it"
            )
        listed[entry.name] = entry.value
    return listed


@functools.cache
def entry_points_of(group: str) -> tuple[EntryPoint, ...]:
    """Return the entry points that installed packages register in a group, sorted by name."""
    return tuple(sorted(entry_points(group=group), key=lambda entry: entry.name))


def packaged(entry: EntryPoint) -> str:
    """Return the name of the package that an entry point belongs to."""
    return entry.dist.name if entry.dist is not None else entry.value


def load(where: str) -> Any:
    """Import and return the object at ``module:attribute``, or ``module:attribute.attribute``.
    Exceptions of the module are not caught.
    """
    module, _, attribute = where.partition(":")
    return attrgetter(attribute)(importlib.import_module(module))


def load_brought(
    group: str, name: str, where: str, kind: type[T], check: Callable[[T], str | None] = _nothing
) -> T:
    """Import the object of an entry point. It must be an instance of ``kind``. ``check`` returns
    what is wrong with it.

    Raises:
        EnvironmentFailure: a third-party package fails to load, or tries to exit. The message is
            one line.
    """
    theirs = next((entry for entry in entry_points_of(group) if entry.name == name), None)
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
        f"{entry.name}, which the package {packaged(entry)} registers in {entry.group}, cannot "
        f"be loaded ({because}): repair or uninstall the package"
    )
