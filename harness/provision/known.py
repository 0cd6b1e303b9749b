"""Versions that a system's declaration names. What knows them is imported when somebody asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.plugins import load

if TYPE_CHECKING:
    from collections.abc import Callable, Collection


def known_by(where: str) -> Callable[[], Collection[str]]:
    """Return a function that asks ``module:callable`` for the versions whose checksums are
    known.
    """

    def versions() -> Collection[str]:
        found: Collection[str] = load(where)()
        return found

    return versions


def of_client(client: str, _: str | None) -> Collection[str] | None:
    """Return the versions of a client whose checksums are known."""
    from harness.provision.clients import known_versions  # noqa: PLC0415 - what fetches is imported when it is asked

    return known_versions(client)
