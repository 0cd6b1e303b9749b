"""Real consumers whose position passes a record before its work is done, each with its right twin.

A commit by a clock finds all work done where the load pauses: the other points let it pass.
"""

from __future__ import annotations

import shutil
import socket
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from harness.judge.verdict import Kind
from harness.matrix.checking import Check
from harness.matrix.progress import make_progress
from harness.matrix.seen import seen_in
from harness.model import events as kinds
from harness.model.events import WorkPhase
from harness.model.history import HISTORY, read_history
from harness.model.writes import FirstWrites
from harness.pipelines import read_pipeline
from harness.pipelines.overtaking import MARK_OVERTAKES, OVERTAKES
from harness.proofs.overtaken import MARK_WAITED, POSITION_WAITED
from tests.pipelines.test_check import PROGRAMS, Silent, check

if TYPE_CHECKING:
    from pathlib import Path

    from harness.saved import CellResult
    from harness.systems.declared.system import DeclaredSystem

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.strace,
    pytest.mark.rest(together=True),
    pytest.mark.timeout(300),
]


def checked(
    system: DeclaredSystem,
    folder: Path,
    how: str,
    program: str = "overtaking",
    point: str = OVERTAKES,
) -> CellResult:
    """Check the program that works in this way."""
    for each in {program, "overtaking"}:
        shutil.copytree(PROGRAMS / each, folder / each)
    file = folder / program / "pipeline.toml"
    file.write_text(file.read_text(encoding="utf-8").replace("HOW", how), encoding="utf-8")
    return check(system, folder / "reports", file, point)[point]


def phases(found: CellResult) -> list[str]:
    """Return what became of the work that was held."""
    return [str(e.phase) for e in read_history(found.directory / HISTORY).of(kinds.Work)]


@pytest.mark.parametrize(
    "how", ["commit-first", "batch-by-clock", "pool-by-clock", "loop-by-clock"]
)
def test_a_commit_that_overtakes_the_work_loses_it(
    system: DeclaredSystem, tmp_path: Path, how: str
) -> None:
    """In one thread, with a batch in memory, in a pool of threads, in an event loop."""
    found = checked(system, tmp_path, how)
    assert found.verdict.kind is Kind.BROKEN, found.verdict.reason
    assert found.verdict.by_fault
    assert found.plan.target in found.judgement.account.lost
    assert phases(found) == [
        WorkPhase.WATCHED,
        WorkPhase.HELD,
        WorkPhase.COVERED,
        WorkPhase.DISCARDED,
    ]


@pytest.mark.parametrize("how", ["commit-behind", "batch", "pool", "loop"])
def test_a_position_that_waits_for_the_work_is_kept(
    system: DeclaredSystem, tmp_path: Path, how: str
) -> None:
    """The same, with the commit behind the work: nobody is killed, and nothing is doubled."""
    found = checked(system, tmp_path, how)
    assert (found.verdict.kind, found.verdict.fired) == (Kind.KEPT, 1), found.verdict.reason
    assert str(POSITION_WAITED) in found.verdict.reason
    assert phases(found) == [WorkPhase.WATCHED, WorkPhase.HELD, WorkPhase.RELEASED]
    assert not found.judgement.account.duplicated


def test_a_fault_that_holds_nothing_proves_nothing(system: DeclaredSystem, tmp_path: Path) -> None:
    """Void, though the consumer is right: its writes go into another file than is held."""
    shutil.copytree(PROGRAMS / "overtaking", tmp_path / "overtaking")
    file = tmp_path / "overtaking" / "pipeline.toml"
    file.write_text(file.read_text(encoding="utf-8").replace("HOW", "pool"), encoding="utf-8")
    asked = Check(replace(read_pipeline(file), patience_s=6.0), system, tmp_path, "pytest")
    with make_progress(Silent()) as progress:
        [cell], _ = asked.plan(seen_in(asked.dry_run(progress)), (OVERTAKES,))
        fault: Any = cell.scenario.fault
        elsewhere = replace(fault.work, writes=FirstWrites(("/nowhere",)))
        scenario = replace(cell.scenario, fault=replace(fault, work=elsewhere))
        saved = asked.faults([replace(cell, scenario=scenario)], (), progress)
    [found] = saved.results
    assert found.verdict.kind is Kind.VOID, found.verdict.reason
    assert "not tried: the consumer was given the target" in found.verdict.reason
    assert found.judgement.account.counts["recorded"] == found.plan.offered


