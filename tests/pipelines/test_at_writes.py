"""Real consumers that are killed at their durable writes: where row and position come apart, and
where they do not.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import pytest

from harness.faults import CrashAtWrite
from harness.judge.verdict import Kind
from harness.matrix.checking import Check
from harness.matrix.progress import make_progress
from harness.matrix.seen import seen_in
from harness.model import events as kinds
from harness.model.history import HISTORY, read_history
from harness.model.scenario import Role
from harness.model.writes import Point, Side
from harness.pipelines import read_pipeline
from harness.protocols.kafka.steps import Api
from harness.report.record import advice
from harness.wire.rules import Direction
from tests.pipelines.test_check import EXAMPLES, Silent, check

if TYPE_CHECKING:
    from pathlib import Path

    from harness.model.history import Event
    from harness.saved import CellResult
    from harness.systems.declared.system import DeclaredSystem

    A = TypeVar("A", bound=Event)

FOLDER = EXAMPLES / "mistakes" / "two-transactions"
FIRST, SECOND = "consumer-crash-at-write-2", "consumer-crash-at-write-4"
"""Behind the first unlink of a journal, which ends a transaction of SQLite's, and behind the
second.
"""
pytestmark = [
    pytest.mark.kafka,
    pytest.mark.strace,
    pytest.mark.rest(together=True),
    pytest.mark.timeout(600),
]


def told(found: CellResult, kind: type[A]) -> list[A]:
    """Return what the history of a cell says of a kind."""
    return list(read_history(found.directory / HISTORY).of(kind))


def test_a_row_and_its_position_come_apart_between_two_transactions(
    system: DeclaredSystem, tmp_path: Path
) -> None:
    """At one of two commits that follow each other, whichever is the row's; nothing else is wrong
    with it.

    Before there were these points it was kept, for a program that saves no position in Kafka was
    never crashed at all.
    """
    found = check(system, tmp_path, FOLDER / "pipeline.toml", FIRST, SECOND)
    [kept, broken] = sorted(found.values(), key=lambda one: one.verdict.kind is Kind.BROKEN)
    assert (kept.verdict.kind, broken.verdict.kind) == (Kind.KEPT, Kind.BROKEN)
    assert broken.verdict.by_fault
    assert len(broken.judgement.account.duplicated) == 1
    assert not broken.judgement.account.lost
    [held] = told(broken, kinds.Durable)
    assert held.files == (str(broken.directory.resolve() / "work" / "orders.db-journal"),)
    assert next(e.signal for e in told(broken, kinds.Node) if e.phase == "exited") == 9
    said = "\n".join(advice(broken))
    assert "was held after unlink" in said
    assert "write the result and its position in one transaction" in said


def test_in_one_transaction_they_stay_together(system: DeclaredSystem, tmp_path: Path) -> None:
    points = ("consumer-crash-at-write-1", FIRST, SECOND, "consumer-crash-at-write-6")
    found = check(system, tmp_path, FOLDER / "right.toml", *points)
    assert {
        name: (one.verdict.kind, one.verdict.fired) for name, one in found.items()
    } == dict.fromkeys(points, (Kind.KEPT, 1))


def test_one_process_of_a_stage_is_killed_alone(system: DeclaredSystem, tmp_path: Path) -> None:
    """The one whose thread is held; the other lives, and is let go of by its tracer."""
    text = (FOLDER / "right.toml").read_text(encoding="utf-8")
    command = (
        f'["sh", "-c", "{{python}} {FOLDER}/right.py {{work}}/orders.db; exit 1"]\ncrash = '
        '"process"'
    )
    file = tmp_path / "pipeline.toml"
    file.write_text(text.replace('"{python} right.py {work}/orders.db"', command), encoding="utf-8")
    found = check(system, tmp_path / "reports", file, FIRST)[FIRST]
    assert found.verdict.kind is Kind.KEPT, found.verdict.reason
    [held] = told(found, kinds.Durable)
    ends = [e for e in told(found, kinds.Node) if e.phase == "exited"]
    assert [(e.pid, e.signal, e.status) for e in ends[:2]] == [
        (held.pid, 9, None),
        (ends[0].of, None, 1),
    ]


def test_a_temporary_file_is_no_place_to_be_killed_at(
    system: DeclaredSystem, tmp_path: Path
) -> None:
    """Each record has one of another name, which comes in no other run; what is unpacked by a JVM
    is like that.
    """
    folder = tmp_path / "mine"
    shutil.copytree(FOLDER, folder)
    program = folder / "right.py"
    text = program.read_text(encoding="utf-8")
    spends = "made, _ = tempfile.mkstemp(); os.write(made, b'1'); os.write(made, b'2')"
    loop = "for message in consumer:\n"
    assert loop in text
    more = text.replace(loop, f"{loop}    {spends}\n")
    program.write_text(f"import os, tempfile\n{more}", encoding="utf-8")
    asked = Check(read_pipeline(folder / "right.toml"), system, tmp_path / "runs", "pytest")
    with make_progress(Silent()) as progress:
        dry = asked.dry_run(progress)
    [written] = [each for each in told(dry, kinds.Writes) if each.role == Role.CONSUMER]
    assert "unlink" in written.made
    assert not [file for file in written.files if not file.startswith("{work}")]


def test_a_write_that_never_comes_is_no_crash(system: DeclaredSystem, tmp_path: Path) -> None:
    """Void, and said so; the stage is let go of, and everything is recorded."""
    asked = Check(read_pipeline(FOLDER / "right.toml"), system, tmp_path, "pytest")
    with make_progress(Silent()) as progress:
        [cell], _ = asked.plan(seen_in(asked.dry_run(progress)), (FIRST,))
        never = CrashAtWrite(
            Role.CONSUMER, (Api.FETCH, Direction.RESPONSE), Point("unlink", 10_000, Side.AFTER)
        )
        saved = asked.faults(
            [replace(cell, scenario=replace(cell.scenario, fault=never))], (), progress
        )
    [found] = saved.results
    assert (found.verdict.kind, found.verdict.reason) == (Kind.VOID, "the fault did not fire")
    assert found.judgement.account.counts["recorded"] == found.plan.offered
    assert not told(found, kinds.Durable)
