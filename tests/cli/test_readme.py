"""What README says of the cells, against the cells."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness import registry
from harness.matrix.selection import choose
from harness.model.scenario import NotApplicable

README = " ".join((Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8").split())


@pytest.mark.parametrize(
    ("text", "system", "suite"),
    [
        (r"(\d+) cells and (\d+) that cannot exist", None, "core"),
        (r"Of Kafka these are (\d+) and (\d+)", "kafka", "core"),
        (r"`--suite day` has (\d+) and (\d+)", None, "day"),
        (r"`--suite night` has (\d+) and (\d+)", None, "night"),
    ],
)
def test_the_totals_are_those_of_the_cells(text: str, system: str | None, suite: str) -> None:
    """Whoever adds a scenario changes the totals, too."""
    cells = choose(registry.scenarios(), system=system, suite=suite)
    not_run = sum(isinstance(cell.expectation, NotApplicable) for cell in cells)
    said = re.search(text, README)
    assert said, text
    assert (int(said[1]), int(said[2])) == (len(cells) - not_run, not_run)
