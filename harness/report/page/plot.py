"""The plot of a cell: one dot for each offered record, at the time of its first send.

A dot's row is the state that the account gives its record, so the dots of a row are the records
that the verdict counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from harness.model import events as kinds
from harness.model.states import State
from harness.report.page.timeline import TICK_NS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from harness.judge.accounting import Account
    from harness.judge.record_row import RecordRow
    from harness.model.history import Event


class PlotRow(StrEnum):
    """The rows of the plot, from the top."""

    RECORDED = "recorded"
    """Recorded once."""
    DUPLICATED = "duplicated"
    LOST = "lost"
    ASIDE = "set aside"
    SUPERSEDED = "superseded"
    UNSURE = "unsure"
    """Not recorded, and not lost: it may still arrive."""
    DOUBT = "in doubt"
    """Unsure, and its producer does not know what became of its transaction."""


@dataclass(frozen=True, slots=True)
class Dot:
    """One record. ``t``: its first send, in units of the timeline; if none was seen, when it was
    taken or offered; null if no line tells that.
    """

    t: int | None
    record: str
    note: str


@dataclass(frozen=True)
class Plot:
    """The dots of each row, in order of time.

    ``lost`` and ``extra``: how many more records are lost, and copies too many, of which only a
    wrong total tells.
    """

    rows: Mapping[PlotRow, tuple[Dot, ...]]
    lost: int
    extra: int


def fate_of(row: RecordRow) -> PlotRow:
    """Return the row of the plot in which a record of the account stands."""
    match row["state"]:
        case State.RECORDED:
            return PlotRow.DUPLICATED if row["recordings"] > 1 else PlotRow.RECORDED
        case State.LOST:
            return PlotRow.LOST
        case State.SET_ASIDE:
            return PlotRow.ASIDE
        case State.SUPERSEDED:
            return PlotRow.SUPERSEDED
    return PlotRow.DOUBT if row.get("in_doubt") else PlotRow.UNSURE


def plot_of(account: Account, events: Sequence[Event]) -> Plot:
    """Return the plot of a cell: its account, and its events in order of time."""
    sent: dict[str, int] = {}
    offered: dict[str, int] = {}
    for event in events:
        if isinstance(event, kinds.OfSend):
            sent.setdefault(event.record, event.t)
        elif isinstance(event, kinds.Taken):
            offered.setdefault(event.record, event.t)
    times = offered | sent
    zero = events[0].t if events else 0
    rows: dict[PlotRow, list[Dot]] = {fate: [] for fate in PlotRow}
    for row in account.rows:
        fate, t = fate_of(row), times.get(row["record"])
        rows[fate].append(
            Dot(None if t is None else (t - zero) // TICK_NS, row["record"], _note(row, fate))
        )
    return Plot(
        {fate: tuple(sorted(dots, key=_by_time)) for fate, dots in rows.items()},
        sum(total.lost for total in account.totals),
        sum(total.extra for total in account.totals),
    )


def _by_time(dot: Dot) -> int:
    return -1 if dot.t is None else dot.t


def _note(row: RecordRow, fate: PlotRow) -> str:
    """Return a few words about a record's state."""
    match fate:
        case PlotRow.LOST:
            return str(row["last_hop"])
        case PlotRow.DUPLICATED:
            return f"recorded {row['recordings']} times"
        case PlotRow.UNSURE | PlotRow.DOUBT:
            return str(row["state"])
    return ""


def drawn_plot(plot: Plot, most: int) -> list[object]:
    """Return a plot as compact plain data: its rows, and the records that only totals tell of. A
    row: its name, how many records it has, the times of the drawn dots (each since the one before,
    -1: unknown), and, except for records recorded once, their names and notes. At most ``most``
    dots are drawn of a row, evenly chosen.
    """
    rows: list[list[object]] = []
    for fate, dots in plot.rows.items():
        shown = dots[:: -(-len(dots) // most)] if dots else ()
        times, before = [], 0
        for dot in shown:
            times.append(-1 if dot.t is None else dot.t - before)
            before = before if dot.t is None else dot.t
        row: list[object] = [str(fate), len(dots), times]
        if fate is not PlotRow.RECORDED:
            row.append([[dot.record, dot.note] for dot in shown])
        rows.append(row)
    return [rows, plot.lost, plot.extra]
