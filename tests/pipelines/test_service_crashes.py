"""Real consumers that are killed at what they say to a service: where two commits, or two requests,
come apart, and where there is only one.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pytest

from harness.controls import OnWire
from harness.faults import Kill
from harness.judge.verdict import Kind
from harness.matrix.checking import Check
from harness.matrix.explaining import untried
from harness.matrix.progress import make_progress
from harness.matrix.seen import seen_in
from harness.model import events as kinds
from harness.model.history import HISTORY, read_history
from harness.pipelines import read_pipeline
from harness.report.record import advice
from harness.runtimes.ports import PortLease
from tests.pipelines.test_check import Silent, check

if TYPE_CHECKING:
    from harness.model.history import Event
    from harness.saved import CellResult
    from harness.systems.declared.system import DeclaredSystem

    A = TypeVar("A", bound=Event)

PROGRAMS = Path(__file__).parent / "programs"
BEHIND = ("consumer-crash-at-store-2", "consumer-crash-at-store-4")
"""Behind two steps that follow each other: the first is behind half of the work."""
LOST = ("consumer-store-answer-lost-1", "consumer-store-answer-lost-2")
BEFORE = ("consumer-crash-at-store-1", "consumer-crash-at-store-3")
COMMITS, POSTS = PROGRAMS / "two-commits", PROGRAMS / "two-posts"
BOTH = [
    pytest.param(COMMITS, "DatabaseCommit", id="postgresql", marks=pytest.mark.postgres),
    pytest.param(POSTS, "Turn", id="http"),
]
pytestmark = [
    pytest.mark.kafka,
    pytest.mark.rest(together=True),
    pytest.mark.timeout(600),
]


def told(found: CellResult, kind: type[A]) -> list[A]:
    """Return what the history of a cell says of a kind."""
    return list(read_history(found.directory / HISTORY).of(kind))


@pytest.mark.parametrize(("folder", "step"), BOTH)
def test_two_steps_at_a_service_come_apart(
    system: DeclaredSystem, folder_of_all: Path, folder: Path, step: str
) -> None:
    """Killed behind the first of two, or not told of it, the program never does the second.

    Before there were these points it was kept: the wire did not see the service, and the program
    makes no durable write of its own.
    """
    found = check(system, folder_of_all, folder / "pipeline.toml", *BEHIND, *LOST)
    for pair in (BEHIND, LOST):
        broken, kept = (found[name] for name in pair)
        assert (kept.verdict.kind, broken.verdict.kind) == (Kind.KEPT, Kind.BROKEN), (
            kept.verdict.reason,
            broken.verdict.reason,
        )
        assert broken.verdict.by_fault
        assert len(broken.judgement.account.lost) == 1
        [hit] = [e for e in told(broken, kinds.Rule) if e.phase == "hit" and e.rule == "fault"]
        assert (hit.api, hit.node, hit.role) == (step, "store", "consumer")
        said = "\n".join(advice(broken))
        assert "write the result and its position in one transaction" in said
        ends = [e.signal for e in told(broken, kinds.Node) if e.phase == "exited"]
        assert (9 in ends[:1]) is (pair is BEHIND)


@pytest.mark.parametrize(("folder", "step"), BOTH)
def test_one_step_at_a_service_is_done_or_not(
    system: DeclaredSystem, folder_of_all: Path, folder: Path, step: str
) -> None:
    """Before it and behind it, and where its answer is lost: it is done again, and only once."""
    del step
    points = (*BEFORE, *BEHIND, *LOST)
    found = check(system, folder_of_all, folder / "right.toml", *points)
    assert {
        name: (one.verdict.kind, one.verdict.fired) for name, one in found.items()
    } == dict.fromkeys(points, (Kind.KEPT, 1)), {
        name: one.verdict.reason for name, one in found.items()
    }


def test_a_step_that_never_comes_is_no_crash(system: DeclaredSystem, tmp_path: Path) -> None:
    """Void, and said so; everything is recorded."""
    asked = Check(read_pipeline(POSTS / "right.toml"), system, tmp_path, "pytest")
    with make_progress(Silent()) as progress:
        dry = asked.dry_run(progress)
        [cell], _ = asked.plan(seen_in(dry), BEHIND[:1])
        fault = cell.scenario.fault
        assert isinstance(fault, Kill)
        assert isinstance(fault.at, OnWire)
        never = replace(fault, at=replace(fault.at, node="another"))
        saved = asked.faults(
            [replace(cell, scenario=replace(cell.scenario, fault=never))], (), progress
        )
    [found] = saved.results
    assert (found.verdict.kind, found.verdict.reason) == (Kind.VOID, "the fault did not fire")
    assert found.judgement.account.counts["recorded"] == found.plan.offered


def test_a_server_past_the_wire_is_named_as_not_tried(
    system: DeclaredSystem, tmp_path: Path
) -> None:
    """One whose port the program knows by itself: a connection of milliseconds to it is seen."""
    text = (POSTS / "right.toml").read_text(encoding="utf-8")
    text = text.replace("../../../../", f"{PROGRAMS.parents[2]}/")
    for program in ("store.py", "book.py"):
        text = text.replace(program, f"{POSTS}/{program}")
    file = tmp_path / "pipeline.toml"
    with PortLease() as lease, make_progress(Silent()) as progress:
        file.write_text(text.replace("{store.port}", str(lease.port)), encoding="utf-8")
        pipeline = read_pipeline(file)
        asked = Check(pipeline, system, tmp_path / "reports", "pytest")
        seen = seen_in(asked.dry_run(progress))
        cells, rest = asked.plan(seen)
    points = [cell.scenario for cell in (*cells, *rest)]
    assert not [point.id for point in points if "store" in point.id]
    [said] = untried(pipeline, points, seen)
    assert said.startswith(f"What the consumer says to 127.0.0.1:{lease.port} is not tried: ")
