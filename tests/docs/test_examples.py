"""Each example has its row in ``examples/README.md``, which says what its declaration says."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from harness.pipelines import read_pipeline
from harness.pipelines.failure_points import failure_points
from harness.pipelines.pairs import Paired, Pairs
from tests.docs.pages import ROOT

if TYPE_CHECKING:
    from pathlib import Path

EXAMPLES = ROOT / "examples"
ROW = re.compile(r"^\| `([\w-]+)` \|.*?\| ([\w-]+) \|(?: `([\w-]+)`: .*\|)?$", re.MULTILINE)
"""The name of a folder, what it claims and, of a mistake, where it is broken."""
ROWS = {
    name: (claims, point)
    for name, claims, point in ROW.findall((EXAMPLES / "README.md").read_text(encoding="utf-8"))
}
RIGHT = sorted(file.parent for file in EXAMPLES.glob("*/pipeline.toml"))
WRONG = sorted(each for each in (EXAMPLES / "mistakes").iterdir() if each.is_dir())


def test_every_folder_has_a_row_and_every_row_a_folder() -> None:
    assert sorted(ROWS) == sorted(folder.name for folder in (*RIGHT, *WRONG))


@pytest.mark.parametrize("folder", [*RIGHT, *WRONG], ids=lambda folder: folder.name)
def test_a_row_says_what_the_declaration_claims(folder: Path) -> None:
    assert str(read_pipeline(folder / "pipeline.toml").claims) == ROWS[folder.name][0]


@pytest.mark.parametrize("folder", WRONG, ids=lambda folder: folder.name)
def test_a_mistake_is_broken_at_a_point_that_it_has_and_stands_beside_what_is_right(
    folder: Path,
) -> None:
    """Both claim the same, or the right one would prove nothing about the claim."""
    wrong = read_pipeline(folder / "pipeline.toml")
    sends = [stage.known for stage in wrong.stages]  # a dry run shows which of them send
    points = {
        each.id
        for sending in ((), sends)
        for each in failure_points(wrong, sending=sending, paired=Paired(Pairs.ALL))
    }
    assert ROWS[folder.name][1] in points
    assert read_pipeline(folder / "right.toml").claims is wrong.claims
