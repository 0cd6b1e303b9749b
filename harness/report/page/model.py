"""The whole page as plain data: the matrix, and the details that are unfolded on demand."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import re
import zlib
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from harness.model.semantics import Anomaly, Semantic, forbids
from harness.report.escaping import visible
from harness.report.matrix import tables
from harness.report.own import labels_of
from harness.report.page.detail import MOST_DOTS, Shared, detail_of, drawn
from harness.report.page.opening import never_reached
from harness.report.summary import WORST, outcome

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.report.matrix import MatrixEntry
    from harness.saved import CellResult, SavedRun

CHUNK = 20
"""Cells per compressed block. Cells are similar, so large blocks compress well."""
MESSAGES_PER_PAGE = 30_000
LEAST_MESSAGES, MOST_MESSAGES = 40, 300
DOTS_PER_PAGE = 60_000
LEAST_DOTS = 60
_PLAIN = re.compile(r"[^A-Za-z0-9._+-]")


@dataclass(frozen=True)
class MatrixCell:
    """One square of the matrix. ``cells``: the numbers of its cells, the worst first."""

    semantic: str
    cells: tuple[int, ...] = ()
    anchor: str = ""
    outcome: str = ""
    lost: str = ""
    duplicated: str = ""
    hatched: bool = False
    """Something was lost or duplicated that the semantic permits."""
    runs: str = ""
    """The number of runs, with the upper bound of an anomaly that none of them showed."""
    never: bool = False
    """In no run did its fault strike."""
    because: str = ""
    """The reason why the scenario does not apply."""


@dataclass(frozen=True)
class Line:
    """One scenario of the matrix. ``because``: what happens there; empty where the page does not
    say it here.
    """

    name: str
    squares: tuple[MatrixCell, ...]
    because: str = ""


@dataclass(frozen=True)
class MatrixTable:
    """One table of the matrix: a pipeline of one system with one client in one runtime."""

    title: str
    semantics: tuple[str, ...]
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Page:
    """What the template draws: the matrix, and what is unfolded later.

    ``index`` tells of all cells (JSON); each of the ``details`` of :data:`CHUNK` cells (see
    :func:`unfold`).
    """

    sheets: tuple[MatrixTable, ...]
    anchors: tuple[str, ...]
    """The name of each cell in addresses, in the order of the run's results."""
    index: str
    details: tuple[str, ...]


def page_of(run: SavedRun) -> Page:
    """Return the model of a run's page."""
    shared = Shared(dots_per_row(len(run.results)))
    names = anchors([result.plan.id for result in run.results])
    most = messages_each(len(run.results))
    details = [_detail(result, most, shared) for result in run.results]
    folded = tuple(fold(details[first : first + CHUNK]) for first in range(0, len(details), CHUNK))
    index = {
        "cells": [_row(*each) for each in zip(run.results, names, labels_of(run), strict=True)],
        "outcomes": list(WORST),
        "chunk": CHUNK,
        **shared.tables(),
    }
    places = {id(result): number for number, result in enumerate(run.results)}
    return Page(tuple(_sheets(run, places, names)), tuple(names), embedded(index), folded)


def _detail(result: CellResult, most: int, shared: Shared) -> dict[str, object]:
    words, timeline = detail_of(result, shared)
    return words | {"timeline": drawn(timeline.limited(most), shared) if timeline else None}


