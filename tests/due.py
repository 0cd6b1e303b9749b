"""Prints what is due at this commit, for Makefile and CI: ``python -m tests.due slice`` (slice and
seed) or ``engines``.
"""

from __future__ import annotations

import sys

from harness import registry
from tests import tiers


def main(what: str) -> None:
    """Print it."""
    place = tiers.position()
    sys.stdout.write(
        " ".join(
            map(
                str,
                tiers.due(place) if what == "slice" else tiers.chosen(registry.engines(), place),
            )
        )
        + "\n"
    )


if __name__ == "__main__":
    main(sys.argv[1])