@pytest.mark.parametrize("how", ["before", "first"])
def test_a_mark_that_overtakes_the_acknowledgement_loses_the_record(
    system: DeclaredSystem, tmp_path: Path, how: str
) -> None:
    """The cursor passes the record when it is handed to the client, or before that. In each case it
    may be saved when the request comes to the wire, and was kept then.
    """
    found = checked(system, tmp_path, how, "marking", MARK_OVERTAKES)
    assert found.verdict.kind is Kind.BROKEN, found.verdict.reason
    assert found.verdict.by_fault
    assert found.judgement.account.lost == {found.plan.target}
    assert phases(found) == [WorkPhase.WATCHED, WorkPhase.HELD, WorkPhase.COVERED]


@pytest.mark.parametrize(("how", "last"), [("behind", "covered"), ("never", "released")])
def test_a_mark_that_waits_for_the_acknowledgement_is_kept(
    system: DeclaredSystem, tmp_path: Path, how: str, last: str
) -> None:
    """Who saves marks is killed, for the mark of this record may be among them; it sends the record
    again. Who saves nothing is not.
    """
    found = checked(system, tmp_path, how, "marking", MARK_OVERTAKES)
    assert (found.verdict.kind, found.verdict.fired) == (Kind.KEPT, 1), found.verdict.reason
    assert phases(found) == [WorkPhase.WATCHED, WorkPhase.HELD, last]
    sign = MARK_WAITED if how == "never" else "sent-again"
    assert str(sign) in found.verdict.reason
    assert not found.judgement.account.duplicated


def test_a_mark_by_a_clock_is_awaited(system: DeclaredSystem, tmp_path: Path) -> None:
    """Every 5 s it passes what the client has not sent yet. Its request was held for 2 s, and the
    verdict said that the mark had waited.
    """
    found = checked(system, tmp_path, "clock", "marking", MARK_OVERTAKES)
    assert found.verdict.kind is Kind.BROKEN, found.verdict.reason
    assert found.plan.target in found.judgement.account.lost
    assert phases(found) == [WorkPhase.WATCHED, WorkPhase.HELD, WorkPhase.COVERED]


def test_a_clock_that_waits_for_acknowledgements_is_kept(
    system: DeclaredSystem, tmp_path: Path
) -> None:
    found = checked(system, tmp_path, "clock-behind", "marking", MARK_OVERTAKES)
    assert (found.verdict.kind, found.verdict.fired) == (Kind.KEPT, 1), found.verdict.reason
    assert phases(found)[:2] == [WorkPhase.WATCHED, WorkPhase.HELD]


def test_a_mark_past_the_wire_is_not_tried(system: DeclaredSystem, tmp_path: Path) -> None:
    """Who keeps a connection to a server that lostack does not start may mark there. Nobody can say
    that the mark waited; the verdict names the server.
    """
    for each in ("marking", "overtaking"):
        shutil.copytree(PROGRAMS / each, tmp_path / each)
    folder = tmp_path / "marking"
    file, program = folder / "pipeline.toml", folder / "producer.py"
    with socket.create_server(("127.0.0.1", 0)) as server:
        at = server.getsockname()
        beside = f"import socket\n\nbeside = socket.create_connection({at})\n"
        program.write_text(beside + program.read_text(encoding="utf-8"))
        file.write_text(file.read_text(encoding="utf-8").replace("HOW", "never"))
        found = check(system, tmp_path / "reports", file, MARK_OVERTAKES)[MARK_OVERTAKES]
    said = f"the producer speaks past the wire, and a mark at 127.0.0.1:{at[1]} cannot be seen"
    assert (found.verdict.kind, found.verdict.reason) == (Kind.VOID, f"not tried: {said}")
