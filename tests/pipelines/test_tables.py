"""Jobs of Spark that write into a Delta or an Iceberg table, on a real broker: each wrong one is
convicted of exactly the records that its checkpoints say were in its batches; the right one is
kept.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import TYPE_CHECKING

import pytest

from harness.judge.verdict import Kind
from harness.matrix.seen import seen_in
from harness.model import events as kinds
from harness.model.history import HISTORY, read_history
from tests.pipelines.test_check import EXAMPLES, check

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from harness.pipelines.traffic import StageTraffic
    from harness.saved import CellResult
    from harness.systems.declared.system import DeclaredSystem

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(600)]
MISTAKES = EXAMPLES / "mistakes"
BEHIND_THE_COMMIT = "consumer-crash-at-write-2"
"""Killed right after the first rename since the record was delivered: its batch is in the table's
log, and not in the checkpoint's.
"""
DELTA = re.compile(r"_delta_log/(\d{20})\.json")
ICEBERG = re.compile(r"metadata/v(\d+)\.metadata\.json")
FIRST = {DELTA: 0, ICEBERG: 2}
"""The name of a version → the version of the first batch. The first one of Iceberg makes the table.
"""


@pytest.fixture(scope="module")
def seen(
    system: DeclaredSystem, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Mapping[str, StageTraffic]]:
    """Return what shows what the right job of an example does in a dry run, which is run once. The
    wrong ones ask and write the same.
    """

    @cache
    def of(example: str) -> Mapping[str, StageTraffic]:
        dry = check(system, tmp_path_factory.mktemp("dry"), EXAMPLES / example / "pipeline.toml")
        assert dry["none"].verdict.kind is Kind.KEPT, dry["none"].verdict.reason
        return seen_in(dry["none"])

    return of


class Batches:
    """Which records were in the batches of a query of one topic, as its checkpoint and the topic
    say.
    """

    def __init__(self, cell: CellResult, checkpoint: Path) -> None:
        self._records = {
            (each.partition, each.offset): each.record
            for each in read_history(cell.directory / HISTORY).of(kinds.Stored)
            if each.record is not None  # as each total in the output's topic
        }
        planned = sorted((checkpoint / "offsets").glob("[0-9]*"), key=lambda file: int(file.name))
        said = (json.loads(file.read_text().splitlines()[-1]) for file in planned)
        self._ends: list[Mapping[str, int]] = [each for topics in said for each in topics.values()]

    def records(self, first: int, last: int) -> set[str]:
        """Return the records of these batches, as far as there are so many."""
        begin = self._ends[first - 1] if first else {}
        return {
            self._records[int(partition), offset]
            for partition, end in self._ends[: last + 1][-1].items()
            for offset in range(begin.get(partition, 0), end)
        }

    def each(self) -> list[set[str]]:
        """Return the records of each batch."""
        return [self.records(number, number) for number in range(len(self._ends))]


def killed_behind(cell: CellResult, name: re.Pattern[str] = DELTA) -> int:
    """Return the number of the batch behind whose version of the table a job was killed."""
    [write] = read_history(cell.directory / HISTORY).of(kinds.Durable)
    found = name.search(write.files[-1])
    assert found, f"killed behind another write: {write.files}"
    return int(found[1]) - FIRST[name]


def checkpoints(cell: CellResult) -> list[Path]:
    """Return the checkpoints that each start made anew, in this order."""
    return sorted(
        (cell.directory / "work").glob("tmp*"),
        key=lambda checkpoint: (checkpoint / "metadata").stat().st_mtime_ns,
    )


@pytest.mark.rest
@pytest.mark.parametrize(
    ("example", "name"), [("delta", DELTA), ("iceberg", ICEBERG)], ids=["delta", "iceberg"]
)
def test_a_batch_that_its_table_has_is_left_out(
    system: DeclaredSystem,
    tmp_path: Path,
    seen: Callable[[str], Mapping[str, StageTraffic]],
    example: str,
    name: re.Pattern[str],
) -> None:
    """Delta's finds the batch's number under the application's id, Iceberg's own sink under the
    query's.
    """
    file = MISTAKES / f"{example}-append" / "right.toml"
    cells = check(system, tmp_path, file, BEHIND_THE_COMMIT, seen=seen(example))
    right = cells[BEHIND_THE_COMMIT]
    assert right.verdict.kind is Kind.KEPT, right.verdict.reason
    assert right.verdict.fired == 1
    killed_behind(right, name)
    assert not right.judgement.account.lost | right.judgement.account.duplicated


@pytest.mark.rest
@pytest.mark.parametrize(
    ("example", "name"), [("delta", DELTA), ("iceberg", ICEBERG)], ids=["delta", "iceberg"]
)
def test_a_batch_without_its_number_is_appended_again(
    system: DeclaredSystem,
    tmp_path: Path,
    seen: Callable[[str], Mapping[str, StageTraffic]],
    example: str,
    name: re.Pattern[str],
) -> None:
    """All records of the batch are there twice, and no others."""
    file = MISTAKES / f"{example}-append" / "pipeline.toml"
    cells = check(system, tmp_path, file, BEHIND_THE_COMMIT, seen=seen(example))
    cell = cells[BEHIND_THE_COMMIT]
    assert cell.verdict.kind is Kind.BROKEN, cell.verdict.reason
    number = killed_behind(cell, name)
    again = Batches(cell, cell.directory / "work" / "checkpoint").records(number, number)
    assert cell.judgement.account.duplicated == again
    assert not cell.judgement.account.lost


@pytest.mark.rest
def test_new_batches_with_old_numbers_are_left_out(
    system: DeclaredSystem, tmp_path: Path, seen: Callable[[str], Mapping[str, StageTraffic]]
) -> None:
    """Of the new checkpoint's batches those are lost whose numbers the table knows, but for the
    records that it has.
    """
    file = MISTAKES / "delta-new-checkpoint" / "pipeline.toml"
    cell = check(system, tmp_path, file, BEHIND_THE_COMMIT, seen=seen("delta"))[BEHIND_THE_COMMIT]
    assert cell.verdict.kind is Kind.BROKEN, cell.verdict.reason
    number = killed_behind(cell)
    before, since = checkpoints(cell)
    there = Batches(cell, before).records(0, number)
    left_out = Batches(cell, since).records(0, number)
    assert cell.judgement.account.lost == left_out - there
    assert not cell.judgement.account.duplicated


@pytest.mark.rest
def test_a_new_query_appends_what_an_old_one_has(
    system: DeclaredSystem, tmp_path: Path, seen: Callable[[str], Mapping[str, StageTraffic]]
) -> None:
    """Iceberg knows the batches of a query by its id, which is in its checkpoint: with a new one
    all are there twice that the table had.
    """
    file = MISTAKES / "iceberg-new-checkpoint" / "pipeline.toml"
    cells = check(system, tmp_path, file, BEHIND_THE_COMMIT, seen=seen("iceberg"))
    cell = cells[BEHIND_THE_COMMIT]
    assert cell.verdict.kind is Kind.BROKEN, cell.verdict.reason
    before, _ = checkpoints(cell)
    had = Batches(cell, before).records(0, killed_behind(cell, ICEBERG))
    assert cell.judgement.account.duplicated == had
    assert not cell.judgement.account.lost


@pytest.mark.rest
@pytest.mark.postgres
@pytest.mark.parametrize(("file", "kind"), [("pipeline", Kind.BROKEN), ("right", Kind.KEPT)])
def test_a_batch_is_appended_again_by_jdbc_or_takes_the_place_of_the_first(
    system: DeclaredSystem, folder_of_all: Path, file: str, kind: Kind
) -> None:
    """Killed behind a commit to PostgreSQL, which no checkpoint knows of. Each partition of a batch
    has its own, so some of one batch is there twice.
    """
    point, declared = "consumer-crash-at-db-2", MISTAKES / "jdbc-append" / f"{file}.toml"
    cell = check(system, folder_of_all, declared, point)[point]
    assert cell.verdict.kind is kind, cell.verdict.reason
    account = cell.judgement.account
    assert not account.lost
    if kind is Kind.BROKEN:
        batches = Batches(cell, cell.directory / "work" / "checkpoint")
        [batch] = [each for each in batches.each() if each & account.duplicated]
        assert account.duplicated <= batch


@pytest.mark.rest
@pytest.mark.parametrize(("file", "kind"), [("pipeline", Kind.BROKEN), ("right", Kind.KEPT)])
def test_totals_in_memory_are_lost_and_those_in_a_state_store_are_not(
    system: DeclaredSystem, tmp_path: Path, file: str, kind: Kind
) -> None:
    """What the dead driver had added up is missing where its successor says a total of the key."""
    point, declared = "consumer-crash-before-delivery", MISTAKES / "state-in-memory"
    cell = check(system, tmp_path, declared / f"{file}.toml", point)[point]
    assert cell.verdict.kind is kind, cell.verdict.reason
    account = cell.judgement.account
    assert not account.duplicated
    if kind is Kind.BROKEN:
        batches = Batches(cell, cell.directory / "work" / "checkpoint").each()
        [again] = [number for number, each in enumerate(batches) if cell.plan.target in each]
        before, after = (set[str]().union(*some) for some in (batches[:again], batches[again:]))
        said = set(map(key_of, after))
        assert account.lost == {record for record in before if key_of(record) in said}
        assert account.lost


def key_of(record: str) -> str:
    """Return the key of a record."""
    return record.partition("-")[0]
