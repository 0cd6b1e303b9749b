"""Real members of a group that share out their partitions anew while all live: wrong programs lose
or double records then, each with its right twin.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from harness.judge.verdict import Kind
from harness.model import events as kinds
from harness.model.history import HISTORY, read_history
from harness.proofs.moved import CAME_BACK, MOVED_IN_HAND, seen_of
from harness.systems.declared.system import DeclaredSystem
from tests.pipelines.test_check import PROGRAMS, check
from tests.pipelines.traffic import traffic

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.saved import CellResult

pytestmark = [pytest.mark.kafka, pytest.mark.rest(together=True), pytest.mark.timeout(300)]
JOINS = "member-joins-with-record-in-hand"
LEAVES = "member-leaves-with-record-in-hand"
WHILE = "member-put-out-while-it-joins"
BEFORE, AFTER = "member-put-out-before-position", "member-put-out-after-position"
ASKED = "member-joins-while-position-is-asked"
ANSWERED = "member-joins-while-position-is-answered"
SAVED = "commit-ack-lost"

SEEN = traffic(consumer=("Fetch", "OffsetCommit", "JoinGroup", "Heartbeat"))
"""What a dry run would show, which all of these programs pass."""


@pytest.fixture(scope="module")
def system() -> Iterator[DeclaredSystem]:
    """One broker for all of them."""
    found = DeclaredSystem(keep=True)
    yield found
    found.close()


def checked(
    system: DeclaredSystem,
    folder: Path,
    how: str,
    *points: str,
    claims: str = "at-least-once",
    name: str = "pipeline",
) -> dict[str, CellResult]:
    """Check the members that work in this way, or on this version of their client."""
    shutil.copytree(PROGRAMS / "rebalanced", folder / "rebalanced")
    file = folder / "rebalanced" / f"{name}.toml"
    text = file.read_text(encoding="utf-8").replace("HOW", how).replace("VERSION", how)
    file.write_text(text.replace("at-least-once", claims), encoding="utf-8")
    return check(system, folder / "reports", file, *points, seen=SEEN)


def test_a_position_saved_for_work_that_is_thrown_away_loses_it(
    system: DeclaredSystem, tmp_path: Path
) -> None:
    """With the batch in memory when another member joins: what it had read is nobody's."""
    broken = checked(system, tmp_path, "saves range", JOINS)[JOINS]
    assert broken.verdict.kind is Kind.BROKEN, broken.verdict.reason
    assert broken.verdict.by_fault
    assert broken.plan.target in broken.judgement.account.lost


@pytest.mark.parametrize("how", ["books", "forgets"])
def test_a_batch_that_is_booked_first_or_read_again_is_kept(
    system: DeclaredSystem, tmp_path: Path, how: str
) -> None:
    kept = checked(system, tmp_path, f"{how} range", JOINS)[JOINS]
    assert kept.verdict.kind is Kind.KEPT, kept.verdict.reason
    assert not kept.judgement.account.lost
    if how == "forgets":
        assert MOVED_IN_HAND in kept.judgement.signs.of(kept.plan.target)


@pytest.mark.parametrize(("how", "kind"), [("keeps", Kind.BROKEN), ("books", Kind.KEPT)])
def test_a_batch_that_is_kept_is_booked_twice(
    system: DeclaredSystem, tmp_path: Path, how: str, kind: Kind
) -> None:
    """Which a program that promises exactly once must not do."""
    found = checked(system, tmp_path, f"{how} range", JOINS, claims="exactly-once")[JOINS]
    assert found.verdict.kind is kind, found.verdict.reason
    assert (found.plan.target in found.judgement.account.duplicated) is (kind is Kind.BROKEN)


def test_a_member_that_is_put_out_is_not_told(system: DeclaredSystem, tmp_path: Path) -> None:
    """Another has its partition before its request arrives, or its answer."""
    found = checked(system, tmp_path, "books range", BEFORE, AFTER)
    for point, saved in ((BEFORE, False), (AFTER, True)):
        kept = found[point]
        assert kept.verdict.kind is Kind.KEPT, kept.verdict.reason
        history = read_history(kept.directory / HISTORY)
        seen = seen_of(history, kept.plan.target)
        assert seen.assigned is not None
        assert seen.saved is saved
        [out] = [e for e in history.of(kinds.Expelled) if e.member is not None]
        assert seen.assigned.member != out.member


@pytest.mark.parametrize(("how", "kind"), [("saves", Kind.BROKEN), ("forgets", Kind.KEPT)])
def test_cooperative_members_are_tried_as_eager_ones_are(
    system: DeclaredSystem, tmp_path: Path, how: str, kind: Kind
) -> None:
    found = checked(system, tmp_path, f"{how} cooperative-sticky", LEAVES)[LEAVES]
    assert found.verdict.kind is kind, found.verdict.reason
    assert bool(found.judgement.account.lost) is (kind is Kind.BROKEN)


@pytest.mark.parametrize(("version", "kind"), [("3.0.12", Kind.BROKEN), ("2.3.3", Kind.KEPT)])
def test_a_client_that_goes_on_from_its_old_positions_is_convicted(
    system: DeclaredSystem, tmp_path: Path, version: str, kind: Kind
) -> None:
    """Put out while it joins, it does the work of the others again (kafka-python)."""
    found = checked(system, tmp_path, version, WHILE, claims="at-most-once", name="plain")[WHILE]
    assert found.verdict.kind is kind, found.verdict.reason
    assert bool(found.judgement.account.duplicated) is (kind is Kind.BROKEN)


@pytest.mark.parametrize(("version", "kind"), [("3.2.1", Kind.BROKEN), ("3.3.1", Kind.KEPT)])
def test_what_a_client_gives_out_while_it_saves_its_last_position_is_done_twice(
    system: DeclaredSystem, tmp_path: Path, version: str, kind: Kind
) -> None:
    """KAFKA-14196: the program books it, and nobody saves that before the partition has gone;
    whether the position is saved meanwhile or not.
    """
    points = (ASKED, ANSWERED)
    found = checked(system, tmp_path, version, *points, claims="exactly-once", name="classic")
    for point in points:
        result = found[point]
        assert result.verdict.kind is kind, result.verdict.reason
        assert result.verdict.by_fault
        assert bool(result.judgement.account.duplicated) is (kind is Kind.BROKEN)


@pytest.mark.parametrize(("how", "kind"), [("saves", Kind.BROKEN), ("books", Kind.KEPT)])
def test_a_static_member_comes_back_in_its_own_place(
    system: DeclaredSystem, tmp_path: Path, how: str, kind: Kind
) -> None:
    """Killed with the position saved: whoever has not booked by then has lost the record."""
    found = checked(system, tmp_path, how, SAVED, name="static")[SAVED]
    assert found.verdict.kind is kind, found.verdict.reason
    target = found.plan.target
    assert (target in found.judgement.account.lost) is (kind is Kind.BROKEN)
    assert CAME_BACK in found.judgement.signs.of(target)
    history = read_history(found.directory / HISTORY)
    assert not [e for e in history.of(kinds.Expelled) if e.member is not None]
