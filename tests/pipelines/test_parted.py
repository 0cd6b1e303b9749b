"""Proves that the work of a member is held while its partition becomes another's: whoever books
what is another's by then books it twice; each with its right twin.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from harness.judge.verdict import Kind
from harness.model import events as kinds
from harness.model.events import WorkPhase
from harness.model.history import HISTORY, read_history
from harness.pipelines.rebalances import OUTLASTS, WORK_UNDERWAY
from harness.proofs.moved import MOVED_IN_HAND, PARTITION_WAITED, left_by_itself, seen_of
from harness.proofs.told import told_of
from harness.systems.declared.system import DeclaredSystem
from tests.pipelines.test_check import PROGRAMS, check

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.model.history import History
    from harness.saved import CellResult

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.strace,
    pytest.mark.rest(together=True),
    pytest.mark.timeout(300),
]


@pytest.fixture(scope="module")
def system() -> Iterator[DeclaredSystem]:
    """One broker for all of them."""
    found = DeclaredSystem(keep=True)
    yield found
    found.close()


def checked(
    system: DeclaredSystem, folder: Path, how: str, point: str
) -> tuple[CellResult, History]:
    """Check the members that work in this way."""
    shutil.copytree(PROGRAMS / "parted", folder / "parted")
    file = folder / "parted" / "pipeline.toml"
    file.write_text(file.read_text(encoding="utf-8").replace("HOW", how), encoding="utf-8")
    found = check(system, folder / "reports", file, point)[point]
    return found, read_history(found.directory / HISTORY)


@pytest.mark.parametrize(
    ("how", "kind", "sign"),
    [
        ("leaves range", Kind.BROKEN, MOVED_IN_HAND),
        ("waits range", Kind.KEPT, PARTITION_WAITED),
    ],
)
def test_a_member_is_told_while_its_work_is_held(
    system: DeclaredSystem, tmp_path: Path, how: str, kind: Kind, sign: object
) -> None:
    """By the answer to its heartbeat."""
    found, history = checked(system, tmp_path, how, WORK_UNDERWAY)
    assert (found.verdict.kind, found.verdict.by_fault) == (kind, True), found.verdict.reason
    target = found.plan.target
    assert (target in found.judgement.account.duplicated) is (kind is Kind.BROKEN)
    assert sign in found.judgement.signs.of(target)
    [told, *_] = told_of(history, target)
    assert told.api == "Heartbeat"
    assert not told.assigned or told.assigned


@pytest.mark.parametrize(("how", "kind"), [("again", Kind.BROKEN), ("once", Kind.KEPT)])
def test_a_member_leaves_while_its_work_is_held(
    system: DeclaredSystem, tmp_path: Path, how: str, kind: Kind
) -> None:
    """By itself, for the program has not asked its client for more within max.poll.interval."""
    found, history = checked(system, tmp_path, f"{how} range", OUTLASTS)
    assert (found.verdict.kind, found.verdict.by_fault) == (kind, True), found.verdict.reason
    target = found.plan.target
    assert (target in found.judgement.account.duplicated) is (kind is Kind.BROKEN)
    left, seen = left_by_itself(history), seen_of(history, target)
    released = next(e.t for e in history.of(kinds.Work) if e.phase is WorkPhase.RELEASED)
    assert left is not None
    assert seen.assigned is not None
    assert left.t < seen.assigned.t < released
    assert seen.elsewhere
