"""The page of a scoreboard: one table of all clients, worst first, a table of points for each
program, and a page for each client. Made from the rows that are there.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Final

from harness.model import safe_files
from harness.model.semantics import Semantic
from harness.pipelines.failure_points import NO_FAULT
from harness.report.as_html import render_template
from harness.report.escaping import markdown
from harness.scoreboard.board import LACKING, NO_CONTROL, RAN, SCHEMA
from harness.scoreboard.predicting import differs
from harness.scoreboard.table import DEFAULT, MODES, TWO_MEMBERS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from harness.scoreboard.board import Cell, Outcome
    from harness.scoreboard.predicting import Predicted
    from harness.scoreboard.table import Client, Row

NAME: Final = "scoreboard"
NEVER: Final = "never"
NO_PROGRAM: Final = "na"
ORDER: Final = ("broken", "stuck", "void", "kept")
"""Outcomes, the worst first."""
SIGNS: Final = {"broken": "✘", "stuck": "◐", "void": "○", "kept": "✔"}


RECOVERY: Final = (
    "How many times as long as without the fault the records took on the wire, from the first to "
    "the last that was sent or delivered. A row is measured on one machine, in one run."
)


@dataclass(frozen=True, slots=True)
class BoardField:
    """A field of a table: its colour, its text, and the anchor that it leads to."""

    colour: str
    text: str
    anchor: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a table."""

    name: str
    spots: tuple[BoardField, ...]


@dataclass(frozen=True, slots=True)
class Points:
    """The table of one program: a line for each client, a column for each point."""

    title: str
    points: tuple[str, ...]
    lines: tuple[Line, ...]


def partial(outcomes: Sequence[Outcome], rows: Sequence[Row]) -> str:
    """Say how much of the board is missing; empty if nothing is."""
    there = {one.row for one in outcomes}
    left = [row.id for row in rows if row.id not in there]
    return (
        f"partial: {len(rows) - len(left)} of {len(rows)} rows are there; the next is {left[0]}"
        if left
        else ""
    )


def worst(outcomes: Iterable[str]) -> str:
    """Return the worst of some outcomes.

    >>> worst(["kept", "stuck"]), worst([])
    ('stuck', 'never')
    """
    return next((each for each in ORDER if each in {*outcomes}), NEVER)


def ranked(outcomes: Sequence[Outcome]) -> list[str]:
    """Return the clients with their versions, the worst first: by broken cells, then stuck ones."""
    counts: dict[str, Counter[str]] = {}
    for one in outcomes:
        mine = counts.setdefault(_named(one), Counter())
        mine.update(cell.outcome for cell in one.cells)
    return sorted(counts, key=lambda name: (*(-counts[name][word] for word in ORDER[:2]), name))


def overview(outcomes: Sequence[Outcome]) -> tuple[Line, ...]:
    """Return a line for each version of a client, and a field for each program."""
    found = {(_named(one), one.role, one.mode): one for one in outcomes}
    return tuple(
        Line(name, tuple(_summed(found.get((name, *program))) for program in programs()))
        for name in ranked(outcomes)
    )


def programs() -> list[tuple[str, str]]:
    """Return role and mode of each program."""
    return [(str(role), mode) for role, modes in MODES.items() for mode in modes]


def tables(outcomes: Sequence[Outcome]) -> Iterator[Points]:
    """Yield for each program the table of clients and points."""
    order = ranked(outcomes)
    for role, mode in programs():
        mine = [one for one in outcomes if (one.role, one.mode) == (role, mode) and one.cells]
        if not mine:
            continue
        mine.sort(key=lambda one: order.index(_named(one)))
        points = list(dict.fromkeys(cell.point for one in mine for cell in one.cells))
        points.sort(key=lambda point: -sum(_at(one, point) == "broken" for one in mine))
        lines = tuple(
            Line(_named(one), tuple(_field(one, point) for point in points)) for one in mine
        )
        yield Points(f"{role}, {mode}", tuple(points), lines)


def _at(one: Outcome, point: str) -> str:
    return next((cell.outcome for cell in one.cells if cell.point == point), NEVER)


def _named(one: Outcome) -> str:
    return f"{one.client} {one.version}"


def anchor(one: Outcome, cell: Cell | None = None) -> str:
    """Return the name of a place on the page."""
    return f"{one.row}.s{one.seed}".replace("/", "_") + (f"_{cell.point}" if cell else "")


def _field(one: Outcome, point: str) -> BoardField:
    for cell in one.cells:
        if cell.point == point:
            return BoardField(
                cell.outcome, f"{SIGNS[cell.outcome]} {_counted(cell)}", anchor(one, cell)
            )
    reason = next((because for name, because in one.apart if name == point), "")
    return BoardField(NO_PROGRAM, "n/a" if reason else "")


def _counted(cell: Cell) -> str:
    words = [
        f"{count} {word}"
        for count, word in ((cell.lost, "lost"), (cell.duplicated, "twice"))
        if count
    ]
    if not cell.effect:
        words.append("no effect seen")
    return ", ".join(words) or cell.outcome


def _summed(one: Outcome | None) -> BoardField:
    if one is None:
        return BoardField(NEVER, "not run")
    if one.state == LACKING:
        return BoardField(NO_PROGRAM, f"n/a: {one.because}")
    if one.state == NO_CONTROL:
        return BoardField("void", f"no control: {one.because}", anchor(one))
    counts = Counter(cell.outcome for cell in one.cells)
    word = worst(counts)
    void = counts["void"]
    unproved = f", {void} void" if void and word != "void" else ""
    return BoardField(
        word, f"{SIGNS[word]} {word} {counts[word]} of {len(one.cells)}{unproved}", anchor(one)
    )


