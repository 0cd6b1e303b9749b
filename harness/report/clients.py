"""A table of saved runs: which client, at which version, keeps which promise at which failure
point.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.model.semantics import Semantic
from harness.report.as_markdown import spot_text
from harness.report.escaping import markdown
from harness.report.matrix import MatrixEntry, tables
from harness.report.summary import SIGNS, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from harness.report.matrix import Row, Table
    from harness.saved import SavedRun

CALLED = {"java": "kafka-clients"}
"""The names of clients in a run's versions, where these differ from their own names."""


def client_table(runs: Sequence[SavedRun]) -> str:
    """Return Markdown: the number of cells per client and outcome, then a row per point at which
    clients differ.

    Equal cells of several runs or seeds share a spot. Only systems that have cells of several
    clients are shown.
    """
    found: dict[tuple[str, ...], dict[str, MatrixEntry]] = {}
    clients: dict[str, dict[str, None]] = {}
    for run in runs:
        for table in tables(run):
            name = _version(table.client, run)
            if any(spot.results for _, spot in _spots(table)):
                clients.setdefault(table.system, {})[name] = None
            for place, spot in _spots(table):
                spots = found.setdefault(place, {})
                before = spots.get(name, MatrixEntry())
                spots[name] = MatrixEntry((*before.results, *spot.results), spot.not_applicable)
    parts = [
        _of_system(system, list(names), found)
        for system, names in clients.items()
        if len(names) > 1
    ]
    return "\n".join(line for part in parts for line in part) + "\n"


def _spots(table: Table) -> Iterator[tuple[tuple[str, ...], MatrixEntry]]:
    for row in table.rows:
        for semantic, spot in _in_order(row):
            yield (table.system, table.runtime, table.pipeline, row.scenario, str(semantic)), spot


def _in_order(row: Row) -> Iterator[tuple[Semantic, MatrixEntry]]:
    return ((semantic, row.spots[semantic]) for semantic in Semantic if semantic in row.spots)


def _version(client: str, run: SavedRun) -> str:
    version = run.info.versions.get(CALLED.get(client, client))
    return client.replace("==", " ") if "==" in client or version is None else f"{client} {version}"


def _of_system(
    system: str, names: list[str], found: dict[tuple[str, ...], dict[str, MatrixEntry]]
) -> Iterator[str]:
    mine = {place: spots for place, spots in found.items() if place[0] == system}
    yield f"| {system} | {' | '.join(names)} |"
    yield f"|---|{'---|' * len(names)}"
    for outcome in Outcome:
        counts = [
            sum(
                name in s and bool(s[name].results) and s[name].outcome is outcome
                for s in mine.values()
            )
            for name in names
        ]
        if any(counts):
            yield f"| {SIGNS[outcome]} {outcome} | {' | '.join(map(str, counts))} |"
    yield ""
    differing = [(place, spots) for place, spots in mine.items() if _differ(spots)]
    if not differing:
        yield "No point at which they differ."
        return
    yield f"| where they differ | {' | '.join(names)} |"
    yield f"|---|{'---|' * len(names)}"
    for place, spots in differing:
        yield (
            f"| {markdown('/'.join(place[2:]))} | "
            f"{' | '.join(_text(spots.get(name, MatrixEntry())) for name in names)} |"
        )


def _differ(spots: dict[str, MatrixEntry]) -> bool:
    """Whether the outcomes differ: kept by one client, broken by another, or impossible. Counts
    vary by chance.
    """
    return len({spot.outcome if spot.results else None for spot in spots.values()}) > 1


def _text(spot: MatrixEntry) -> str:
    if spot.results:
        return spot_text(spot)
    return "n/a" if spot.not_applicable else ""
