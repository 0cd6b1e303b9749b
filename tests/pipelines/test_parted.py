"""Proves that the work of a member is held while its partition becomes another's: whoever books
what is another's by then books it twice; each with its right twin.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from harness.judge.verdict import Kind
from harness.model import events as kinds
from harness.model.events import RulePhase, WorkPhase
from harness.model.history import HISTORY, read_history
from harness.pipelines.rebalances import OUTLASTS, WORK_UNDERWAY
from harness.proofs.moved import MOVED_IN_HAND, PARTITION_WAITED, left_by_itself, seen_of
from harness.proofs.told import SAVED, SAVING, told_of
from harness.systems.declared.system import DeclaredSystem
from tests.pipelines.test_check import PROGRAMS, check, rehearse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from harness.model.history import History
    from harness.model.sign import Sign
    from harness.pipelines.traffic import StageTraffic
    from harness.saved import CellResult

ASKED = "member-joins-while-position-is-asked"
ANSWERED = "member-joins-while-position-is-answered"
STANDS = {ASKED: SAVING, ANSWERED: SAVED}
"""The rule that holds the position, or the answer to it."""
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


@pytest.fixture(scope="module")
def learnt() -> dict[str, Mapping[str, StageTraffic]]:
    """What the runs without a fault have shown, by declaration and assignor."""
    return {}


@pytest.fixture
def checked(
    system: DeclaredSystem, learnt: dict[str, Mapping[str, StageTraffic]], tmp_path: Path
) -> Callable[..., tuple[CellResult, History]]:
    """Check the members that work in this way."""

    def found(how: str, point: str, name: str = "pipeline") -> tuple[CellResult, History]:
        shutil.copytree(PROGRAMS / "parted", tmp_path / "parted")
        file = tmp_path / "parted" / f"{name}.toml"
        file.write_text(file.read_text(encoding="utf-8").replace("HOW", how), encoding="utf-8")
        key = f"{name} {point} {how.partition(' ')[2]}"
        if key not in learnt:
            learnt[key] = rehearse(system, tmp_path / "dry", file, point)
        result = check(system, tmp_path / "reports", file, point, seen=learnt[key])[point]
        return result, read_history(result.directory / HISTORY)

    return found


@pytest.mark.parametrize(
    ("what", "kind", "sign"),
    [("leaves", Kind.BROKEN, MOVED_IN_HAND), ("waits", Kind.KEPT, PARTITION_WAITED)],
)
@pytest.mark.parametrize(
    ("assignor", "by"),
    [
        ("range", "Heartbeat"),
        ("cooperative-sticky", "SyncGroup"),
        ("consumer", "ConsumerGroupHeartbeat"),
    ],
)
def test_a_member_is_told_while_its_work_is_held(
    checked: Callable[..., tuple[CellResult, History]],
    what: str,
    kind: Kind,
    sign: Sign,
    *,
    assignor: str,
    by: str,
) -> None:
    """By the answer that takes the partition away, in each kind of group."""
    found, history = checked(f"{what} {assignor}", WORK_UNDERWAY)
    assert (found.verdict.kind, found.verdict.by_fault) == (kind, True), found.verdict.reason
    target = found.plan.target
    assert (target in found.judgement.account.duplicated) is (kind is Kind.BROKEN)
    assert sign in found.judgement.signs.of(target)
    assert next(told_of(history, target)).api == by


@pytest.mark.parametrize(("what", "kind"), [("again", Kind.BROKEN), ("once", Kind.KEPT)])
@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("pipeline", "range"),
        ("java", "classic"),
        ("java", "consumer"),
        ("plain", ""),
        ("database", ""),
    ],
)
def test_a_member_leaves_while_its_work_is_held(
    checked: Callable[..., tuple[CellResult, History]], what: str, kind: Kind, name: str, group: str
) -> None:
    """By itself, for the program has not asked its client for more within max.poll.interval. Where
    both write into one database, the other can do so meanwhile.
    """
    found, history = checked(f"{what} {group}".strip(), OUTLASTS, name)
    assert (found.verdict.kind, found.verdict.by_fault) == (kind, True), found.verdict.reason
    target = found.plan.target
    assert (target in found.judgement.account.duplicated) is (kind is Kind.BROKEN)
    left, seen = left_by_itself(history), seen_of(history, target)
    released = next(e.t for e in history.of(kinds.Work) if e.phase is WorkPhase.RELEASED)
    assert left is not None
    assert seen.assigned is not None
    assert left.t < seen.assigned.t < released
    assert seen.elsewhere


@pytest.mark.parametrize("point", [ASKED, ANSWERED])
@pytest.mark.parametrize(
    ("group", "by"),
    [("cooperative-sticky", "SyncGroup"), ("consumer", "ConsumerGroupHeartbeat")],
)
def test_a_member_is_told_while_its_position_is_on_its_way(
    checked: Callable[..., tuple[CellResult, History]], group: str, by: str, point: str
) -> None:
    """In groups that share out incrementally. Who is right is kept; where nobody was told then, the
    case would be void.
    """
    found, history = checked(f"once {group}", point)
    assert (found.verdict.kind, found.verdict.by_fault) == (Kind.KEPT, True), found.verdict.reason
    target = found.plan.target
    told = next(told_of(history, target))
    assert told.api == by
    position = {e.phase: e for e in history.of(kinds.Rule) if e.rule == STANDS[point]}
    arrived = position[RulePhase.RELEASED]
    assert arrived.conn == told.conn
    assert told.t < arrived.t
    moved = seen_of(history, target)
    assert moved.assigned is not None
    assert moved.elsewhere
    assert arrived.t < moved.assigned.t