def messages_each(cells: int) -> int:
    """Return how many messages each timeline may show, for the page to stay light.

    >>> messages_each(180), messages_each(1000), messages_each(5000)
    (166, 40, 40)
    """
    return max(LEAST_MESSAGES, min(MOST_MESSAGES, MESSAGES_PER_PAGE // max(cells, 1)))


def dots_per_row(cells: int) -> int:
    """Return how many dots each row of a plot may have.

    >>> dots_per_row(1), dots_per_row(300), dots_per_row(5000)
    (1000, 200, 60)
    """
    return max(LEAST_DOTS, min(MOST_DOTS, DOTS_PER_PAGE // max(cells, 1)))


def fold(details: list[dict[str, object]]) -> str:
    r"""Return details in few letters: JSON, deflated, as base64. The page unfolds them when a cell
    is opened.

    >>> unfold(fold([{"a": "<\n"}]))
    [{'a': '<\\x0a'}]
    """
    return base64.b64encode(zlib.compress(embedded(details).encode(), 9)).decode()


def unfold(text: str) -> list[dict[str, object]]:
    """Return what :func:`fold` has folded."""
    return cast("list[dict[str, object]]", json.loads(zlib.decompress(base64.b64decode(text))))


def anchors(ids: list[str]) -> list[str]:
    """Return one name per cell that can stand in an address: readable, and never two alike.

    >>> anchors(["kafka/plain/s1", "kafka/plain/s1", "kafka/<b>/s1"])
    ['kafka.plain.s1', 'kafka.plain.s1-2', 'kafka._b_.s1-160d3d2a']
    """
    found: dict[str, None] = {}
    for cell in ids:
        dotted = cell.replace("/", ".")
        name = _PLAIN.sub("_", dotted)
        if name != dotted:  # another cell may look the same in plain letters
            name += f"-{hashlib.sha256(cell.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
        free = (name if number == 1 else f"{name}-{number}" for number in itertools.count(1))
        found[next(one for one in free if one not in found)] = None
    return list(found)


def embedded(data: object) -> str:
    r"""Return data as JSON that can stand inside a page: no character of it ends the element, or
    moves the cursor.

    >>> embedded({"a": "</script>\n"})
    '{"a":"\\u003c/script\\u003e\\\\x0a"}'
    """
    text = json.dumps(_shown(data), separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _shown(data: object) -> object:
    if isinstance(data, str):
        return visible(data)
    if isinstance(data, dict):
        return {visible(str(name)): _shown(value) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return [_shown(value) for value in data]
    return data


def _row(result: CellResult, anchor: str, label: str) -> list[object]:
    plan, counts = result.plan, result.judgement.account.counts
    known = bool(counts["offered"])
    return [
        anchor,
        plan.id,
        WORST.index(outcome(result.verdict)),
        counts["lost"] if known else None,
        counts["duplicated"] if known else None,
        result.verdict.reason,
        plan.scenario,
        plan.failure_point,
        str(plan.semantic),
        plan.seed,
        *([label] if label != plan.id else []),
    ]


def _sheets(run: SavedRun, places: dict[int, int], names: list[str]) -> Iterator[MatrixTable]:
    for table in tables(run):
        if not any(row.ran for row in table.rows):
            continue
        lines = (
            Line(
                row.name,
                tuple(
                    _square(semantic, row.spots.get(semantic), places, names)
                    for semantic in table.semantics
                ),
                row.because if table.own else "",
            )
            for row in table.worst_first
            if row.ran
        )
        yield MatrixTable(table.title, tuple(map(str, table.semantics)), tuple(lines))


def _square(
    semantic: Semantic, spot: MatrixEntry | None, places: dict[int, int], names: list[str]
) -> MatrixCell:
    if spot is None or (not spot.results and spot.not_applicable is None):
        return MatrixCell(str(semantic))
    if not spot.results:
        return MatrixCell(str(semantic), because=spot.not_applicable or "")
    ordered = sorted(spot.results, key=lambda result: WORST.index(outcome(result.verdict)))
    cells = tuple(places[id(result)] for result in ordered)
    lost, duplicated = spot.total("lost"), spot.total("duplicated")
    permitted = (
        bool(count) and not forbids(semantic, what)
        for count, what in ((lost, Anomaly.LOST), (duplicated, Anomaly.DUPLICATED))
    )
    return MatrixCell(
        str(semantic),
        cells,
        names[cells[0]],
        str(spot.outcome),
        _count(lost),
        _count(duplicated),
        hatched=any(permitted),
        runs=_runs(spot),
        never=all(map(never_reached, spot.results)),
    )


def _count(total: int | None) -> str:
    return "?" if total is None else str(total)


def _runs(spot: MatrixEntry) -> str:
    """Return the number of runs that count, with the upper bound if none showed the anomaly."""
    if all(map(never_reached, spot.results)):
        return "never reached"
    if len(spot.results) == 1:
        return ""
    bounds = {spot.zero_bound(name) for name in ("lost", "duplicated")} - {None, 1.0}
    bound = f", a 0 is < {min(b for b in bounds if b is not None):.0%}" if bounds else ""
    mixed = Counter(outcome(result.verdict) for result in spot.results)
    words = (
        ", ".join(f"{mixed[word]} {word}" for word in WORST if mixed[word])
        if len(mixed) > 1
        else ""
    )
    return f"n = {spot.evidence}{f' ({words})' if words else ''}{bound}"
