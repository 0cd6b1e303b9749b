"""Jobs of Flink that write into an Iceberg table, on a real broker: the wrong ones are convicted of
what the table says, and the right one is kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness.judge.verdict import Kind
from harness.tables.iceberg import IcebergTable
from tests.pipelines.test_check import EXAMPLES, check

if TYPE_CHECKING:
    from pathlib import Path

    from harness.saved import CellResult
    from harness.systems.declared.system import DeclaredSystem

pytestmark = [pytest.mark.kafka, pytest.mark.flink, pytest.mark.rest, pytest.mark.timeout(900)]
MISTAKES = EXAMPLES / "mistakes"
AT_A_COMMIT = "consumer-crash-at-write-6"
"""Killed when it is about to clean up behind a commit: the table has what was committed before."""


def at_a_commit(system: DeclaredSystem, folder: Path, file: Path) -> CellResult:
    """Return the cell in which the job is killed at a commit to the table."""
    cell = check(system, folder, file, AT_A_COMMIT)[AT_A_COMMIT]
    assert cell.verdict.fired == 1, cell.verdict.reason
    return cell


def booked(cell: CellResult) -> list[str]:
    """Return the rows of the table."""
    table = IcebergTable(cell.directory / "work" / "lake" / "shop" / "booked")
    return [str(row["booked"]) for row in table.rows()]


def test_a_job_that_goes_on_from_its_checkpoint_is_kept(
    system: DeclaredSystem, tmp_path: Path
) -> None:
    """What its checkpoint has and the table has not is committed, and what the table has is not
    committed again.
    """
    cell = at_a_commit(system, tmp_path, EXAMPLES / "flink-iceberg" / "pipeline.toml")
    assert cell.verdict.kind is Kind.KEPT, cell.verdict.reason
    assert not cell.judgement.account.lost | cell.judgement.account.duplicated


def test_a_job_that_goes_on_from_its_group_books_what_the_table_has(
    system: DeclaredSystem, tmp_path: Path
) -> None:
    """The group's offsets are saved behind the commit to the table, if at all."""
    cell = at_a_commit(system, tmp_path, MISTAKES / "flink-iceberg-offsets" / "pipeline.toml")
    assert cell.verdict.kind is Kind.BROKEN, cell.verdict.reason
    account = cell.judgement.account
    assert account.duplicated
    assert len(booked(cell)) >= 48 - len(account.lost) + len(account.duplicated)


def test_a_job_with_one_id_drops_what_it_makes_after_a_start_without_state(
    system: DeclaredSystem, tmp_path: Path
) -> None:
    """Its second life counts checkpoints from 1, and the table has greater numbers under the job's
    id: nothing of the second life is in it.
    """
    file = MISTAKES / "flink-iceberg-job-id" / "pipeline.toml"
    cell = at_a_commit(system, tmp_path / "wrong", file)
    assert cell.verdict.kind is Kind.BROKEN, cell.verdict.reason
    account = cell.judgement.account
    assert not account.duplicated
    assert 0 < len(account.lost) == 48 - len(booked(cell))
    twin = at_a_commit(system, tmp_path / "right", file.with_name("right.toml"))
    assert twin.verdict.kind is Kind.KEPT, twin.verdict.reason
    assert twin.judgement.account.duplicated
