"""Places: histories of before, which name none, are given those of their logs; those of today are
left as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from harness.model import events as kinds
from harness.model.places import Removal
from tests.events import placed, typed
from tests.judge.runs import TARGET, history_of, run

if TYPE_CHECKING:
    from tests.judge.histories import Row


def of_before() -> list[Row]:
    """Return a history by hand, which names no places."""
    story = run()
    story.tell("deleted", record="k1-1", topic="t", partition=1, epoch=0, offset=0, visible=True)
    return story.events


def test_a_history_of_before_is_given_places() -> None:
    """Every copy has one, what was deleted was removed, and nothing else is changed."""
    before = of_before()
    after = placed(before)
    assert len(after) == len(before)
    names = {"stored", "removed", "recorded", "absorbed"}
    assert all(getattr(row, "place", None) is not None for row in after if row.event in names)
    assert [row.why for row in after if isinstance(row, kinds.Removed)] == [Removal.RETENTION]
    assert [row for row in after if row.event not in names] == [
        typed(row) for row in before if row["event"] not in names | {"deleted"}
    ]


def test_a_history_of_today_is_left_as_it_is() -> None:
    once = placed(of_before())
    assert placed(once) == once


@pytest.mark.parametrize(
    ("change", "waiting"),
    [
        ({}, None),
        ({"event": "position", "offset": 0}, "ready"),
        ({"event": "log", "stable": 0}, None),
    ],
)
def test_what_a_copy_of_before_waits_for_follows_from_its_log(
    change: dict[str, Any], waiting: str | None
) -> None:
    """A visible copy at or above the saved position is ready; the last stable offset says nothing
    of what is visible.
    """
    story = run()
    for row in story.events:
        if row["event"] == change.get("event"):
            row.update(change)
    copy = next(row for row in history_of(story).of(kinds.Stored) if row.record == TARGET)
    assert copy.waiting == waiting
