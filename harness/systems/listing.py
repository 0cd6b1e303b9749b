"""Every system, ours and those of others, and what each declares of itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.interfaces import System
from harness.plugins import load_brought, with_others
from harness.systems import GROUP, SYSTEMS

if TYPE_CHECKING:
    from collections.abc import Mapping


def listed() -> Mapping[str, str]:
    """Return where each system is declared, by its name, ours first.

    Raises:
        EnvironmentFailure: a name is taken twice.
    """
    return with_others(GROUP, SYSTEMS)


def declaration(name: str) -> System:
    """Return what a system declares of itself.

    Raises:
        KeyError: there is no such system.
        EnvironmentFailure: it cannot be loaded.
    """

    def check(found: System) -> str | None:
        return None if found.name == name else f"it calls itself {found.name!r}"

    return load_brought(GROUP, name, listed()[name], System, check)
