"""Proves on three real brokers that a pipeline keeps its promise when leaders die, hand over,
or have too few followers; and that wrong programs, each beside its right twin, are convicted.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from harness.judge.verdict import Kind
from harness.model import events as kinds
from harness.model.history import HISTORY, read_history
from harness.systems.declared.system import DeclaredSystem
from tests.pipelines.test_check import PROGRAMS, check
from tests.pipelines.traffic import traffic

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.saved import CellResult

pytestmark = [pytest.mark.kafka, pytest.mark.rest(together=True), pytest.mark.timeout(300)]
AHEAD, MOVED = "leader-crash-before-replication", "leader-moved-while-reading"
SHORT = "insync-not-met"
TRANSACTIONS_MOVED = "transaction-coordinator-moved"
ENDED = "transaction-coordinator-crash-before-commit-answer"

SEEN = traffic(producer=("Produce", "EndTxn"), consumer=("Fetch", "OffsetCommit"))
"""What a dry run would show, which all of these programs pass."""


@pytest.fixture(scope="module")
def system() -> Iterator[DeclaredSystem]:
    """One cluster for all of them."""
    found = DeclaredSystem(keep=True)
    yield found
    found.close()


def checked(
    system: DeclaredSystem,
    folder: Path,
    sends: str,
    books: str,
    *points: str,
    claims: str = "at-least-once",
) -> dict[str, CellResult]:
    """Check programs that send and book in these ways. What does not apply would be no cell."""
    shutil.copytree(PROGRAMS / "replicated", folder / "replicated")
    file = folder / "replicated" / "pipeline.toml"
    text = file.read_text(encoding="utf-8").replace("SENDS", sends).replace("BOOKS", books)
    file.write_text(text.replace("at-least-once", claims), encoding="utf-8")
    return check(system, folder / "reports", file, *points, seen=SEEN)


def test_a_right_pipeline_is_kept_whoever_leads(system: DeclaredSystem, tmp_path: Path) -> None:
    found = checked(system, tmp_path, "send.py all", "waits", AHEAD, MOVED, SHORT)
    for point in (AHEAD, MOVED, SHORT):
        assert found[point].verdict.kind is Kind.KEPT, found[point].verdict.reason
    history = read_history(found[AHEAD].directory / HISTORY)
    led = {e.leader for e in history.of(kinds.Leadership) if e.topic == "orders"}
    assert led >= {"broker-2", "broker-3"}
    [made] = {e.replicas for e in history.of(kinds.Leadership) if e.partition == 1}
    assert len(made) == 3


def test_a_record_that_the_leader_alone_had_dies_with_it(
    system: DeclaredSystem, tmp_path: Path
) -> None:
    """``acks=1``, sold as at-least-once: nobody else had the record, and nobody sends it again. So
    it is with all that the leader has acknowledged and no follower had.
    """
    broken = checked(system, tmp_path, "send.py one", "waits", AHEAD)[AHEAD]
    assert broken.verdict.kind is Kind.BROKEN, broken.verdict.reason
    assert broken.verdict.by_fault
    history = read_history(broken.directory / HISTORY)
    conn_of = {
        e.record: e.request.partition(":")[0]
        for e in history.of(kinds.ProduceAnswer)
        if e.reached and not e.error
    }
    target = broken.plan.target
    of_leader = {record for record, conn in conn_of.items() if conn == conn_of[target]}
    copied = {e.record for e in history.of(kinds.Replicated) if e.reached}
    assert target in broken.judgement.account.lost
    assert broken.judgement.account.lost == of_leader - copied


def test_a_consumer_may_not_skip_when_leaders_change(
    system: DeclaredSystem, tmp_path: Path
) -> None:
    """It goes on with what comes from now on, so the new leader's records are never booked."""
    broken = checked(system, tmp_path, "send.py all", "anew", MOVED)[MOVED]
    assert broken.verdict.kind is Kind.BROKEN, broken.verdict.reason
    assert broken.verdict.by_fault


def test_what_the_leader_refuses_is_not_sent(system: DeclaredSystem, tmp_path: Path) -> None:
    """The program takes NOT_ENOUGH_REPLICAS for sent."""
    broken = checked(system, tmp_path, "send.py once", "waits", SHORT)[SHORT]
    assert broken.verdict.kind is Kind.BROKEN, broken.verdict.reason
    assert broken.plan.target in broken.judgement.account.lost


@pytest.mark.parametrize(
    ("how", "points", "kind"),
    [
        ("asks", (TRANSACTIONS_MOVED, ENDED), Kind.KEPT),
        ("anew", (ENDED,), Kind.BROKEN),
    ],
)
def test_a_commit_without_an_answer_is_not_aborted(
    system: DeclaredSystem, tmp_path: Path, how: str, points: tuple[str, ...], kind: Kind
) -> None:
    """It is over when its coordinator dies: who sends the record again has it twice."""
    found = checked(system, tmp_path, f"transact.py {how}", "waits", *points, claims="exactly-once")
    for point in points:
        result = found[point]
        assert result.verdict.kind is kind, result.verdict.reason
        duplicated = result.judgement.account.duplicated
        assert (result.plan.target in duplicated) is (kind is Kind.BROKEN)


@pytest.mark.parametrize(
    ("client", "books", "kind"),
    [
        ("confluent-kafka==2.1.0", "slow.py", Kind.BROKEN),
        ("confluent-kafka==2.1.1", "slow.py", Kind.KEPT),
        ("kafka-python==3.0.5", "book.py waits", Kind.STUCK),
        ("kafka-python==3.0.6", "book.py waits", Kind.KEPT),
        ("confluent-kafka==2.2.0", "ends.py", Kind.STUCK),
        ("confluent-kafka==2.3.0", "ends.py", Kind.KEPT),
    ],
)
def test_a_client_must_go_on_where_it_was_when_a_leader_changes(
    system: DeclaredSystem, tmp_path: Path, client: str, books: str, kind: Kind
) -> None:
    """Bugs #4261 and #4225 of librdkafka, #3106 of kafka-python: records come twice, or nothing
    comes any more.
    """
    shutil.copytree(PROGRAMS / "replicated", tmp_path / "replicated")
    file = tmp_path / "replicated" / "client.toml"
    text = file.read_text(encoding="utf-8").replace("CLIENT", client).replace("BOOKS", books)
    file.write_text(text, encoding="utf-8")
    found = check(system, tmp_path / "reports", file, MOVED, seen=SEEN)[MOVED]
    assert (found.verdict.kind, found.verdict.by_fault) == (kind, True), found.verdict.reason
    assert bool(found.judgement.account.duplicated) is (kind is Kind.BROKEN)
