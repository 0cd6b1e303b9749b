"""Find every system, lostack's own and those of other packages, and load its declaration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.interfaces import System
from harness.plugins import load_brought, with_others
from harness.systems import GROUP, SYSTEMS

if TYPE_CHECKING:
    from collections.abc import Mapping


def listed() -> Mapping[str, str]:
    """Return where each system is declared (``module:attribute``), by its name; lostack's own come
    first.

    Raises:
        EnvironmentFailure: two systems have the same name.
    """
    return with_others(GROUP, SYSTEMS)


def declaration(name: str) -> System:
    """Load the declaration of a system.

    Raises:
        KeyError: there is no such system.
        EnvironmentFailure: the declaration cannot be loaded.
    """

    def check(found: System) -> str | None:
        return None if found.name == name else f"it calls itself {found.name!r}"

    return load_brought(GROUP, name, listed()[name], System, check)
