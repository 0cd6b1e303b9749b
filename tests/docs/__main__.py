"""Writes the generated parts of all pages anew: ``python -m tests.docs [RUN...]``.

The counts of the runs that are named, of whichever engine, are kept in ``reports/published/engines`` first.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.docs.measured import keep
from tests.docs.pages import wanted


def main(runs: list[str]) -> None:
    """Write them."""
    keep(map(Path, runs))
    for page, text in wanted().items():
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
