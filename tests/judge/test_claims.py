"""What a pipeline may claim beside its semantic: each claim is broken by what is planted, and by
nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness.judge.verdict import Kind
from harness.model.plan import Plan
from harness.model.prediction import Permitted
from harness.model.semantics import Semantic
from tests.judge.runs import RECORDS, TARGET, first, judged, place, plan, run, without

if TYPE_CHECKING:
    from tests.judge.histories import Row, Story

ALO, EOS = Semantic.AT_LEAST_ONCE, Semantic.EXACTLY_ONCE


def reorder(story: Story) -> None:
    """Let the target, the second of its key, be recorded behind the third."""
    rows = {row["record"]: row for row in story.events if row["event"] == "recorded"}
    rows[TARGET]["order"], rows["k1-5"]["order"] = rows["k1-5"]["order"], rows[TARGET]["order"]


def test_an_order_is_broken_where_it_is_claimed_and_counted_anyhow() -> None:
    """A record behind a later one of its key breaks the claim; of records of other keys nothing is
    claimed.
    """
    story = run()
    assert judged(story, ordered=True).verdict.kind is Kind.KEPT
    reorder(story)
    claimed, told = judged(story, ordered=True), judged(story)
    assert (claimed.verdict.kind, told.verdict.kind) == (Kind.BROKEN, Kind.KEPT)
    assert f"an order per key is claimed: 1 reordered ({TARGET}" in claimed.verdict.reason
    assert claimed.account.reordered == told.account.reordered == (TARGET,)
    assert claimed.account.counts["reordered"] == 1


def test_records_of_other_keys_may_overtake() -> None:
    story = run()
    rows = {row["record"]: row for row in story.events if row["event"] == "recorded"}
    rows[TARGET]["order"], rows["k0-4"]["order"] = rows["k0-4"]["order"], rows[TARGET]["order"]
    assert judged(story, ordered=True).verdict.kind is Kind.KEPT


def test_a_plan_says_what_is_claimed_and_one_of_before_claims_nothing() -> None:
    """It is saved, and sealed; a plan that says nothing of it is one without the claim."""
    claimed = plan(ordered=True)
    assert Plan.from_json(claimed.to_json()).ordered
    assert claimed.seal != plan().seal


@pytest.mark.parametrize("semantic", list(Semantic))
@pytest.mark.parametrize("holds", [True, False])
def test_an_invariant_breaks_every_semantic(semantic: Semantic, holds: bool) -> None:
    """What must hold holds whatever may be lost or doubled."""
    story = run()
    at = next(row["t"] for row in story.events if row["event"] == "recorded")
    story.tell(
        "invariant", asked="SELECT sum(x)", equals="0", found="0" if holds else "7", holds=holds
    )["t"] = at + 1
    found = judged(story, semantic=semantic).verdict
    assert (found.kind is Kind.BROKEN) is not holds, found.reason
    assert (
        holds
        or "an invariant does not hold: SELECT sum(x) gives 7, and must give 0" in found.reason
    )


def totals(story: Story, **wrong: int | str | None) -> None:
    """Let the output hold totals in the place of records; ``wrong``: what the one of k1 says."""
    at = next(row["t"] for row in story.events if row["event"] == "recorded")
    without(story, lambda row: row["event"] == "recorded")
    for record in RECORDS:
        story.tell("folded", key=record.split("-")[0], version=0, record=record, times=1)["t"] = (
            at + 1
        )
    if wrong:
        said: Row = {
            "key": "k1",
            "expected": 9,
            "found": 9,
            "missing": 0,
            "extra": 0,
            "alone": None,
        }
        story.tell("total", **said | wrong)["t"] = at + 1


def test_totals_that_are_right_are_kept() -> None:
    story = run()
    totals(story)
    found = judged(story)
    assert (found.verdict.kind, found.account.counts["recorded"]) == (Kind.KEPT, len(RECORDS)), (
        found.verdict.reason
    )


def test_a_total_that_is_too_low_is_a_loss_that_cannot_be_named() -> None:
    """It breaks what forbids loss; how many at least is in the counts, and no record is said to be
    the one.
    """
    story = run()
    totals(story, found=4, missing=1, alone="k1-5")
    found = judged(story)
    assert found.verdict.kind is Kind.BROKEN
    assert (
        "the total of k1 is 4, and should be 9: at least 1 not counted; k1-5 alone would explain it"
        in found.verdict.reason
    )
    assert (found.account.counts["lost"], found.account.counts["recorded"]) == (1, len(RECORDS) - 1)
    assert found.account.lost == frozenset()
    allowed = judged(story, semantic=Semantic.AT_MOST_ONCE, lost=Permitted(), sign=None)
    assert allowed.verdict.kind is Kind.KEPT, allowed.verdict.reason
    assert "the total of k1 is 4" in allowed.verdict.reason
    assert judged(story, semantic=Semantic.AT_MOST_ONCE).verdict.kind is Kind.VOID, (
        "none was predicted"
    )


def test_a_total_that_is_too_high_is_a_duplicate_that_cannot_be_named() -> None:
    story = run()
    totals(story, found=18, extra=2)
    found = judged(story, semantic=EOS)
    assert found.verdict.kind is Kind.BROKEN
    assert (
        "forbids duplicates: the total of k1 is 18, and should be 9: at least 2 counted again"
        in found.verdict.reason
    )
    assert found.account.counts["duplicated"] == 2
    assert judged(story).verdict.kind is Kind.VOID, (
        "at-least-once permits it, and none was predicted"
    )
    assert judged(story, duplicated=Permitted()).verdict.kind is Kind.KEPT


def test_what_is_on_its_way_is_not_lost() -> None:
    """A total may miss what waits in the topic: it is left there."""
    story = run()
    totals(story, found=4, missing=2)
    partition, offset = place("k1-5")
    first(story, "position", partition=partition)["offset"] = offset
    counts = judged(story).account.counts
    assert (counts["lost"], counts["left_in_topic"], counts["left"], counts["recorded"]) == (
        1,
        1,
        1,
        len(RECORDS) - 2,
    )
