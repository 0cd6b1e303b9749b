"""The committed board: its pages are made of its rows, and these name nothing of a machine."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from harness.scoreboard.board import read_outcomes
from harness.scoreboard.page import write_page
from harness.scoreboard.predicting import read_predictions
from harness.scoreboard.table import read_clients, rows_of
from tests.docs.published import PUBLISHED

if TYPE_CHECKING:
    from pathlib import Path

BOARD = PUBLISHED / "scoreboard"


def test_the_pages_are_those_of_the_rows(tmp_path: Path) -> None:
    """Else: ``lostack scoreboard --page --board reports/published/scoreboard``."""
    outcomes, rows = read_outcomes(BOARD), tuple(rows_of(read_clients()))
    made = write_page(tmp_path, outcomes, rows, read_predictions())
    assert {file.name for file in made} == {file.name for file in BOARD.iterdir() if file.is_file()}
    for file in made:
        assert file.read_bytes() == (BOARD / file.name).read_bytes(), file.name


def test_each_row_is_of_the_table() -> None:
    """And of the programs that are there: what was found of others is not true of them."""
    known = {row.id: row.sources for row in rows_of(read_clients())}
    found = {one.row: one.sources for one in read_outcomes(BOARD)}
    assert found == {name: known.get(name) for name in found}


def test_no_row_names_a_folder_of_a_machine() -> None:
    """What a program has printed may."""
    for file in (BOARD / "rows").glob("*.json"):
        assert not re.search(r"/(?:root|home|tmp|work|Users)/", file.read_text(encoding="utf-8"))
