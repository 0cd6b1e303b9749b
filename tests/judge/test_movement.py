"""Beside the counts: one offset with two values, readers that go back or skip, and the time until
something moved again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.judge.movement import Movement, movement_of
from harness.model import events as kinds
from tests.events import a_history

if TYPE_CHECKING:
    from tests.judge.histories import Row


def stored(offset: int, record: str, *, visible: bool = True) -> Row:
    """A copy in the log at the end."""
    return {
        "t": 10**12,
        "event": "stored",
        "hop": "topic",
        "topic": "in",
        "partition": 0,
        "offset": offset,
        "record": record,
        "visible": visible,
    }


def delivered(t: int, offset: int, record: str, by: str = "consumer-1") -> Row:
    """A reader was given a record, ``t`` seconds after the beginning."""
    return {
        "t": t * 10**9,
        "event": kinds.DELIVERED,
        "by": by,
        "partition": 0,
        "offset": offset,
        "record": record,
    }


def other(t: int, event: str, **fields: Any) -> Row:
    """Another event."""
    return {"t": t * 10**9, "event": event, **fields}


LOG = (stored(0, "a"), stored(1, "b"), stored(2, "x", visible=False), stored(3, "c"))


def test_a_reader_that_goes_on_shows_nothing() -> None:
    assert (
        movement_of(
            a_history((delivered(1, 0, "a"), delivered(2, 1, "b"), delivered(3, 3, "c"), *LOG))
        )
        == Movement()
    )


def test_one_offset_with_two_records_is_inconsistent() -> None:
    """A reader saw one that the log does not have any more; or the files of two replicas differ."""
    seen = movement_of(a_history((delivered(1, 0, "a"), delivered(2, 1, "gone"), *LOG)))
    assert seen.inconsistent_offsets == 1
    copies = [
        other(9, "replica", node=f"broker-{n}", topic="in", partition=0, offset=1, record=record)
        for n, record in ((1, "b"), (2, "z"))
    ]
    assert movement_of(a_history((*copies, *LOG))).inconsistent_offsets == 1
    elsewhere = other(
        9, "replica", node="broker-1", topic="other", partition=0, offset=1, record="z"
    )
    assert movement_of(a_history((elsewhere, *LOG))).inconsistent_offsets == 0, (
        "another topic has its own offsets"
    )


def test_going_back_and_skipping_count_within_one_assignment() -> None:
    """A reader that is assigned anew goes on from the saved position: that is no step back of its
    own.
    """
    back = a_history((delivered(1, 0, "a"), delivered(2, 1, "b"), delivered(3, 0, "a"), *LOG))
    assert movement_of(back).backward_polls == 1
    anew = (
        delivered(1, 1, "b"),
        other(2, kinds.READY, by="consumer-1"),
        delivered(3, 0, "a"),
        *LOG,
    )
    assert movement_of(a_history(anew)).backward_polls == 0
    assert movement_of(a_history((delivered(1, 0, "a"), delivered(2, 3, "c"), *LOG))).skipped == 1
    two = (delivered(1, 0, "a"), delivered(2, 1, "b", by="consumer-2"), *LOG)
    assert movement_of(a_history(two)).skipped == 0


def test_moved_again_is_the_first_delivery_of_what_was_sent_after_the_fault() -> None:
    """What was on its way when the fault struck, or is delivered again, moves nothing."""
    fired = other(2, kinds.FAULT, phase="fired")
    sent = [
        other(t, "sent", record=record) for t, record in ((0, "a"), (1, "b"), (5, "b"), (5, "c"))
    ]
    history = a_history(
        (
            *sent,
            delivered(1, 0, "a"),
            fired,
            delivered(3, 0, "a"),
            delivered(4, 1, "b"),
            delivered(6, 3, "c"),
            *LOG,
        )
    )
    assert movement_of(history).moved_again_s == 4
    assert movement_of(a_history((delivered(1, 0, "a"), fired, *LOG))).moved_again_s is None


def test_what_is_held_until_the_death_moves_from_the_death_on() -> None:
    """How long the harness let a frame wait before it killed is no recovery; nor is what it kills
    when all is over.
    """
    fired, healed = other(2, kinds.FAULT, phase="fired"), other(5, kinds.FAULT, phase="healed")
    death, end = (other(t, kinds.NODE, phase="exited", signal=9) for t in (4, 9))
    moves = (other(6, "sent", record="b"), delivered(8, 1, "b"), *LOG)
    assert movement_of(a_history((fired, death, healed, *moves, end))).moved_again_s == 4
    assert movement_of(a_history((fired, healed, *moves, end))).moved_again_s == 6


def test_how_long_readers_were_held_back_is_the_longest_that_was_seen() -> None:
    """Of all logs; where no transaction was left open for long, nobody was."""
    held = [other(t, "held_back", log="in/0", seconds=t) for t in (4, 61, 8)]
    assert movement_of(a_history((*held, *LOG))).held_back_s == 61.0
    assert movement_of(a_history(LOG)).held_back_s is None


def test_what_is_stored_again_is_counted_whether_or_not_it_is_recorded() -> None:
    """Two visible copies of an offered record; one that is recorded once was absorbed behind them.
    Copies of aborted transactions, and records that nobody offered, are none.
    """
    copies = [
        copy(offset, record) for offset, record in enumerate(("a", "a", "b", "b", "c", "x", "x"))
    ]
    seen = movement_of(a_history(tuple(copies)), {"a": 1, "b": 2, "c": 1})
    assert (seen.stored_again, seen.stored_again_recorded_once) == (2, 1)
    hidden = [each | {"visible": False} for each in copies]
    assert movement_of(a_history(tuple(hidden)), {"a": 1, "b": 2}).stored_again == 0


def copy(offset: int, record: str) -> Row:
    """Return the line of a copy in the topic."""
    return {
        "event": "stored",
        "t": 0,
        "hop": "topic",
        "topic": "t",
        "partition": 0,
        "offset": offset,
        "place": f"0:0:{offset}",
        "record": record,
        "visible": True,
    }
