"""Everything the page shows of one cell, as plain data in few bytes."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from harness.judge.evidence import evidence_of
from harness.judge.verdict import Kind
from harness.model import safe_files
from harness.model.history import HISTORY, LOGS, HistoryError, read_history
from harness.model.prediction import by_name
from harness.model.semantics import PROMISES, Anomaly
from harness.report.advising import last_log_lines, mending
from harness.report.page.evidence import movement_lines, next_step, proof_of, settings_of, sign_of
from harness.report.page.paths import Paths, anomalous
from harness.report.page.plot import drawn_plot, plot_of
from harness.report.page.ribbons import ribbons_of
from harness.report.page.timeline import timeline_of
from harness.report.page.usual import MARKED
from harness.report.summary import DECLARED, rerun_line

if TYPE_CHECKING:
    from harness.judge.record_row import RecordRow
    from harness.model.history import History
    from harness.report.page.paths import Hop, RecordPath
    from harness.report.page.ribbons import Ribbon
    from harness.report.page.timeline import Timeline
    from harness.saved import CellResult

PATHS_PER_CELL = 200
PATHS_PER_PAGE = 1000
MOST_DOTS = 1000


class Shared:
    """Shared by all cells of one page: the space left for paths, the number of dots that each row
    of a plot may have, and a table of texts that are written once.
    """

    def __init__(self, dots: int = MOST_DOTS) -> None:
        self.dots = dots
        self._paths = PATHS_PER_PAGE
        self._tables: dict[str, dict[object, int]] = {"texts": {}, "settings": {}, "kinds": {}}

    def take(self, wanted: int) -> int:
        """Return how many paths one more cell may show."""
        granted = min(wanted, PATHS_PER_CELL, self._paths)
        self._paths -= granted
        return granted

    def number(self, table: str, value: object) -> int:
        """Return the place of a value in a table of the page."""
        known = self._tables[table]
        return known.setdefault(value, len(known))

    def tables(self) -> dict[str, list[object]]:
        """Return the tables, each value at its place."""
        return {name: list(values) for name, values in self._tables.items()}


def history_of(result: CellResult) -> History | None:
    """Return a cell's history, or ``None`` where there is none that can be read."""
    try:
        return read_history(result.directory / HISTORY)
    except (HistoryError, OSError):
        return None


def rows_of(result: CellResult) -> list[RecordRow]:
    """Return the account's record table as plain rows."""
    return [*result.judgement.account.rows]


def broken_rows(result: CellResult) -> list[RecordRow]:
    """Return the rows of the records that broke a cell's promise, in the order of their names;
    none of a cell that is not broken.
    """
    if result.verdict.kind is not Kind.BROKEN:
        return []
    account, promises = result.judgement.account, PROMISES[result.plan.semantic]
    lost = account.lost if Anomaly.LOST in promises else frozenset()
    duplicated = account.duplicated if Anomaly.DUPLICATED in promises else frozenset()
    broken = [row for row in account.rows if row["record"] in lost | duplicated]
    return sorted(broken, key=lambda row: by_name(row["record"]))


def first_seen(result: CellResult) -> list[tuple[str, str, str]]:
    """Return the first record that broke a cell's promise, what the history shows of it, and what
    usually does this. Empty if the history cannot be read.
    """
    rows = broken_rows(result)[:1]
    history = history_of(result) if rows else None
    if history is None:
        return []
    try:
        paths = [Paths(history.events).of(row) for row in rows]
    except Exception:  # noqa: BLE001 - a damaged history holds anything; the verdict stands
        return []
    return [(path.record, path.sentence, path.usually) for path in paths]


COUNTED = {
    "acked": "acknowledged",
    "stored_twice": "of the duplicates from a further copy",
    "delivered_twice": "of the duplicates from one copy, delivered again",
    "set_aside": "set aside",
    "in_doubt": "in doubt",
    "left_in_source": "of these left in the source",
    "left_in_topic": "of these left in the topic",
}
"""The words for counts whose names do not say what they count."""


def counts_of(result: CellResult) -> list[tuple[str, int]]:
    """Return the counts of a cell that are not zero, in order, each with its words. Records that
    are stored more than once stand behind those that are stored. ``stored_twice`` counts rows of
    the output alone, and not what was absorbed before.
    """
    counts, again = result.judgement.account.counts, result.judgement.movement.stored_again
    found: list[tuple[str, int]] = []
    for name, count in counts.items():
        if count:
            found.append((COUNTED.get(name, name.replace("_", " ")), count))
        if name == "stored" and again:
            found.append(("of these stored more than once", again))
    return found


def files_of(result: CellResult) -> list[tuple[str, str]]:
    """Return the files with the programs' output and the history, as (name, address). Empty if the
    page does not lie beside them.
    """
    cell = result.directory
    try:
        logs = safe_files.files(cell, LOGS, lambda name: name.endswith(".log"))
        lines = safe_files.files(cell, HISTORY, lambda name: name.endswith(".jsonl"))
    except OSError:
        return []
    beside = f"{cell.parent.name}/{cell.name}"
    return [(name, quote(f"{beside}/{name}")) for name in (*logs, *lines)] if logs else []


