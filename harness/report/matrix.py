"""The matrix: for each pipeline, a table of scenarios and semantics. All seeds of one scenario and
semantic share a spot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.judge.verdict import Kind
from harness.model.semantics import Semantic
from harness.report.summary import DECLARED, GREEN, WORST, Outcome, outcome

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.model.plan import Plan
    from harness.saved import CellResult, NotRun, SavedRun

CONFIDENCE_RUNS = 3
"""The rule of three: zero in n runs bounds the share of runs that would show one at 3/n, with 95 %
confidence.
"""


@dataclass(frozen=True)
class MatrixEntry:
    """All runs of one scenario under one semantic, or the reason why it does not apply."""

    results: tuple[CellResult, ...] = ()
    not_applicable: str | None = None

    @property
    def outcome(self) -> Outcome:
        """The worst outcome of its runs.

        Raises:
            ValueError: the square has no runs.
        """
        return min((outcome(result.verdict) for result in self.results), key=WORST.index)

    @property
    def evidence(self) -> int:
        """The n of the statistics: runs that prove something (the fault fired, or there is none by
        design).
        """
        return sum(_proves(result) for result in self.results)

    def total(self, count: str) -> int | None:
        """Add up a count over the runs; ``None`` if no run could be read."""
        readable = [
            r.judgement.account.counts
            for r in self.results
            if r.judgement.account.counts["offered"]
        ]
        return sum(counts[count] for counts in readable) if readable else None

    def zero_bound(self, count: str) -> float | None:
        """Return an upper bound (95 %) for the share of runs that show the anomaly, if none did;
        else, or if n is 0, ``None``.
        """
        if self.total(count) != 0 or not self.evidence:
            return None
        return min(1.0, CONFIDENCE_RUNS / self.evidence)


def _proves(result: CellResult) -> bool:
    """Whether a run is one of n: what stands still has not been counted to the end, and no zero of
    it is one.
    """
    fired = result.verdict.fired > 0 or result.plan.evidence.trigger == "none"
    return fired and result.verdict.kind not in {Kind.VOID, Kind.STUCK}


@dataclass(frozen=True)
class Row:
    """One scenario under every semantic."""

    scenario: str
    failure_point: str
    spots: dict[Semantic, MatrixEntry]

    @property
    def name(self) -> str:
        """The scenario's name, with its failure point where that has another."""
        if self.failure_point in self.scenario:
            return self.scenario
        return f"{self.scenario} ({self.failure_point})"

    @property
    def ran(self) -> bool:
        """Whether it was run under any semantic."""
        return any(spot.results for spot in self.spots.values())

    @property
    def because(self) -> str:
        """What the scenario does, in one sentence; if it was not run, why it does not apply."""
        told = (result.plan.because for spot in self.spots.values() for result in spot.results)
        reasons = (spot.not_applicable for spot in self.spots.values() if spot.not_applicable)
        return next(told, None) or next(reasons, "")


@dataclass(frozen=True)
class Table:
    """One pipeline of one system with one client in one runtime."""

    pipeline: str
    system: str
    client: str
    runtime: str
    rows: tuple[Row, ...]

    @property
    def title(self) -> str:
        """The title of the table. For a user's own pipeline, it says what the pipeline claims."""
        if self.own:
            return f"{self.pipeline} claims {' or '.join(self.semantics)}"
        return f"{self.pipeline}: {self.system}, {self.client}, {self.runtime}"

    @property
    def own(self) -> bool:
        """Whether the table is about a user's own pipeline."""
        return self.system == DECLARED

    @property
    def worst_first(self) -> tuple[Row, ...]:
        """The rows, those with cells that are not green first, the worst of them first."""

        def gravity(row: Row) -> int:
            found = (spot.outcome for spot in row.spots.values() if spot.results)
            return min(
                (WORST.index(each) for each in found if each not in GREEN), default=len(WORST)
            )

        return tuple(sorted(self.rows, key=gravity))

    @property
    def semantics(self) -> tuple[Semantic, ...]:
        """The columns: the semantics under which any row has a spot."""
        return tuple(each for each in Semantic if any(each in row.spots for row in self.rows))

    @property
    def place(self) -> dict[str, str]:
        """Pipeline, system, client and runtime, by name."""
        return {
            "pipeline": self.pipeline,
            "system": self.system,
            "client": self.client,
            "runtime": self.runtime,
        }


def tables(run: SavedRun) -> tuple[Table, ...]:
    """Return the run's tables, each in the order in which its scenarios were planned."""
    found: dict[tuple[str, str, str, str], dict[tuple[str, str], dict[Semantic, MatrixEntry]]] = {}
    for place in _placed(run):
        rows = found.setdefault(place.table, {})
        spots = rows.setdefault(place.row, {})
        before = spots.get(place.semantic, MatrixEntry())
        spots[place.semantic] = MatrixEntry(
            (*before.results, *place.spot.results), place.spot.not_applicable
        )
    return tuple(
        Table(*names, tuple(Row(*row, spots) for row, spots in rows.items()))
        for names, rows in found.items()
    )


@dataclass(frozen=True)
class _Placed:
    table: tuple[str, str, str, str]
    row: tuple[str, str]
    semantic: Semantic
    spot: MatrixEntry


def _placed(run: SavedRun) -> Iterable[_Placed]:
    for result in run.results:
        yield _place(result.plan, MatrixEntry((result,)))
    for row in run.info.not_applicable:
        yield _place(row, MatrixEntry((), row.because))


def _place(named: Plan | NotRun, spot: MatrixEntry) -> _Placed:
    """Find the place of what did run, or of what does not apply."""
    return _Placed(
        (named.pipeline, named.system, named.client, named.runtime),
        (named.scenario, named.failure_point),
        Semantic(named.semantic),
        spot,
    )


def matrix_rows(run: SavedRun) -> list[dict[str, object]]:
    """Return the matrix as flat rows for ``report.json``; spots without runs are left out."""
    return [
        {
            **table.place,
            "scenario": row.scenario,
            "failure_point": row.failure_point,
            "semantic": str(semantic),
            "outcome": str(spot.outcome),
            "runs": len(spot.results),
            "n": spot.evidence,
            "lost": spot.total("lost"),
            "duplicated": spot.total("duplicated"),
            "lost_bound": spot.zero_bound("lost"),
            "duplicated_bound": spot.zero_bound("duplicated"),
        }
        for table in tables(run)
        for row in table.rows
        for semantic, spot in row.spots.items()
        if spot.results
    ]
