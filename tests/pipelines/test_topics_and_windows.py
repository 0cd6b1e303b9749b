"""Proves on a real broker that a reader of two topics is judged by records of each, and that what
sums of windows miss, or hold twice, is named.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.judge.verdict import Kind
from harness.model import events as kinds
from harness.model.history import HISTORY, read_history
from harness.model.states import Hop
from tests.pipelines.test_check import check

if TYPE_CHECKING:
    from harness.systems.declared.system import DeclaredSystem

PROGRAMS = Path(__file__).parent / "programs"
POINT = "commit-ack-lost"
TOPICS = ("orders", "payments")
pytestmark = [pytest.mark.kafka, pytest.mark.rest(together=True), pytest.mark.timeout(600)]


@pytest.mark.parametrize(
    ("of", "of_payments"), [("pipeline.toml", Kind.BROKEN), ("right.toml", Kind.KEPT)]
)
def test_a_reader_of_two_topics_is_tried_with_a_record_of_each(
    system: DeclaredSystem, tmp_path: Path, of: str, of_payments: Kind
) -> None:
    found = check(system, tmp_path, PROGRAMS / "two-topics" / of, POINT)
    verdicts = {name: one.verdict for name, one in found.items()}
    assert {name: each.kind for name, each in verdicts.items()} == {
        f"{POINT}-in-orders": Kind.KEPT,
        f"{POINT}-in-payments": of_payments,
    }, {name: each.reason for name, each in verdicts.items()}
    for topic in TOPICS:
        one = found[f"{POINT}-in-{topic}"]
        history = read_history(one.directory / HISTORY)
        copies = [e for e in history.of(kinds.Stored) if e.hop == Hop.TOPIC]
        assert {e.topic for e in copies} == {*TOPICS}
        assert {e.topic for e in copies if e.record == one.plan.target} == {topic}
        assert {e.topic for e in history.of(kinds.Position)} == {*TOPICS}
    if of_payments is Kind.BROKEN:
        one = found[f"{POINT}-in-payments"]
        assert one.judgement.account.lost == {one.plan.target}
        assert f"{one.plan.target} of payments delivered, not recorded" in one.verdict.reason


@pytest.mark.parametrize(
    ("of", "point", "kind"),
    [("pipeline.toml", POINT, Kind.BROKEN), ("right.toml", "commit-lost", Kind.KEPT)],
)
def test_sums_of_windows_name_what_they_miss_or_hold_twice(
    system: DeclaredSystem, tmp_path: Path, of: str, point: str, kind: Kind
) -> None:
    found = check(system, tmp_path, PROGRAMS / "windows" / of, point)[point]
    assert (found.verdict.kind, found.verdict.fired) == (kind, 1), found.verdict.reason
    account, target = found.judgement.account, found.plan.target
    lost, twice = ({target}, set()) if kind is Kind.BROKEN else (set(), {target})
    assert account.lost == lost
    assert account.duplicated == twice
