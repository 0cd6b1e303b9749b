"""What reads the results, broken: :class:`harness.stages.sinks.database.DatabaseSink`, and the
outputs of declared pipelines.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from harness.stages.sinks.database import DatabaseSink
from harness.systems.declared.outputs import Sqlite
from tests.mutations.registry import cell, mutation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


DB = "tests/contract/test_sinks.py::test_what_was_recorded_is_read_row_by_row[sqlite]"


def reads(change: Callable[[list[Any]], list[Any]]) -> None:
    """Let the rows of every database be others when they are read."""
    of_ours, of_theirs = DatabaseSink.results, Sqlite.rows

    def results(self: DatabaseSink) -> Iterator[Any]:
        yield from change(list(of_ours(self)))

    DatabaseSink.results = results  # type: ignore[method-assign]
    Sqlite.rows = lambda self: change(list(of_theirs(self)))  # type: ignore[method-assign]


@mutation(
    {
        DB: r"At index 2 diff: \(2, b'b'",
        cell("none/at-least-once"): "void: unclean, .* saw 1",
        cell("commit-lost/exactly-once"): "exactly-once forbids duplicates: 1 duplicated",
    }
)
def a_row_twice() -> None:
    """One row of the sink is read twice."""
    reads(lambda rows: rows[:2] + rows[1:])


@mutation(
    {
        DB: r"At index 1 diff: \(3, b'a'",
        cell("none/at-least-once"): "at-least-once forbids loss: 1 lost",
    }
)
def a_row_not_at_all() -> None:
    """One row of the sink is not read."""
    reads(lambda rows: rows[:1] + rows[2:])


@mutation(
    {
        DB: r"assert \[\(4, b'a'",
        cell("ack-lost/at-least-once"): "without effect: duplicated predicted",
    }
)
def each_row_once() -> None:
    """Of rows that are the same, one is read: no record was ever recorded twice."""
    reads(
        lambda rows: list(
            {(row[1] if isinstance(row, tuple) else row): row for row in rows}.values()
        )
    )


@mutation({DB: r"assert \[\] == \[\('b'", cell("commit-lost/exactly-once"): "no absorbed for"})
def nothing_absorbed() -> None:
    """What the sink turned away is not read."""
    DatabaseSink.absorbed = lambda self: iter(())  # type: ignore[method-assign]  # noqa: ARG005


@mutation({DB: r"offset=6, [^)]*\)\), \(2, b'b'", cell("none/at-least-once"): "where the log has"})
def of_another_place() -> None:
    """Each row is said to be of the log copy behind its own."""

    def moved(row: Any) -> Any:
        return (
            (*row[:3], replace(row[3], offset=row[3].offset + 1)) if isinstance(row, tuple) else row
        )

    reads(lambda rows: [moved(row) for row in rows])
