"""Real consumers whose work goes to a service, a database or a store over HTTP: a commit overtakes
it, or waits for it. The wire holds the work on its way.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.judge.verdict import Kind
from harness.model import events as kinds
from harness.model.events import WorkPhase
from harness.pipelines.overtaking import MARK_OVERTAKES, OVERTAKES
from harness.proofs.overtaken import MARK_WAITED, POSITION_WAITED
from tests.pipelines.test_check import check
from tests.pipelines.test_overtaking import phases
from tests.pipelines.test_service_crashes import told

if TYPE_CHECKING:
    from harness.saved import CellResult
    from harness.systems.declared.system import DeclaredSystem

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.rest(together=True),
    pytest.mark.timeout(300),
]
SERVICES = [
    pytest.param(
        "overtaking/database.toml",
        "DatabaseCommit",
        "pool",
        id="postgresql",
        marks=pytest.mark.postgres,
    ),
    pytest.param("overtaking/posts.toml", "Turn", "batch", id="http"),
]
"""A declaration, what the wire holds there, and how the program works."""


def checked(
    system: DeclaredSystem, folder: Path, file: str, how: str, point: str = OVERTAKES
) -> CellResult:
    """Check the program that works in this way, with its results or its mark at a service."""
    own = Path(__file__).parents[2]
    for each in ("examples/outbox", "tests/pipelines/programs"):
        shutil.copytree(own / each, folder / each)
    declared = folder / "tests" / "pipelines" / "programs" / file
    declared.write_text(declared.read_text(encoding="utf-8").replace("HOW", how), encoding="utf-8")
    return check(system, folder / "reports", declared, point)[point]


@pytest.mark.strace
@pytest.mark.parametrize("how", ["pool", "pool-by-clock"])
@pytest.mark.parametrize(("file", "held"), [("asks", "frame"), ("asks-beside", "write")])
def test_who_asks_all_the_time_is_tried_at_its_output(
    system: DeclaredSystem, folder_of_all: Path, file: str, held: str, how: str
) -> None:
    """It never rests, but what it posts is larger than what it asks, or goes into the output. All
    of them were void.
    """
    found = checked(system, folder_of_all, f"overtaking/{file}.toml", how)
    wrong = how == "pool-by-clock"
    assert found.verdict.kind is (Kind.BROKEN if wrong else Kind.KEPT), found.verdict.reason
    assert (found.plan.target in found.judgement.account.lost) is wrong
    assert {how for how, _ in held_at(found)} == {held}


def held_at(found: CellResult) -> list[tuple[str | None, str | None]]:
    """Return how the work was held, and at what."""
    return [(e.how, e.call) for e in told(found, kinds.Work) if e.phase == WorkPhase.HELD]


@pytest.mark.parametrize(("file", "step", "how"), SERVICES)
def test_a_commit_that_overtakes_the_work_at_a_service_loses_it(
    system: DeclaredSystem, folder_of_all: Path, file: str, step: str, how: str
) -> None:
    found = checked(system, folder_of_all, file, f"{how}-by-clock")
    assert found.verdict.kind is Kind.BROKEN, found.verdict.reason
    assert found.verdict.by_fault
    assert found.plan.target in found.judgement.account.lost
    assert phases(found) == [
        WorkPhase.WATCHED,
        WorkPhase.HELD,
        WorkPhase.COVERED,
        WorkPhase.DISCARDED,
    ]
    assert held_at(found) == [("frame", step)]


@pytest.mark.parametrize(("file", "step", "how"), SERVICES)
def test_a_position_that_waits_for_the_work_at_a_service_is_kept(
    system: DeclaredSystem, folder_of_all: Path, file: str, step: str, how: str
) -> None:
    """The same, with the commit behind the work: nobody is killed, and nothing is doubled."""
    found = checked(system, folder_of_all, file, how)
    assert (found.verdict.kind, found.verdict.fired) == (Kind.KEPT, 1), found.verdict.reason
    assert str(POSITION_WAITED) in found.verdict.reason
    assert phases(found) == [WorkPhase.WATCHED, WorkPhase.HELD, WorkPhase.RELEASED]
    assert held_at(found) == [("frame", step)]
    assert not found.judgement.account.duplicated


@pytest.mark.postgres
@pytest.mark.strace
@pytest.mark.parametrize("how", ["first", "before", "behind", "never"])
def test_a_mark_in_a_database_is_seen(
    system: DeclaredSystem, folder_of_all: Path, how: str
) -> None:
    """A cursor that passes the record before its acknowledgement loses it. One behind waits; its
    producer is killed, too, for nobody can tell of which record a mark is. Without one nobody is.
    """
    found = checked(system, folder_of_all, "marking/database.toml", how, MARK_OVERTAKES)
    overtakes, saves = how in {"first", "before"}, how != "never"
    assert found.verdict.kind is (Kind.BROKEN if overtakes else Kind.KEPT), found.verdict.reason
    assert found.judgement.account.lost == ({found.plan.target} if overtakes else set())
    assert (str(MARK_WAITED) in found.verdict.reason) is not saves
    last = WorkPhase.COVERED if saves else WorkPhase.RELEASED
    assert phases(found) == [WorkPhase.WATCHED, WorkPhase.HELD, last]
