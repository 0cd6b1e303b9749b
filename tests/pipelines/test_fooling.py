"""Programs that try to be taken for what they are not: wrong ones that look kept, a right one that
looks stuck; on a real broker.

Each was, before what its test says was done about it.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from harness.judge.verdict import Kind
from harness.model import events as kinds
from harness.model.history import HISTORY, read_history
from harness.pipelines import read_pipeline
from tests.pipelines.test_check import PROGRAMS, check
from tests.pipelines.test_late import run

if TYPE_CHECKING:
    from pathlib import Path

    from harness.systems.declared.system import DeclaredSystem

pytestmark = [pytest.mark.kafka, pytest.mark.rest(together=True), pytest.mark.timeout(300)]


def test_what_a_timer_doubles_after_a_crash_is_seen(system: DeclaredSystem, tmp_path: Path) -> None:
    """Everything is there at once, and 5 s later one record twice: kept, while a cell was over 1 s
    after everything was there.
    """
    pipeline = read_pipeline(PROGRAMS / "late-replay" / "pipeline.toml")
    found = run(system, tmp_path, pipeline, "commit-lost")["commit-lost"]
    assert found.verdict.kind is Kind.BROKEN, found.verdict.reason
    assert found.judgement.account.duplicated == {found.plan.target}
    assert found.verdict.by_fault


@pytest.mark.strace
def test_a_mark_and_its_row_come_apart_though_nothing_is_flushed(
    system: DeclaredSystem, tmp_path: Path
) -> None:
    """Two transactions in a write-ahead log: kept at all ten points, while only calls that flush or
    rename were points.
    """
    points = [f"consumer-crash-at-write-{number}" for number in range(1, 7)]
    found = check(system, tmp_path, PROGRAMS / "marks-first" / "pipeline.toml", *points)
    verdicts = {name: one.verdict.kind for name, one in found.items()}
    assert set(verdicts.values()) == {Kind.KEPT, Kind.BROKEN}, [
        one.verdict.reason for one in found.values()
    ]
    for one in found.values():
        broken = one.verdict.kind is Kind.BROKEN
        assert len(one.judgement.account.lost) == int(broken)
        assert one.verdict.fired == 1
        [held] = read_history(one.directory / HISTORY).of(kinds.Durable)
        assert held.files == (str(one.directory.resolve() / "work" / "orders.db-wal"),)


@pytest.mark.strace
def test_a_row_that_is_never_filled_in_is_lost(system: DeclaredSystem, tmp_path: Path) -> None:
    """Its id is there, and its customer is not: kept, while a result counted by its id alone."""
    points = ("consumer-crash-at-write-2", "consumer-crash-at-write-4")
    found = check(system, tmp_path, PROGRAMS / "half-row" / "pipeline.toml", *points)
    [kept, broken] = sorted(found.values(), key=lambda one: one.verdict.kind is Kind.BROKEN)
    assert (kept.verdict.kind, broken.verdict.kind) == (Kind.KEPT, Kind.BROKEN)
    assert len(broken.judgement.account.lost) == 1
    assert (
        "1 row of the output has nothing in column 2, where every row had something without a fault"
        in broken.verdict.reason
    )


def test_what_is_printed_into_a_buffer_is_no_result(system: DeclaredSystem, tmp_path: Path) -> None:
    """Kept, while a variable was set for the program that its production may not have; with it, it
    is kept indeed.
    """
    pipeline = dataclasses.replace(
        read_pipeline(PROGRAMS / "prints" / "pipeline.toml"), patience_s=6.0
    )
    dry = run(system, tmp_path, pipeline)["none"]
    assert dry.verdict.kind is Kind.VOID, dry.verdict.reason
    assert "a program buffers what it prints" in dry.verdict.reason
    [stage] = pipeline.stages
    unbuffered = dataclasses.replace(stage, environment={"PYTHONUNBUFFERED": "1"})
    found = run(
        system, tmp_path, dataclasses.replace(pipeline, stages=(unbuffered,)), "commit-lost"
    )["commit-lost"]
    assert found.verdict.kind is Kind.KEPT, found.verdict.reason
    assert found.judgement.account.duplicated == {found.plan.target}


def test_who_commits_behind_every_tenth_is_not_stuck(
    system: DeclaredSystem, tmp_path: Path
) -> None:
    """Its position is never behind the last few: stuck after 90 s without a fault, and nothing was
    tried of a right program.
    """
    points = ("commit-lost", "consumer-crash-before-delivery")
    found = check(system, tmp_path, PROGRAMS / "every-tenth" / "pipeline.toml", *points)
    assert {name: one.verdict.kind for name, one in found.items()} == dict.fromkeys(
        points, Kind.KEPT
    )
    for one in found.values():
        assert "no position is saved behind the last records" in one.verdict.reason
        assert not one.judgement.account.lost
        assert 0 < len(one.judgement.account.duplicated) <= 10


def test_a_window_of_ids_ends_while_its_program_is_down(
    system: DeclaredSystem, tmp_path: Path
) -> None:
    """It comes back at once unless it is told otherwise, and remembers the last 3 s: kept, where
    that is fast enough.
    """
    pipeline = read_pipeline(PROGRAMS / "dedup-window" / "pipeline.toml")
    [stage] = pipeline.stages
    down = dataclasses.replace(
        pipeline, stages=(dataclasses.replace(stage, down_s=5.0),), patience_s=6.0
    )
    found = run(system, tmp_path, down, "commit-lost")["commit-lost"]
    assert found.verdict.kind is Kind.BROKEN, found.verdict.reason
    assert found.judgement.account.duplicated == {found.plan.target}