def detail_of(result: CellResult, shared: Shared) -> tuple[dict[str, Any], Timeline | None]:
    """Return what the page shows of a cell when it is opened, and its timeline, which :func:`drawn`
    writes down.
    """
    plan = result.plan
    different, settings = settings_of(plan)
    words = {
        "because": shared.number("texts", plan.because),
        "next": shared.number("texts", next_step(result)),
        "rerun": rerun_line(plan),
        "predicted": [plan.predicted(Anomaly.LOST), plan.predicted(Anomaly.DUPLICATED)],
        "targets": list(plan.struck),
        "own": plan.system == DECLARED,
        "mends": mending(result),
        "last": last_log_lines(result),
        "evidence": list(evidence_of(result.judgement)),
        "counts": counts_of(result),
        "files": files_of(result),
        "settings": shared.number("settings", tuple(settings.items())),
        "different": different,
        "sign": sign_of(result),
        "seconds": round(result.seconds, 1),
        "phases": {name: round(s, 2) for name, s in result.phases.items()},
        "directory": f"{result.directory.parent.name}/{result.directory.name}",
    }
    try:
        told, timeline = _told(result, shared)
        return words | told, timeline
    except Exception as error:  # noqa: BLE001 - a damaged history holds anything; the verdict stands without a drawing
        trouble = f"the history cannot be drawn: {type(error).__name__}: {error}"
        return words | {
            "proof": [trouble],
            "trouble": [trouble],
            "plot": None,
            "ribbons": [],
            "rollback": None,
            "paths": [],
            "more": 0,
        }, None


def _told(result: CellResult, shared: Shared) -> tuple[dict[str, object], Timeline | None]:
    """Return what the history tells."""
    plan = result.plan
    history = history_of(result)
    events = history.events if history else ()
    rows = rows_of(result)
    paths = Paths(events)
    found = anomalous(rows)
    shown = found[: shared.take(len(found))]
    told = {row["record"] for row in shown}
    target = [row for row in rows if row["record"] in set(plan.struck) - told]
    return {
        "proof": [*proof_of(plan, events), *movement_lines(result.judgement.movement)],
        "trouble": [*(history.cut_lines if history else ()), *(history.damage if history else ())],
        "plot": drawn_plot(plot_of(result.judgement.account, events), shared.dots)
        if rows
        else None,
        "ribbons": [_ribbon(ribbon) for ribbon in ribbons_of(events, rows)],
        "rollback": _rollback(result),
        "paths": [_path(paths.of(row)) for row in (*target, *shown)] if events else [],
        "more": len(found) - len(shown),
    }, timeline_of(events, plan.struck)


def drawn(timeline: Timeline, shared: Shared) -> dict[str, object]:
    """Return a timeline as compact plain data. A message: time since the message before, number of
    the kind (from, to, api, direction), note, fate, whether it carried the target. Empty values at
    its end are left out.
    """
    number = {lane.name: place for place, lane in enumerate(timeline.lanes)}
    messages: list[list[object]] = []
    before = 0
    for message in timeline.messages:
        kind = shared.number("kinds", (message.start, message.end, message.api, message.direction))
        row: list[object] = [
            message.t - before,
            kind,
            message.note,
            message.fate,
            int(message.target),
        ]
        while not row[-1] and len(row) > 2:  # noqa: PLR2004 - time and kind stand in each
            row.pop()
        messages.append(row)
        before = message.t
    return {
        "lanes": [[lane.name, lane.kind] for lane in timeline.lanes],
        "messages": messages,
        "bands": [
            [b.kind, number.get(b.lane or "", -1), b.start, b.end, b.text] for b in timeline.bands
        ],
        "marks": [[m.kind, number.get(m.lane, 0), m.t, m.text] for m in timeline.marks],
        "end": timeline.end,
        "fired": timeline.fired,
        "breaks": [list(each) for each in timeline.breaks],
        "omitted": [timeline.idle, timeline.telling],
    }


def _ribbon(ribbon: Ribbon) -> list[object]:
    stretches = [[stretch.kind, stretch.start, stretch.end] for stretch in ribbon.stretches]
    return [ribbon.name, ribbon.start, ribbon.end, stretches, ribbon.flushed, ribbon.cut]


def _rollback(result: CellResult) -> list[object] | None:
    """Return three rows (moment, what it is called, partitions with offsets, keys with their
    counts), then the torn keys.
    """
    found = result.judgement.details.get("rollback")
    if found is None:
        return None
    rows = [
        [
            one["moment"],
            one.get("said") or _batches(one["batch"]),
            sorted((int(partition), offset) for partition, offset in one["offsets"].items()),
            sorted(one["state"].items()),
        ]
        for one in found["snapshots"]
    ]
    return [rows, found["torn"]]


def _batches(last: int) -> str:
    return "no batch" if last < 0 else f"batches 0 to {last}"


def _path(path: RecordPath) -> list[object]:
    return [
        path.record,
        path.key,
        path.position,
        path.fate,
        path.sentence,
        [_hop(hop) for hop in path.hops],
        MARKED.format(path.usually) if path.usually else "",
    ]


def _hop(hop: Hop) -> list[object]:
    return [hop.ms, hop.by, hop.text, hop.copy, int(hop.bad)]


def path_rows(result: CellResult) -> list[dict[str, Any]]:
    """Return the paths of all lost and duplicated records of a cell, as plain data."""
    found = anomalous(rows_of(result))
    history = history_of(result) if found else None
    if history is None:
        return []
    try:
        paths = Paths(history.events)
        return [{"cell": result.plan.id, **_told_at_length(paths.of(row))} for row in found]
    except Exception as error:  # noqa: BLE001 - a damaged history holds anything
        return [
            {
                "cell": result.plan.id,
                "trouble": f"the history cannot be told: {type(error).__name__}: {error}",
            }
        ]


def _told_at_length(path: RecordPath) -> dict[str, object]:
    """Return a path as a dictionary. A hop's empty fields are left out."""
    hops = [
        {name: value for name, value in dataclasses.asdict(hop).items() if value or name == "ms"}
        for hop in path.hops
    ]
    return dataclasses.asdict(path) | {"hops": hops}
