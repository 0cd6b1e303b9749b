"""What a semantic costs in one run, per client: seconds until records moved again, records per
second, latency.

A figure covers only the points (scenario and seed) that have it under every semantic shown. Its
ratio is the median of the points' own ratios to at-most-once. Controls, cells that were not kept,
and simulations are left out.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from harness.judge.verdict import Kind
from harness.model import events as kinds
from harness.model.semantics import Semantic
from harness.report.matrix import tables
from harness.report.page.detail import history_of
from harness.report.summary import is_simulated

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.model.history import History
    from harness.report.matrix import Table
    from harness.saved import CellResult, SavedRun

MOVED, THROUGHPUT, LATENCY = "moved_again_s", "records_per_s", "latency_ms"
TEXTS = {
    MOVED: "s until it moved again, after a fault",
    THROUGHPUT: "records/s, without",
    LATENCY: "latency in ms, without",
}
LEGEND = (
    "Medians, and in brackets the median of each point's own ratio to at-most-once; n points "
    "(scenario and seed) that have the figure under every semantic of the line. Moved again: "
    "until a record first sent after the fault was delivered. Records a second and latency: from "
    "the source to the consumer's hands; latency only of none+paced, of records taken with no "
    "other under way (at full speed it is the length of a queue). Cells run beside others: what "
    "is small here may be chance."
)
BASELINE = Semantic.AT_MOST_ONCE
_Points: TypeAlias = dict[tuple[str, int], float]
"""A figure by scenario and seed."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A median, and its ratio to at-most-once: ``None`` if the run has no figure of
    at-most-once.
    """

    median: float
    ratio: float | None

    @property
    def text(self) -> str:
        """The figure as text, with three significant digits.

        >>> Figure(1234.5, None).text, Figure(0.012345, 1.5).text
        ('1234', '0.0123 (1.50)')
        """
        shown = f"{self.median:.0f}" if self.median >= 100 else f"{self.median:.3g}"  # noqa: PLR2004 - no exponent
        return shown if self.ratio is None else f"{shown} ({self.ratio:.2f})"


@dataclass(frozen=True, slots=True)
class Cost:
    """One figure of one pipeline with one client, under each semantic that has it, over the same
    ``n`` points.
    """

    table: Table
    figure: str
    n: int
    figures: dict[Semantic, Figure]

    @property
    def name(self) -> str:
        """What the line is about."""
        return f"{self.table.title}: {TEXTS[self.figure]} (n = {self.n})"

    def rows(self) -> Iterator[dict[str, object]]:
        """Flat rows for ``report.json``, one for each semantic."""
        for semantic, figure in self.figures.items():
            yield {
                **self.table.place,
                "figure": self.figure,
                "semantic": str(semantic),
                "n": self.n,
                "median": figure.median,
                "ratio": figure.ratio,
            }


def costs(run: SavedRun) -> list[Cost]:
    """Return the costs that the run's cells show; none if they have no figure under
    two semantics.
    """
    return [
        cost
        for table in tables(run)
        if not is_simulated(run, table.system)
        for cost in _of_table(table)
    ]


def _of_table(table: Table) -> Iterator[Cost]:
    found: dict[str, dict[Semantic, _Points]] = {name: {} for name in (MOVED, THROUGHPUT, LATENCY)}
    for row in table.rows:
        for semantic, spot in row.spots.items():
            for result in spot.results:
                for name, value in _figures(result):
                    found[name].setdefault(semantic, {})[result.plan.scenario, result.plan.seed] = (
                        value
                    )
    for name, points in found.items():
        alike = set.intersection(*map(set, points.values())) if len(points) > 1 else set()
        if alike:
            figures = {
                each: _figure(points[each], points.get(BASELINE), alike)
                for each in Semantic
                if each in points
            }
            yield Cost(table, name, len(alike), figures)


def _figure(mine: _Points, baseline: _Points | None, alike: set[tuple[str, int]]) -> Figure:
    ratio = (
        statistics.median(mine[point] / baseline[point] for point in alike) if baseline else None
    )
    return Figure(statistics.median(mine[point] for point in alike), ratio)


def _figures(result: CellResult) -> Iterator[tuple[str, float]]:
    """Yield the figures of one cell, as (figure, value > 0)."""
    if result.verdict.kind is not Kind.KEPT or result.plan.control:
        return
    if result.plan.evidence.trigger != "none":
        if moved := result.judgement.movement.moved_again_s:
            yield MOVED, moved
    elif history := history_of(result):
        yield from _latency(history) if result.plan.pace_ms else _throughput(history)


def _throughput(history: History) -> Iterator[tuple[str, float]]:
    """Yield the records per second, from the first record taken to the last one delivered."""
    taken, arrived = _first(history, kinds.Taken), _first(history, kinds.Delivered)
    if taken and taken.keys() <= arrived.keys():
        yield (
            THROUGHPUT,
            len(taken) * 1e9 / (max(arrived[record] for record in taken) - min(taken.values())),
        )


def _latency(history: History) -> Iterator[tuple[str, float]]:
    """Yield the median latency, in ms, of the records that were taken while no other
    was under way.
    """
    taken, arrived = _first(history, kinds.Taken), _first(history, kinds.Delivered)
    if not taken or not taken.keys() <= arrived.keys():
        return
    alone: list[float] = []
    before = 0
    for record, t in sorted(taken.items(), key=lambda each: each[1]):
        if t >= before:
            alone.append((arrived[record] - t) / 1e6)
        before = max(before, arrived[record])
    if len(alone) * 2 > len(taken):
        yield LATENCY, statistics.median(alone)


def _first(history: History, kind: type[kinds.Taken | kinds.Delivered]) -> dict[str | None, int]:
    """When each record had its first event of a kind, in ns."""
    found: dict[str | None, int] = {}
    for event in history.of(kind):
        found.setdefault(event.record, event.t)
    return found
