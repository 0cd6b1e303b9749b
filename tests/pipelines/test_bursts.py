"""Proves on real brokers that faults meet two requests under way, and a batch from a backlog: wrong
programs lose, double or reorder records there, each with its right twin.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from harness.judge.verdict import Kind
from tests.pipelines.test_check import PROGRAMS, check
from tests.pipelines.traffic import traffic

if TYPE_CHECKING:
    from pathlib import Path

    from harness.saved import CellResult
    from harness.systems.declared.system import DeclaredSystem

pytestmark = [pytest.mark.kafka, pytest.mark.rest(together=True), pytest.mark.timeout(300)]
SEEN = traffic(producer=("Produce",), consumer=("Fetch", "OffsetCommit", "JoinGroup", "Heartbeat"))
"""What a dry run would show, which all of these programs pass."""


def checked(
    system: DeclaredSystem, folder: Path, *points: str, **changes: str
) -> dict[str, CellResult]:
    """Check the programs at these points. ``changes``: what each word in the declaration is."""
    shutil.copytree(PROGRAMS / "bursts", folder / "bursts")
    file = folder / "bursts" / "pipeline.toml"
    text = file.read_text(encoding="utf-8")
    for word, change in {"SENDS": "idempotent", "BOOKS": "each", **changes}.items():
        text = text.replace(word, change)
    file.write_text(text, encoding="utf-8")
    return check(system, folder / "reports", file, *points, seen=SEEN)


BACKLOG = "commit-ack-lost-in-a-backlog"
LOST = "ack-lost-in-a-burst"
REFUSED = "request-refused-in-a-burst"
AGAIN = "requests-lost-then-refused-in-a-burst"
IN_ORDER = {"topics =": 'order = "per key"\ntopics ='}


@pytest.mark.parametrize(("how", "kind"), [("whole", Kind.BROKEN), ("each", Kind.KEPT)])
def test_a_position_saved_for_a_batch_that_is_half_done_loses_the_rest(
    system: DeclaredSystem, tmp_path: Path, how: str, kind: Kind
) -> None:
    found = checked(system, tmp_path, BACKLOG, BOOKS=how)[BACKLOG]
    assert found.verdict.kind is kind, found.verdict.reason
    assert bool(found.judgement.account.lost) is (kind is Kind.BROKEN)


@pytest.mark.parametrize(("how", "kind"), [("plain", Kind.BROKEN), ("idempotent", Kind.KEPT)])
def test_several_requests_in_flight_need_idempotence(
    system: DeclaredSystem, tmp_path: Path, how: str, kind: Kind
) -> None:
    """Else what is sent again comes behind the next, or comes twice."""
    changes = {"SENDS": how, "at-least-once": "exactly-once", **IN_ORDER}
    found = checked(system, tmp_path, REFUSED, LOST, **changes)
    for result in found.values():
        assert result.verdict.kind is kind, result.verdict.reason
        assert result.verdict.by_fault
    assert bool(found[LOST].judgement.account.duplicated) is (kind is Kind.BROKEN)
    assert bool(found[REFUSED].judgement.account.reordered) is (kind is Kind.BROKEN)


@pytest.mark.parametrize(("how", "kind"), [("last", Kind.BROKEN), ("each", Kind.KEPT)])
def test_the_last_delivery_report_does_not_tell_of_the_first(
    system: DeclaredSystem, tmp_path: Path, how: str, kind: Kind
) -> None:
    found = checked(system, tmp_path, REFUSED, SENDS=how)[REFUSED]
    assert found.verdict.kind is kind, found.verdict.reason
    assert (found.plan.target in found.judgement.account.lost) is (kind is Kind.BROKEN)


@pytest.mark.parametrize(("version", "dies"), [("2.2.0", True), ("2.3.0", False)])
def test_a_client_that_takes_its_lost_requests_for_stored_gives_up(
    system: DeclaredSystem, tmp_path: Path, version: str, *, dies: bool
) -> None:
    """Bug #4438 of librdkafka: the verdict tells the fatal error, and that the program has ended.
    Its lines are given to it again, so nothing is lost.
    """
    client = {"{python} sends.py": f"{{python:confluent-kafka=={version}}} sends.py"}
    kept = checked(system, tmp_path, AGAIN, **client)[AGAIN]
    assert kept.verdict.kind is Kind.KEPT, kept.verdict.reason
    for words in ("the producer ended by itself", "its client's fatal error", "_FATAL"):
        assert (words in kept.verdict.reason) is dies