def recoveries(outcomes: Sequence[Outcome]) -> Iterator[tuple[str, float, float, str]]:
    """Yield how long recovery took in each row, the longest first: the row, the median and the
    greatest of how many times as long as without a fault the records took, and the greatest's
    point.
    """
    found = []
    for one in outcomes:
        faults = [cell for cell in one.cells if cell.point != NO_FAULT]
        times = {cell.point: cell.times_as_long for cell in faults if cell.times_as_long}
        if times:
            most = max(times, key=lambda point: times[point])
            found.append((one.row, round(median(times.values()), 1), times[most], most))
    yield from sorted(found, key=lambda row: (-row[2], row[0]))


def settings(client: Client, outcomes: Sequence[Outcome]) -> Iterator[tuple[str, str, str]]:
    """Yield for each program of a client: its name, what it sets, and what came of it."""
    found = {(one.role, one.mode): one for one in outcomes if one.client == client.name}
    for role, mode in programs():
        if one := found.get((role, mode)):
            said = Semantic.AT_LEAST_ONCE if mode == TWO_MEMBERS else mode
            sets = "nothing" if mode == DEFAULT else client.sets.get(f"{role}/{said}", "")
            yield f"{role}, {mode}", sets, _summed(one).text


def write_page(
    board: Path,
    outcomes: Sequence[Outcome],
    rows: Sequence[Row],
    predictions: Sequence[Predicted],
) -> tuple[Path, ...]:
    """Write the page of a board as HTML, JSON and Markdown, and a page for each client.

    Raises:
        OSError: a file cannot be written.
    """
    board.mkdir(parents=True, exist_ok=True)
    for seed in sorted({one.seed for one in outcomes})[:1]:
        outcomes = [one for one in outcomes if one.seed == seed]
    words = {
        "outcomes": sorted(outcomes, key=lambda one: ranked(outcomes).index(_named(one))),
        "lines": overview(outcomes),
        "programs": [f"{role}, {mode}" for role, mode in programs()],
        "tables": list(tables(outcomes)),
        "partial": partial(outcomes, rows),
        "dates": _dates(outcomes),
        "versions": ", ".join(sorted({one.kafka for one in outcomes if one.kafka})),
        "recoveries": list(recoveries(outcomes)),
        "differing": list(differs(outcomes, predictions)),
        "recovery": RECOVERY,
        "anchor": anchor,
        "signs": SIGNS,
        "ran": RAN,
    }
    files = {
        f"{NAME}.html": render_template("scoreboard.html.j2", **words),
        f"{NAME}.json": _as_json(outcomes, rows),
        f"{NAME}.md": as_markdown(outcomes, rows, predictions),
    }
    for client in dict.fromkeys(row.client.name for row in rows):
        mine = [one for one in outcomes if one.client == client]
        if mine:
            of = next(row.client for row in rows if row.client.name == client)
            files[f"{client}.html"] = render_template(
                "client.html.j2",
                client=client,
                language=of.language,
                by_version=[
                    (version, list(settings(of, [one for one in mine if one.version == version])))
                    for version in dict.fromkeys(one.version for one in mine)
                ],
                worst=[
                    (one, cell)
                    for one in mine
                    for cell in one.cells
                    if cell.outcome in {"broken", "stuck"}
                ],
                anchor=anchor,
                signs=SIGNS,
                dates=_dates(mine),
            )
    for name, text in files.items():
        safe_files.write_whole(board, name, text)
    return tuple(board / name for name in files)


def _dates(outcomes: Sequence[Outcome]) -> str:
    dates = sorted({one.date for one in outcomes})
    return " to ".join(dict.fromkeys((dates[0], dates[-1]))) if dates else "never"


def _as_json(outcomes: Sequence[Outcome], rows: Sequence[Row]) -> str:
    value = {
        "schema": SCHEMA,
        "dates": _dates(outcomes),
        "planned": [row.id for row in rows],
        "partial": partial(outcomes, rows),
        "rows": [dataclasses.asdict(one) for one in outcomes],
    }
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def as_markdown(
    outcomes: Sequence[Outcome], rows: Sequence[Row], predictions: Sequence[Predicted]
) -> str:
    """Return the board as Markdown: the clients, what broke, what contradicted the predictions."""
    heads = [f"{role}, {mode}" for role, mode in programs()]
    told = [f"# Scoreboard of Kafka clients, {_dates(outcomes)}", ""]
    if missing := partial(outcomes, rows):
        told += [f"**{markdown(missing)}.**", ""]
    told += [f"| client | {' | '.join(heads)} |", f"|---|{'---|' * len(heads)}"]
    told += [
        f"| {markdown(line.name)} | {' | '.join(markdown(spot.text) for spot in line.spots)} |"
        for line in overview(outcomes)
    ]
    told += [
        "",
        "## What broke, and what was stuck",
        "",
        "| row | point | outcome |",
        "|---|---|---|",
    ]
    told += [
        f"| {markdown(one.row)} | {cell.point} | {SIGNS[cell.outcome]} {markdown(cell.reason)} |"
        for one in outcomes
        for cell in one.cells
        if cell.outcome in {"broken", "stuck"}
    ]
    told += ["", "## How long recovery takes", "", RECOVERY, ""]
    told += ["| row | median | longest | at |", "|---|---|---|---|"]
    told += [
        f"| {markdown(row)} | {usual:g} | {longest:g} | {point} |"
        for row, usual, longest, point in recoveries(outcomes)
    ]
    told += ["", "## What contradicted the predictions", ""]
    told += [f"- {markdown(line)}" for line in differs(outcomes, predictions)] or ["Nothing."]
    return "\n".join(told) + "\n"
