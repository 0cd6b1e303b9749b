"""Writes the table of points anew, in docs/points.md, and Kafka's line of it in words, in
README.md: ``python -m tests.points [RUN...]``.

What the runs have measured is added to docs/points.json. A run is its folder, or the
``report.json`` that was kept of it.
"""

from __future__ import annotations

import json
import re
import sys
from functools import reduce
from pathlib import Path
from typing import Final

from harness.matrix.points import NOTHING, POINTS, measured_in, page, places
from harness.model.semantics import Semantic
from harness.saved import load_run

ROOT: Final = Path(__file__).parents[1]
KEPT: Final = ROOT / "docs" / "points.json"
PAGE: Final = ROOT / "docs" / "points.md"
README: Final = ROOT / "README.md"
SECTION: Final = re.compile(r"(?<=<!-- points -->\n).*?(?=<!-- /points -->)", re.DOTALL)
HEAD: Final = """# The same points on every system

Made by `python -m tests.points`: the predictions are those of the scenarios, and what was measured is in `points.json`.
`lostack points` shows it, and with the names of saved runs what those have measured.

"""  # noqa: E501

WORDS: Final = {"L": "**lost**", "D": "**doubled**", "0": "safe", NOTHING: NOTHING}
"""What README says for a letter of the table."""

Measured = dict[str, dict[int, bool]]


def kept() -> Measured:
    """Return what was measured."""
    read = json.loads(KEPT.read_text(encoding="utf-8"))
    return {
        name: {int(seed): right for seed, right in seeds.items()} for name, seeds in read.items()
    }


def added(known: Measured, new: Measured) -> Measured:
    """Return both, of the cells that the table has; a later run of a seed takes the place of the
    earlier one.
    """
    wanted = {cell.name for line in places() for place in line for cell in place.cells()}
    names = sorted((known.keys() | new.keys()) & wanted)
    return {
        name: dict(sorted({**known.get(name, {}), **new.get(name, {})}.items())) for name in names
    }


def rewritten(measured: Measured) -> dict[Path, str]:
    """Return what the files are to hold."""
    lines = ",\n".join(
        f" {json.dumps(name)}: {json.dumps(seeds)}" for name, seeds in measured.items()
    )
    readme = SECTION.sub(lambda _: f"\n{in_words(measured)}\n", README.read_text(encoding="utf-8"))
    return {KEPT: f"{{\n{lines}\n}}\n", PAGE: HEAD + page(measured), README: readme}


def in_words(measured: Measured) -> str:
    """Return what plain Kafka does at each point, a row for each semantic, in Markdown. The points
    have the numbers that they have in ``docs/pipeline.svg``.
    """
    [line] = (line for line in places() if line[0].system == "kafka" and not line[0].line.scenarios)
    heads = (f"{number} {name}" for number, name in enumerate(POINTS.values(), start=1))
    rows = [["promise", *heads], ["---"] * (len(POINTS) + 1)]
    for at, semantic in enumerate(Semantic):
        cells = (list(place.cells())[at].text(measured) for place in line)
        rows.append([str(semantic), *(WORDS[cell] for cell in cells)])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def reported(report: Path) -> Measured:
    """Return what a report in JSON says of the cells of its run: whether each came out as
    predicted. A void one says nothing.
    """
    found: Measured = {}
    for cell in json.loads(report.read_text(encoding="utf-8"))["cells"]:
        if cell.get("outcome") == "void":
            continue
        name = "/".join(
            cell[part] for part in ("system", "client", "pipeline", "scenario", "semantic")
        )
        found.setdefault(name, {})[cell["seed"]] = cell["green"]
    return found


def main(runs: list[str]) -> None:
    """Write them."""
    reports = [Path(run) for run in runs if run.endswith(".json")]
    saved = [
        result
        for run in runs
        if not run.endswith(".json")
        for result in load_run(Path(run)).results
    ]
    measured = reduce(added, [*map(reported, reports), measured_in(saved)], kept())
    for file, text in rewritten(measured).items():
        file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
