"""The path of one record for a terminal, and how to fix a broken promise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.judge.verdict import Kind
from harness.model import events as kinds
from harness.model.history import HISTORY, read_history
from harness.report.advising import mending
from harness.report.escaping import visible
from harness.report.page.detail import broken_rows, history_of, rows_of
from harness.report.page.evidence import told_work, told_write
from harness.report.page.paths import Paths
from harness.report.page.usual import MARKED
from harness.report.summary import SIGNS, counted, outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from harness.report.page.paths import RecordPath
    from harness.saved import CellResult


class NoRecordError(Exception):
    """None of the chosen cells has such a record, or such events; the message names a record that
    exists.
    """


def record_text(results: Sequence[CellResult], record: str) -> str:
    """Return the path of a record in each of these cells that has a record of this name.

    Raises:
        NoRecordError: no cell has such a record.
    """
    found = [(result, path) for result in results if (path := _path(result, record))]
    if not found:
        raise no_record(results, record)
    return "\n".join(visible(line) for result, path in found for line in _lines(result, path))


def no_record(results: Sequence[CellResult], record: str) -> NoRecordError:
    """Return the error for a record that no cell has; it names one that exists."""
    known = next(
        (result.plan.target for result in results if result.judgement.account.counts["offered"]),
        None,
    )
    hint = f"; an example of a record is {known}" if known else ""
    return NoRecordError(f"none of {counted(len(results), 'cell')} has a record {record!r}{hint}")


def _path(result: CellResult, record: str) -> RecordPath | None:
    row = next((row for row in rows_of(result) if row["record"] == record), None)
    history = history_of(result) if row else None
    return Paths(history.events).of(row) if history and row else None


def _lines(result: CellResult, path: RecordPath) -> Iterator[str]:
    word = outcome(result.verdict)
    target = " (the target)" if path.record in result.plan.struck else ""
    yield f"{result.plan.id}  {SIGNS[word]} {word}"
    yield f"  {path.record}{target}: {path.sentence}"
    if path.usually:
        yield f"  {MARKED.format(path.usually)}"
    width = max((len(hop.by) for hop in path.hops), default=0)
    for hop in path.hops:
        when = "at rest" if hop.ms is None else f"{hop.ms:.1f} ms"
        copy = f"[{hop.copy}] " if hop.copy else ""
        yield f"  {when:>12}  {hop.by:<{width}}  {'! ' if hop.bad else '  '}{copy}{hop.text}"
    yield ""


def advice(result: CellResult) -> Iterator[str]:
    """Yield, for a broken promise, the path of the first record that broke it, and how
    to fix it.
    """
    if result.verdict.kind is not Kind.BROKEN:
        return
    for row in broken_rows(result)[:1]:
        yield f"the path of {row['record']}:"
        yield from record_text([result], str(row["record"])).splitlines()[1:]
    history = read_history(result.directory / HISTORY)
    yield from map(told_write, history.of(kinds.Durable))
    yield from map(told_work, history.of(kinds.Work))
    if fix := mending(result):
        yield f"how to fix it: {fix}"
