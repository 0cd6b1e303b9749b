"""Prints what is due at this commit, for Makefile and CI: ``python -m tests.due slice`` (slice and
seed) or ``engines``. An engine that is due and cannot be started here is named on standard error.
"""

from __future__ import annotations

import sys

from harness import registry
from tests import tiers


def engines(place: int) -> list[str]:
    """Return the engines that are due and can be started here."""
    due = tiers.chosen(registry.engines(), place)
    missing = {name: registry.described(name).missing() for name in due}
    for name, why in missing.items():
        if why:
            sys.stderr.write(f"{name} was due and is NOT run: {why}\n")
    return [name for name in due if not missing[name]]


def main(what: str) -> None:
    """Print it."""
    place = tiers.position()
    found = tiers.due(place) if what == "slice" else engines(place)
    sys.stdout.write(" ".join(map(str, found)) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
