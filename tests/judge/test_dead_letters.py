"""Records that a program has set aside in a topic: they rest there, or a reader has taken them, or
nobody will ever see them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from harness.judge.verdict import Kind
from harness.model.semantics import Semantic
from harness.model.states import LastHop
from tests.judge.runs import RECORDS, judged, look_again, lose, run

if TYPE_CHECKING:
    from tests.judge.histories import Row, Story

LAST = RECORDS[-1]
DEAD = "orders.dlq"
DECLARED: dict[str, Any] = {"dead_letters": True, "logs": {"topic": 2, "aside": 1}}


def aside(story: Story, record: str = LAST, **changes: object) -> Row:
    """Let a record have no result, and a copy in a topic of dead letters that was read whole."""
    lose(story, record, "recorded")
    story.log(0, 1, hop="aside", topic=DEAD)
    copy = story.stored(
        record, 0, 0, hop="aside", topic=DEAD, place="0:0:0", waiting="ready", **changes
    )
    look_again(story)
    return copy


@pytest.mark.parametrize("semantic", [Semantic.AT_LEAST_ONCE, Semantic.EXACTLY_ONCE])
def test_a_record_that_rests_among_the_declared_dead_letters_is_kept(semantic: Semantic) -> None:
    """It is told where it is. If nothing declares them it is lost, and told the same."""
    story = run()
    aside(story)
    kept, broken = judged(story, semantic=semantic, **DECLARED), judged(story, semantic=semantic)
    said = f"1 set aside in {DEAD} ({LAST}: only dead letters are left)"
    assert (kept.verdict.kind, broken.verdict.kind) == (Kind.KEPT, Kind.BROKEN)
    assert kept.verdict.reason.startswith(f"5 of 6 recorded; {said}")
    assert broken.verdict.reason.startswith(f"{semantic} forbids loss: {said}")
    assert kept.account.set_aside == broken.account.set_aside == {LAST}
    assert not broken.account.lost


def test_a_dead_letter_that_a_reader_has_taken_is_at_no_end() -> None:
    """Whoever has read it was to do something about it, and the record is in no output."""
    story = run()
    aside(story).update(waiting=None)
    found = judged(story, **DECLARED)
    assert found.verdict.kind is Kind.BROKEN
    assert found.account.lost == {LAST}
    assert f"1 lost ({LAST} {LastHop.DELIVERED})" in found.verdict.reason


def test_a_dead_letter_of_an_aborted_transaction_is_none() -> None:
    story = run()
    aside(story, visible=False).update(waiting=None)
    found = judged(story, **DECLARED)
    assert (found.verdict.kind, found.account.lost) == (Kind.BROKEN, frozenset({LAST}))


def test_what_is_recorded_and_set_aside_is_recorded() -> None:
    story = run()
    aside(story)
    story.recorded(LAST, 90, 0, 2)
    found = judged(story, **DECLARED).verdict
    assert found.kind is Kind.KEPT
    assert f"6 of 6 recorded; {LAST} recorded, and a copy of it set aside" in found.reason


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"waiting": "ready", "visible": False}, "waits for ready, but by its log it waits for"),
        ({"waiting": "open"}, "waits for open, but by its log it waits for ready"),
    ],
)
def test_dead_letters_that_contradict_their_log_are_void(change: dict[str, Any], said: str) -> None:
    """Whether a reader has taken one, the log does not know; everything else it does."""
    story = run()
    aside(story).update(change)
    look_again(story)
    found = judged(story, **DECLARED).verdict
    assert found.kind is Kind.VOID
    assert said in found.reason


def test_declared_dead_letters_that_nobody_looked_for_are_void() -> None:
    """A record that is there would be lost."""
    found = judged(run(), **DECLARED).verdict
    assert (found.kind, found.reason) == (Kind.VOID, "the aside was not read")
