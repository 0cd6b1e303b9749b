"""The account on Spark is the account in process: the identical table, row order aside."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.audit.accounts import _cell_row, _kinds, cell_files, cells_on_spark
from harness.model import safe_files
from harness.model.history import read_history
from harness.model.plan import PLAN_FILE
from tests.events import account, whole
from tests.judge.histories import story_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GOLDEN = Path(__file__).parents[1] / "judge" / "golden"


def test_of_a_folder_of_runs_the_cells_are_found(tmp_path: Path) -> None:
    """Whatever links lie beside them: lostack's own to the latest run, or those of programs."""
    cell = tmp_path / "reports" / "20261121-120000" / "cells" / "one"
    (cell / "history").mkdir(parents=True)
    (cell / "history" / "wire.jsonl").touch()
    (cell / PLAN_FILE).touch()
    (cell / "work").mkdir()
    (cell / "work" / "lib64").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "reports" / "latest").symlink_to(cell.parents[1], target_is_directory=True)
    at = "20261121-120000/cells/one"
    assert list(cell_files(tmp_path / "reports")) == [
        f"{at}/history/wire.jsonl",
        f"{at}/{PLAN_FILE}",
    ]
    (cell / "history" / "more.jsonl").symlink_to("/dev/null")
    with pytest.raises(safe_files.UnsafeFileError, match="symbolic link"):
        list(cell_files(tmp_path / "reports"))


def in_process(folders: list[Path]) -> pd.DataFrame:
    """Account cell by cell, in this process."""
    cells = []
    for folder in folders:
        plan = folder / PLAN_FILE
        history = read_history(
            folder / "history", json.loads(plan.read_text())["id"] if plan.exists() else None
        )
        found = account(history.events)
        lines = {"cut_lines": len(history.cut_lines), "damaged_lines": len(history.damage)}
        cells.append({"cell": str(folder.absolute()), **found.counts, **lines})
    return pd.DataFrame(cells)


def same(one: pd.DataFrame, other: pd.DataFrame, by: list[str]) -> None:
    """Compare two tables, row order aside."""
    left, right = (table.sort_values(by, ignore_index=True) for table in (one, other))
    right = right.astype({name: left[name].dtype for name in left.columns})
    pd.testing.assert_frame_equal(left, right[list(left.columns)])


def both_agree(spark: SparkSession, root: Path, folders: list[Path]) -> None:
    """Hold Spark's table against that of this process."""
    same(in_process(folders), cells_on_spark(spark, [root]).toPandas(), ["cell"])


def test_every_column_has_a_type_in_spark() -> None:
    """Also where a cell has no record at all: the types do not depend on what is there."""
    empty, full = (_kinds(_cell_row("", account(events), 0, 0)) for events in ([], story_of(1)))
    assert empty == full


@pytest.mark.spark
@pytest.mark.rest(together="spark")
def test_golden_histories(spark: SparkSession) -> None:
    both_agree(spark, GOLDEN, sorted(path.parent for path in GOLDEN.glob("*/history")))


@pytest.mark.spark
@settings(max_examples=3, suppress_health_check=list(HealthCheck))
@given(st.lists(st.integers(0, 100_000), min_size=1, max_size=40, unique=True))
def test_random_histories(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, seeds: list[int]
) -> None:
    """Many cells in two runs, told as they might have been or thrown together."""
    root = tmp_path_factory.mktemp("runs")
    folders = []
    for number, seed in enumerate(seeds):
        folder = root / f"run-{number % 2}" / "cells" / f"cell-{seed}"
        (folder / "history").mkdir(parents=True)
        lines = [json.dumps(whole(row)) for row in story_of(seed)]
        half = len(lines) // 2
        (folder / "history" / "a.jsonl").write_text("".join(f"{line}\n" for line in lines[:half]))
        (folder / "history" / "b.jsonl").write_text("".join(f"{line}\n" for line in lines[half:]))
        folders.append(folder)
    both_agree(spark, root, folders)


@pytest.mark.spark
def test_lines_of_another_cell_do_not_count(spark: SparkSession, tmp_path: Path) -> None:
    """A history copied into the folder of another cell is damage here as in process, and tells
    nothing about it.
    """
    told = [whole({**row, "cell": "mine"}) for row in story_of(7)]
    folders = []
    for planned, damaged in (("mine", 0), ("another", len(told))):
        folder = tmp_path / "cells" / planned
        (folder / "history").mkdir(parents=True)
        (folder / PLAN_FILE).write_text(json.dumps({"id": planned}))
        (folder / "history" / "a.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in told))
        folders.append(folder)
        assert in_process([folder])["damaged_lines"].item() == damaged
    both_agree(spark, tmp_path, folders)
