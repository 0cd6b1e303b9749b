"""What an installed package brings to lostack, by its entry points."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Final

from harness.contract.speaker import Speaker
from harness.model.failures import EnvironmentFailure
from harness.plugins import entry_points_of, load_brought, packaged

if TYPE_CHECKING:
    from collections.abc import Iterator

SYSTEMS: Final = "lostack.systems"
PROTOCOLS: Final = "lostack.protocols"
CLIENTS: Final = "lostack.clients"
DIALECTS: Final = "lostack.dialects"
SPEAKERS: Final = "lostack.speakers"
"""The group of entry points in which packages register how their protocols are spoken: the
protocol's name, and the place of a :class:`~harness.contract.speaker.Speaker`.
"""
GROUPS: Final = (SYSTEMS, PROTOCOLS, CLIENTS, DIALECTS)
KINDS: Final = ("systems", "protocols", "clients", "dialects")
"""What a package may bring, in the order of their groups."""


class UnknownPackageError(Exception):
    """No installed package of this name brings anything. The message is one line."""


@dataclass(frozen=True)
class Package:
    """The names that a package registers, by group."""

    name: str
    systems: tuple[str, ...]
    protocols: tuple[str, ...]
    clients: tuple[str, ...]
    dialects: tuple[str, ...]
    speakers: tuple[str, ...]

    @classmethod
    def named(cls, name: str) -> Package:
        """Return what a package brings, by the name of its distribution.

        Raises:
            UnknownPackageError: there is none.
        """
        known = sorted({packaged(entry) for group in GROUPS for entry in entry_points_of(group)})
        found = next((each for each in known if _plain(each) == _plain(name)), None)
        if found is None:
            there = f"those that do: {', '.join(known)}" if known else "nor does any other"
            raise UnknownPackageError(
                f"no installed package {name} registers anything with lostack ({there}): install "
                "it, and name it as its pyproject.toml does"
            )
        return cls(found, *(tuple(_names(found, group)) for group in (*GROUPS, SPEAKERS)))

    def told(self) -> str:
        """Return in a line what it brings, and of what the clauses do not apply.

        >>> Package("lostack-connect", ("connect",), (), (), (), ()).told()
        'lostack-connect brings systems: connect; no protocols, clients, dialects: their clauses \
do not apply'
        """
        names = {each: getattr(self, each) for each in KINDS}
        brings = "; ".join(f"{each}: {', '.join(mine)}" for each, mine in names.items() if mine)
        none = ", ".join(each for each, mine in names.items() if not mine)
        return f"{self.name} brings {brings}" + (
            f"; no {none}: their clauses do not apply" if none else ""
        )


def _plain(name: str) -> str:
    """Return a distribution's name as all its spellings have it.

    >>> _plain("Lostack_NATS")
    'lostack-nats'
    """
    return re.sub(r"[-_.]+", "-", name).lower()


def _names(package: str, group: str) -> Iterator[str]:
    return (entry.name for entry in entry_points_of(group) if packaged(entry) == package)


def speaker_of(protocol: str) -> Speaker:
    """Return how a protocol is spoken.

    Raises:
        EnvironmentFailure: nobody says it, or it cannot be loaded. The message is one line.
    """
    entry = next((each for each in entry_points(group=SPEAKERS) if each.name == protocol), None)
    if entry is None:
        raise EnvironmentFailure(
            f"nobody says how {protocol} is spoken: register a harness.contract.speaker.Speaker as "
            f"{protocol} in the entry points {SPEAKERS}"
        )
    return load_brought(SPEAKERS, protocol, entry.value, Speaker)
