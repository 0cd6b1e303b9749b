"""A run of many seeds, for hours: seed after seed, resumable, on a disk that does not fill.

Each seed is a run of its own. A cell that has ended appends one line to ``seeds.jsonl``; whoever
continues runs the cells without a line. Of green cells nothing else stays, and of the others the
first :data:`~harness.soak.waves.MOST_SAVED` do. Behind each seed a line says what lostack's own
process holds, so a leak shows as a number that grows from seed to seed.
"""

from __future__ import annotations

import itertools
import json
import os
import time
from collections import Counter, defaultdict
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import psutil

from harness.judge.verdict import Kind
from harness.matrix.alone import alone_in
from harness.matrix.progress import Listening
from harness.matrix.runner import RunPlan, run
from harness.model import safe_files
from harness.model.exits import ExitCode
from harness.model.keep import Keep
from harness.model.plain import made
from harness.report.summary import counted
from harness.soak.waves import (
    RUNS,
    SoakError,
    begun,
    has_room,
    modules_of,
    parsed_line,
    tidy,
    whole_lines,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from harness.matrix.listener import Progress
    from harness.saved import CellResult

SEEDS_FILE: Final = "seeds.json"
ROWS_FILE: Final = "seeds.jsonl"
HELD_FILE: Final = "held.jsonl"
SHOWN: Final = 50
HELD: Final = ("descriptors", "threads", "processes", "resident_mb")


@dataclass(frozen=True, slots=True)
class Row:
    """The outcome of one cell. ``saved``: the folder of its history, if that stays; ``known``:
    whether the baseline names it.
    """

    cell: str
    seed: int
    kind: str
    label: str
    green: bool
    known: bool
    reason: str
    seconds: float
    saved: str | None


@dataclass(frozen=True, slots=True)
class Holds:
    """What lostack's process holds when a seed has ended. ``processes``: those that it started."""

    seed: int
    descriptors: int
    threads: int
    processes: int
    resident_mb: int


@dataclass
class Ran:
    """What has run so far."""

    rows: list[Row] = field(default_factory=list)
    held: list[Holds] = field(default_factory=list)
    """Of this command's seeds: a command that continues is another process."""
    interrupted: bool = False

    @property
    def flips(self) -> dict[str, dict[str, list[int]]]:
        """The cells whose outcome depends on the seed: by outcome, at which seeds."""
        found: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for row in self.rows:
            found[row.cell.rpartition("/")[0]][row.label].append(row.seed)
        return {cell: dict(by) for cell, by in found.items() if len(by) > 1}


@dataclass(frozen=True)
class Seeds:
    """What is asked for. ``plan``: all cells, of all seeds; ``known``: whether the baseline names a
    result; ``hours``: when no further cell begins; none: when all have run.
    """

    folder: Path
    plan: RunPlan
    known: Callable[[CellResult], bool]
    hours: float | None = None

    @property
    def asked(self) -> dict[str, object]:
        """The settings that must be the same when it continues."""
        cells = sorted({cell.id.rpartition("/")[0] for cell in self.plan.cells})
        return {
            "cells": cells,
            "seeds": [*self.plan.seeds],
            "records": self.plan.records,
            "keep": str(self.plan.keep),
        }


def run_seeds(
    asked: Seeds, progress: Progress, *, clock: Callable[[], float] = time.monotonic
) -> Ran:
    """Run the cells that have no line yet, seed by seed.

    Raises:
        SoakError: the folder has something else, or is damaged.
        UsageError: another command runs in the folder.
        Exception: whatever :func:`harness.matrix.runner.run` raises.
    """
    with alone_in(asked.folder):
        return _run_seeds(asked, progress, clock)


def _run_seeds(asked: Seeds, progress: Progress, clock: Callable[[], float]) -> Ran:
    modules = modules_of(asked.plan.systems, asked.plan.cells)
    again = begun(asked.folder, asked.asked, SEEDS_FILE, modules)
    found = Ran(read_rows(asked.folder) if again else [])
    whole_lines(asked.folder / HELD_FILE)
    until = None if asked.hours is None else clock() + 3600 * asked.hours
    stays = asked.plan.keep is Keep.ALL
    if again and not stays:
        tidy(asked.folder, found.rows)
    done = {row.cell for row in found.rows}
    left = [cell for cell in asked.plan.cells if cell.id not in done]

    def is_over() -> bool:
        return until is not None and clock() >= until

    def ended(result: CellResult) -> None:
        if result.ended:
            found.rows.append(_row(asked, result, found.rows))
            _append(asked.folder, ROWS_FILE, found.rows[-1])

    for seed, cells in itertools.groupby(sorted(left, key=lambda one: one.seed), lambda c: c.seed):
        if found.interrupted or is_over():
            break
        progress.say(f"seed {seed}")
        plan = replace(
            asked.plan,
            cells=tuple(cells),
            seeds=(seed,),
            reports=asked.folder / RUNS,
            enough=is_over,
        )
        saved = run(plan, Listening(progress, ended))
        found.interrupted = saved.info.interrupted
        if not stays:
            tidy(asked.folder, found.rows)
        found.held.append(_held(seed))
        _append(asked.folder, HELD_FILE, found.held[-1])
    return found


def read_rows(folder: Path) -> list[Row]:
    """Read the cells that have ended. A last line that a crash cut off is removed from the file.

    Raises:
        SoakError: a line before the last one is damaged.
    """
    file = folder / ROWS_FILE
    try:
        return [made(Row, parsed_line(file, line)) for line in whole_lines(file)]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise SoakError(f"{file} is damaged: {error}; start anew, without --resume") from None


def code_of(found: Ran, asked: Seeds) -> ExitCode:
    """Return the exit code, as of a single run of all these cells."""
    red = [row for row in found.rows if not row.green and not row.known]
    if found.interrupted:
        return ExitCode.INTERRUPTED
    if any(row.kind in {Kind.BROKEN, Kind.KEPT} for row in red):
        return ExitCode.BROKEN
    whole = len(found.rows) == len(asked.plan.cells)
    return ExitCode.VOID if red or not whole else ExitCode.KEPT


def as_lines(found: Ran, asked: Seeds) -> list[str]:
    """Return what a terminal shows at the end."""
    rows, planned = found.rows, len(asked.plan.cells)
    red = [row for row in rows if not row.green]
    lines: list[str] = []
    for row in red[:SHOWN]:
        lines += [f"{row.label}{' (known)' if row.known else ''}  {row.cell}: {row.reason}"]
        lines += [f"  saved: {os.path.relpath(asked.folder / row.saved)}"] if row.saved else []
    lines += _more(red)
    flips = [
        f"differs by seed: {cell}: "
        + "; ".join(f"{label} at {_named(seeds)}" for label, seeds in by.items())
        for cell, by in found.flips.items()
    ]
    lines += [*flips[:SHOWN], *_more(flips)]
    many = Counter(row.label for row in rows)
    seeds = counted(len({row.seed for row in rows}), "seed")
    whole = "" if len(rows) == planned else f"PARTIAL, {len(rows)} of {planned} cells: "
    told = ", ".join(f"{count} {label}" for label, count in many.most_common()) or "nothing ran"
    lines += [
        f"{whole}{counted(len(rows), 'cell')} of {seeds}: {told}; {len(flips)} differ by seed"
    ]
    return [*lines, *_growth(found.held)]


def as_json(found: Ran, asked: Seeds) -> dict[str, Any]:
    """Return the same as a value."""
    return {
        "planned": len(asked.plan.cells),
        "complete": len(found.rows) == len(asked.plan.cells),
        "differ_by_seed": found.flips,
        "cells": [asdict(row) for row in found.rows],
        "held": [asdict(each) for each in found.held],
    }


def _growth(held: list[Holds]) -> list[str]:
    """Say what lostack's process held behind the first and the last seed."""
    if len(held) < 2:  # noqa: PLR2004 - a growth needs two
        return []
    first, last = asdict(held[0]), asdict(held[-1])
    told = ", ".join(f"{name.replace('_', ' ')} {first[name]} and {last[name]}" for name in HELD)
    return [f"held behind seed {held[0].seed} and behind seed {held[-1].seed}: {told}"]


def _more(lines: list[Any]) -> list[str]:
    return [f"and {len(lines) - SHOWN} more: see {ROWS_FILE}"] if len(lines) > SHOWN else []


def _named(seeds: list[int]) -> str:
    some = ", ".join(map(str, sorted(seeds)[:5]))
    return f"{'seed' if len(seeds) == 1 else 'seeds'} {some}{' ...' if len(seeds) > 5 else ''}"  # noqa: PLR2004 - as above


def _row(asked: Seeds, result: CellResult, before: list[Row]) -> Row:
    verdict = result.verdict
    return Row(
        cell=result.plan.id,
        seed=result.plan.seed,
        kind=str(verdict.kind),
        label=verdict.label,
        green=verdict.green,
        known=asked.known(result),
        reason=verdict.reason,
        seconds=round(result.seconds, 3),
        saved=str(result.directory.relative_to(asked.folder))
        if not verdict.green and has_room(before)
        else None,
    )


def _held(seed: int) -> Holds:
    me = psutil.Process()
    with me.oneshot():
        return Holds(
            seed, me.num_fds(), me.num_threads(), len(me.children(recursive=True)),
            me.memory_info().rss >> 20,
        )  # fmt: skip


def _append(folder: Path, name: str, line: Row | Holds) -> None:
    safe_files.append_line(folder, name, json.dumps(asdict(line)).encode(), durable=True)
