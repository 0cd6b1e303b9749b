"""Breaks over runs: new, known and vanished ones; and ``history.jsonl`` beside the runs.

A baseline file names breaks that are known, in TOML::

    [[known]]
    cell = "kafka/kafka-python/plain/some-scenario/exactly-once/process"
    outcome = "broken"
    because = "where it is tracked, and since which version"
    reason = 'consumer-1 had ended'

``cell`` is a cell's id without its seed, or a glob over such ids. ``reason``, a regular expression
that the verdict's reason must fit, keeps another break of the same cell from being taken for this
one; it may be left out. A known break does not fail a run and is never hidden; one that was run and
came out green, in every seed, has vanished, and is told.
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.model import safe_files
from harness.model.exits import ExitCode
from harness.model.failures import why_damaged
from harness.report.commit import commit_of
from harness.report.summary import GREEN, Outcome, outcome, summarise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.saved import CellResult, SavedRun

HISTORY_FILE = "history.jsonl"
_NEVER_KNOWN = frozenset({Outcome.KEPT, Outcome.CONVICTED, Outcome.VOID})
"""Outcomes that a baseline cannot excuse: a void run proves nothing, not even that a break is still
there.
"""


class BaselineError(Exception):
    """A baseline file cannot be read; the message is one line that says what to do."""


@dataclass(frozen=True, slots=True)
class KnownBreak:
    """A known break: a pattern of cells, their outcome, why it is known, and a pattern of the
    verdict's reason.
    """

    cell: str
    outcome: Outcome
    because: str
    reason: str = ""

    def explains(self, result: CellResult) -> bool:
        """Say whether the cell has this outcome, for this reason."""
        return self.outcome is outcome(result.verdict) and bool(
            re.search(self.reason, result.verdict.reason)
        )

    def means(self, result: CellResult) -> bool:
        """Say whether the cell matches the pattern, whatever its seed."""
        return fnmatch.fnmatchcase(seedless(result), self.cell)


@dataclass(frozen=True)
class BreakComparison:
    """The red cells of a run, compared with a baseline. ``vanished``: known breaks whose cells were
    run and are green.
    """

    new: tuple[CellResult, ...]
    known: tuple[tuple[CellResult, KnownBreak], ...]
    vanished: tuple[KnownBreak, ...]

    @property
    def sentence(self) -> str | None:
        """Say how many breaks are known and new, and which have vanished; ``None`` if there are
        none.
        """
        parts = []
        if self.known:
            parts.append(f"{len(self.known)} known breaks, {len(self.new)} new")
        parts += [
            f"vanished: {known.cell} was {known.outcome}, and is green; remove it from the baseline"
            for known in self.vanished
        ]
        return "; ".join(parts) or None


def seedless(result: CellResult) -> str:
    """Return a cell's id without its seed."""
    return result.plan.id.rpartition("/")[0]


def read_baseline(file: Path) -> tuple[KnownBreak, ...]:
    """Read a baseline file.

    Raises:
        BaselineError: the file cannot be read, or is no baseline.
    """
    try:
        data = safe_files.parse_toml(safe_files.read_named(file).decode())
        if odd := sorted(set(data) - {"known"}):
            raise BaselineError(f"{file}: unknown name {odd[0]}: a baseline has only [[known]]")
        known = data.get("known", [])
        if not isinstance(known, list) or not all(isinstance(entry, dict) for entry in known):
            raise BaselineError(
                f"{file}: write [[known]], once for each known break, with cell, outcome and "
                "because"
            )
        return tuple(_known(file, entry) for entry in known)
    except OSError as error:
        raise BaselineError(
            f"cannot read {file}: {error.strerror}; give another file with --baseline"
        ) from error
    except (ValueError, TypeError) as error:
        raise BaselineError(f"{file} is no baseline: {why_damaged(error)}") from error


