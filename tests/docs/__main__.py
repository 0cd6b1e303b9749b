"""Writes the generated parts of all pages anew: ``python -m tests.docs [RUN...]``.

A RUN is the folder of a run, as ``lostack run`` prints it. Its counts are kept in
``reports/published/engines`` first, and what it says of the common points in ``docs/points.json``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests import points
from tests.docs.measured import CannotKeepError, keep, report_of
from tests.docs.pages import ROOT, pages, parts_of, table, wanted


def main(runs: list[str]) -> None:
    """Write them; say what was kept, and which tables wait for a run."""
    try:
        for line in keep(map(Path, runs)):
            print(line)  # noqa: T201 - a command
        points.main([str(report_of(Path(run))) for run in runs])
    except CannotKeepError as e:
        sys.exit(str(e))
    for page, text in wanted().items():
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(text, encoding="utf-8")
    for page in pages():
        for name in parts_of(page):
            shown = table(name)
            if shown is not None and shown.waits():
                counted, cells = shown.counted()
                print(  # noqa: T201
                    f"{page.relative_to(ROOT)}: {name} stays by hand: {counted} of {cells} cells "
                    "have counts"
                )


if __name__ == "__main__":
    main(sys.argv[1:])
