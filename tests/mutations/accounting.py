"""What counts, broken: :mod:`harness.judge.accounting`, and the rows that it counts."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

from harness.judge import accounting
from harness.judge.copies import Copies
from harness.judge.rows import Rows, counted
from harness.model import places
from harness.model.states import LastHop, State
from tests.mutations.registry import golden, mutation, story

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from harness.judge.record_row import RecordRow
    from harness.judge.row import Row
    from harness.model.history import Event

BROKEN: Any = accounting
"""The module whose functions are replaced: no type says that they may be."""


def records(change: Callable[[Any], Any]) -> None:
    """Let what is told of each record be changed."""
    right = accounting._records
    BROKEN._records = lambda rows: tuple(change(row) for row in right(rows))


def state(right: State, wrong: State) -> None:
    """Let a state of records be told as another."""
    records(lambda row: {**row, "state": wrong} if row["state"] == right else row)


def rows(change: Callable[[Rows], None]) -> None:
    """Change the rows of a cell, when they have been sorted by kind."""
    right = Rows.__init__

    def begin(self: Rows, events: Iterable[Event]) -> None:
        right(self, events)
        change(self)

    Rows.__init__ = begin  # type: ignore[method-assign]


@mutation({golden("broken-by-a-result-twice"): "Kind.KEPT"})
def duplicates_of_one_record_forgotten() -> None:
    """Of the first record that was recorded twice, one recording counts."""

    def once(cell: Rows) -> None:
        twice = {record for record, count in counted(cell.results).items() if count > 1}
        first = next((row for row in cell.results if row.record in twice), None)
        cell.results = [
            row
            for row in cell.results
            if first is None or row is first or row.record != first.record
        ]

    rows(once)


@mutation({golden("broken-ack"): "Kind.KEPT"})
def one_loss_forgotten() -> None:
    """The first record that is lost counts as recorded."""
    right = accounting._records

    def found(cell: Rows) -> tuple[RecordRow, ...]:
        told = right(cell)
        lost = next((row for row in told if row["state"] == State.LOST), None)
        return tuple({**row, "state": State.RECORDED} if row is lost else row for row in told)

    BROKEN._records = found


@mutation({golden("sealed-kept-though-one-is-refused"): r"'stored': 6"})
def refused_is_stored() -> None:
    """What was refused before the append counts as stored."""
    records(lambda row: {**row, "stored": row["stored"] or row["refused"]})


@mutation({golden("void-left-behind"): "1 records are left behind"})
def left_behind_is_recorded() -> None:
    """What waits in the topic counts as recorded."""
    state(State.LEFT_IN_TOPIC, State.RECORDED)


@mutation({golden("stuck-consumer"): r"'recorded': 5"})
def stalled_is_recorded() -> None:
    """What is behind an open transaction counts as recorded."""
    state(State.STALLED, State.RECORDED)


@mutation({golden("stuck-source"): r"'lost': 1"})
def left_in_source_is_lost() -> None:
    """What the source has not given yet counts as lost."""
    state(State.LEFT_IN_SOURCE, State.LOST)


@mutation({golden("void-left-behind"): r"'lost': 1"})
def positions_one_too_high() -> None:
    """A saved position is taken for one more than it is: a record that waits there was passed."""
    right = places.waits_in_log

    def waits(*, saved: int | None, **copy: Any) -> places.Waiting | None:
        return right(saved=None if saved is None else saved + 1, **copy)

    places.waits_in_log = waits


@mutation({golden("kept-by-aborting"): "no aborted for k1-3"})
def all_is_visible() -> None:
    """Copies of aborted transactions count as copies that a reader sees."""

    def shown(cell: Rows) -> None:
        for row in cell.stored:
            msgspec.structs.force_setattr(row, "visible", True)

    rows(shown)


@mutation({story("retried"): r"\{'stored_twice': 1\} != \{'stored_twice': 0\}"})
def moved_is_another_copy() -> None:
    """A copy that the broker has moved counts as a second one."""
    Copies._join = lambda *_: None  # type: ignore[method-assign]


@mutation({story("gone_from_aside"): "SKIPPED"})
def gone_is_there() -> None:
    """What was taken out of a queue counts as what is there."""
    Copies.gone = lambda *_: False  # type: ignore[method-assign]


@mutation({story("folded_twice"): r"\{'delivered_twice': 3\} != \{'delivered_twice': 1\}"})
def every_line_of_a_version_counts() -> None:
    """A version of a value that is told twice holds everything twice."""
    right = accounting._contributions
    BROKEN._contributions = lambda cell: Counter(
        {record: 2 * count for record, count in right(cell).items()}
    )


@mutation({golden("broken-by-phantoms"): "1 phantom, which"})
def damaged_is_intact() -> None:
    """A result that is damaged counts as one of its record."""

    def knows(self: Rows, row: Row) -> bool:
        result = row.hop is None
        return (row.intact or result) and row.record in self.offered

    Rows.knows = knows  # type: ignore[method-assign]


@mutation({golden("broken-by-phantoms"): "Kind.VOID"})
def nothing_is_a_phantom() -> None:
    """What nobody offered does not count."""
    BROKEN._phantoms = lambda _: 0


@mutation({golden("broken-by-resurrection"): "Kind.KEPT"})
def nothing_is_resurrected() -> None:
    """What was aborted, and is seen, does not count."""
    BROKEN.resurrected = lambda _: 0


@mutation({golden("sealed-broken-by-an-aborted-result"): "Kind.KEPT"})
def nothing_aborted_is_given_away() -> None:
    """What was aborted, and is recorded or was delivered, does not count."""

    def unread(cell: Rows) -> None:
        cell.read_aborted = 0

    rows(unread)


@mutation({golden("broken-by-tearing"): "Kind.KEPT"})
def nothing_is_torn() -> None:
    """Half a transaction does not count."""
    BROKEN.torn = lambda _: 0


@mutation({golden("kept-though-it-loses"): "acked, not stored"})
def every_loss_was_acknowledged() -> None:
    """Of each lost record it is said that it was acknowledged and not stored."""
    records(lambda row: {**row, "last_hop": row["last_hop"] and LastHop.ACKED})


@mutation({golden("kept-by-absorbing"): "forbids duplicates: 1 duplicated"})
def absorbed_is_duplicated() -> None:
    """A copy that the sink turned away counts as a second recording."""
    records(
        lambda row: (
            row | {name: row[name] + row["absorbed"] for name in ("recordings", "duplicated")}
        )
    )
