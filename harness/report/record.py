"""One record's path, for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.report.escaping import visible
from harness.report.page.detail import history_of, rows_of
from harness.report.page.paths import Paths
from harness.report.summary import SIGNS, counted, outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from harness.report.page.paths import RecordPath
    from harness.saved import CellResult


class NoRecordError(Exception):
    """No cell that is meant has such a record; the message names one that there is."""


def record_text(results: Sequence[CellResult], record: str) -> str:
    """Return the path of a record in every one of these cells that has one of this name. Raises :class:`NoRecordError`."""
    found = [(result, path) for result in results if (path := _path(result, record))]
    if not found:
        known = next((result.plan.target for result in results if result.judgement.account.counts["offered"]), None)
        hint = f"; one is called {known}, for example" if known else ""
        raise NoRecordError(f"none of {counted(len(results), 'cell')} has a record {record!r}{hint}")
    return "\n".join(visible(line) for result, path in found for line in _lines(result, path))


def _path(result: CellResult, record: str) -> RecordPath | None:
    row = next((row for row in rows_of(result) if row["record"] == record), None)
    history = history_of(result) if row else None
    return Paths(history.events).of(row) if history and row else None


def _lines(result: CellResult, path: RecordPath) -> Iterator[str]:
    word = outcome(result.verdict)
    target = " (the target)" if path.record == result.plan.target else ""
    yield f"{result.plan.id}  {SIGNS[word]} {word}"
    yield f"  {path.record}{target}: {path.sentence}"
    width = max((len(hop.by) for hop in path.hops), default=0)
    for hop in path.hops:
        when = "at rest" if hop.ms is None else f"{hop.ms:.1f} ms"
        copy = f"[{hop.copy}] " if hop.copy else ""
        yield f"  {when:>12}  {hop.by:<{width}}  {'! ' if hop.bad else '  '}{copy}{hop.text}"
    yield ""