def _known(file: Path, entry: dict[str, object]) -> KnownBreak:
    if missing := sorted({"cell", "outcome", "because"} ^ (set(entry) - {"reason"})):
        raise BaselineError(
            f"{file}: a known break needs cell, outcome and because, and may have reason: "
            f"correct {missing[0]}"
        )
    outcomes = sorted(set(Outcome) - _NEVER_KNOWN)
    if entry["outcome"] not in outcomes:
        raise BaselineError(
            f"{file}: the outcome of a known break is one of {', '.join(outcomes)}, not "
            f"{entry['outcome']!r}"
        )
    if not str(entry["because"]).strip():
        raise BaselineError(
            f"{file}: because is empty: say why {entry['cell']} is known to be {entry['outcome']}"
        )
    try:
        re.compile(str(entry.get("reason", "")))
    except re.error as error:
        raise BaselineError(
            f"{file}: the reason of {entry['cell']} is no regular expression: {error}"
        ) from error
    return KnownBreak(
        str(entry["cell"]),
        Outcome(str(entry["outcome"])),
        str(entry["because"]),
        str(entry.get("reason", "")),
    )


def breaks_of(run: SavedRun, baseline: tuple[KnownBreak, ...]) -> BreakComparison:
    """Compare a run's red cells with a baseline. A known cell that is red in another way is a new
    break.
    """
    new, known = [], []
    for result in run.results:
        found = outcome(result.verdict)
        if found in GREEN:
            continue
        entry = next((one for one in baseline if one.means(result) and one.explains(result)), None)
        if entry is None:
            new.append(result)
        else:
            known.append((result, entry))
    seen = {id(entry) for _, entry in known}
    vanished = []
    for entry in baseline:
        met = [result for result in run.results if entry.means(result)]
        if (
            met
            and id(entry) not in seen
            and all(outcome(result.verdict) in GREEN for result in met)
        ):
            vanished.append(entry)
    return BreakComparison(tuple(new), tuple(known), tuple(vanished))


def exit_code(run: SavedRun, breaks: BreakComparison) -> ExitCode:
    """Return the exit code of a run without its known breaks."""
    summary = summarise(run)
    if summary.interrupted or summary.partial or not breaks.known:
        return summary.exit_code
    reds = {outcome(result.verdict) for result in breaks.new}
    if reds & {Outcome.BROKEN, Outcome.NOT_CONVICTED}:
        return ExitCode.BROKEN
    return ExitCode.VOID if reds or summary.untried else ExitCode.KEPT


def _figures(run: SavedRun) -> dict[str, dict[str, float | None]]:
    found: dict[str, list[CellResult]] = {}
    for result in run.results:
        found.setdefault(seedless(result), []).append(result)
    return {
        name: {
            "lost": _total(results, "lost"),
            "duplicated": _total(results, "duplicated"),
            "seconds": round(sum(result.seconds for result in results) / len(results), 3),
        }
        for name, results in sorted(found.items())
    }


def _total(results: Sequence[CellResult], count: str) -> int | None:
    """Add up a count over seeds; ``None`` if no seed could be read."""
    readable = [
        result.judgement.account.counts
        for result in results
        if result.judgement.account.counts["offered"]
    ]
    return sum(counts[count] for counts in readable) if readable else None


def append_history(run: SavedRun, breaks: BreakComparison) -> str | None:
    """Append one line about a run to ``history.jsonl`` beside it. Return a warning if that cannot
    be done.

    ``cells``: for each cell without its seed, how many seeds had each outcome. ``figures``: for
    each cell, lost and duplicated over all its seeds (null if none of their histories can be read),
    and the seconds of one seed.
    """
    cells: dict[str, Counter[str]] = {}
    for result in run.results:
        cells.setdefault(seedless(result), Counter())[str(outcome(result.verdict))] += 1
    line = {
        "run": run.info.id,
        "started": run.info.started,
        "seeds": list(run.info.seeds),
        "complete": run.info.complete,
        "seconds": run.info.seconds,
        "commit": commit_of(os.environ, Path.cwd()),
        "versions": run.info.versions,
        "new": [result.plan.id for result in breaks.new],
        "known": [result.plan.id for result, _ in breaks.known],
        "vanished": [known.cell for known in breaks.vanished],
        "cells": {name: dict(sorted(counts.items())) for name, counts in sorted(cells.items())},
        "figures": _figures(run),
    }
    try:
        safe_files.append_line(
            run.directory.parent, HISTORY_FILE, json.dumps(line, separators=(",", ":")).encode()
        )
    except OSError as error:
        return f"cannot append this run to {HISTORY_FILE}: {error.strerror}"
    return None
