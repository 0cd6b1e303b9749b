"""The comparison with random kills: the same pipeline, load and judge, and a process of it killed
at a time drawn at random.

``python -m tests.bench.random_kills SWEEP --runs 100``: SWEEP is the folder of a sweep that was
run. What it was asked for is run again so often, each with one random kill of one of its programs
between the first and the last move of a record in runs without a fault; hits of both are told per
100 runs. What is killed when it has done its work already is a run without a hit.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from harness.judge.verdict import Kind
from harness.matrix.progress import make_progress
from harness.model import events as kinds
from harness.model.history import HISTORY, read_history
from harness.model.safe_files import write_whole
from harness.model.scenario import Evidence, Role
from harness.sweep.cells import with_fault
from harness.sweep.pipelines import sweep_of
from harness.sweep.planning import RESULT_FILE
from harness.sweep.settings import BESIDE, SweepSettings
from harness.sweep.signature import signature_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from harness.controls import Controls
    from harness.matrix.listener import Progress
    from harness.model.cell import Cell
    from harness.saved import CellResult
    from harness.sweep.sweeping import Sweep

NAME = "random"
FOUND = frozenset({Kind.BROKEN, Kind.STUCK})
"""What is a hit."""
RESULT = "random.json"
MOVES = kinds.Taken, kinds.Delivered, kinds.Sent, kinds.Fetched
"""What shows that a record moves."""


@dataclass(frozen=True, slots=True)
class KillAtRandom:
    """A process is killed so many seconds after the load has begun, and started again."""

    id: ClassVar[str] = "kill-at-random"

    role: Role
    after_s: float

    def evidence(self) -> Evidence:
        """It died by SIGKILL; nothing says where."""
        return Evidence("none", killed=(self.role,))

    def arm(self, controls: Controls) -> None:
        """There is no trigger."""
        controls.say("armed")

    def inject(self, controls: Controls) -> None:
        """Wait, kill, start again. The wait is the fault itself."""
        time.sleep(self.after_s)
        victim = controls.target(self.role)
        if victim.stopped_itself():  # type: ignore[attr-defined]  # so have all programs
            return  # nobody starts a program again that has done its work
        controls.say("fired", record=None, node=victim.name)
        victim.kill()
        controls.say("applied", node=victim.name)
        victim.restart()
        controls.say("healed")


def drawn(
    roles: Sequence[Role], within_s: tuple[float, float], runs: int, seed: int
) -> list[KillAtRandom]:
    """Return so many kills, each of any role at any time between two."""
    dice = random.Random(f"{NAME} {seed}")
    return [
        KillAtRandom(dice.choice(roles), round(dice.uniform(*within_s), 3)) for _ in range(runs)
    ]


def window(dry: Iterable[CellResult]) -> tuple[list[Role], tuple[float, float]]:
    """Return which programs runs without a fault have on the wire, and between which seconds of the
    load records moved (medians).

    A fault proves something only where other records move before and behind it.
    """
    roles: dict[Role, None] = {}
    began, ended = [], []
    for result in dry:
        history = read_history(result.directory / HISTORY)
        roles |= {
            Role(frame.role): None
            for frame in history.of(kinds.Frame)
            if frame.role not in {None, Role.BROKER}
        }
        marks = {event.phase: event.t for event in history.of(kinds.Cell)}
        moves = [(event.t - marks[kinds.CellPhase.LOADED]) / 1e9 for event in history.of(*MOVES)]
        began.append(min(moves))
        ended.append(max(moves))
    within_s = max(0.0, statistics.median(began)), max(0.0, statistics.median(ended))
    return [
        role for role in roles if role in {Role.PRODUCER, Role.CONSUMER, Role.PROCESSOR}
    ], within_s


def cells_of(sweep: Sweep, kills: Sequence[KillAtRandom]) -> list[Cell]:
    """Return a cell for each kill."""
    told = "The {0.role} is killed {0.after_s} s after the load has begun."
    return [
        with_fault(sweep.base, f"{NAME}-{number}", kill, told.format(kill), 1)
        for number, kill in enumerate(kills, 1)
    ]


def hits(results: Iterable[CellResult]) -> dict[str, int]:
    """Return how often each finding was seen that a kill has caused, by its signature in words."""
    found: dict[str, int] = {}
    for result in results:
        if result.verdict.kind in FOUND and result.verdict.by_fault:
            words = signature_of(
                result, read_history(result.directory / HISTORY, result.plan.id)
            ).text()
            found[words] = found.get(words, 0) + 1
    return found


def swept(directory: Path) -> dict[str, Any]:
    """Return what a sweep came to: runs, hits, and how often each finding was hit."""
    told = json.loads((directory / RESULT_FILE).read_text(encoding="utf-8"))
    hit = sum(
        len(each["points"]) for each in told["findings"]
    )  # a point without a proof is of no finding
    return {"runs": len(told["outcomes"]), "hits": hit, "findings": len(told["findings"])}


def measure(sweep: Sweep, runs: int, progress: Progress) -> dict[str, Any]:
    """Run so many random kills of what a sweep was asked for, those that were run before among
    them, and return both sides.
    """
    sweep.dry_run(progress)
    roles, within_s = window(sweep.saved.dry_runs())
    cells = cells_of(sweep, drawn(roles, within_s, runs, sweep.settings.seed))
    done = {result.plan.scenario for result in _ran(sweep)}
    sweep.run_cells([cell for cell in cells if cell.scenario.id not in done], progress)
    ran = _ran(sweep)
    found = hits(ran)
    return {
        "what": sweep.settings.what,
        "like": sweep.settings.like,
        "client": sweep.base.client,
        "seed": sweep.settings.seed,
        "random": {
            "runs": len(ran),
            "hits": sum(found.values()),
            "findings": len(found),
            "within s": [round(one, 2) for one in within_s],
            "void": sum(one.verdict.kind is Kind.VOID for one in ran),
            "found": found,
        },
        "sweep": swept(sweep.directory) if (sweep.directory / RESULT_FILE).exists() else None,
    }


def _ran(sweep: Sweep) -> list[CellResult]:
    return [
        one
        for one in sweep.saved.results(BESIDE)
        if one.ended and one.plan.scenario.startswith(f"{NAME}-")
    ]


def _per_100(side: dict[str, Any]) -> str:
    void = f", {side['void']} void" if side.get("void") else ""
    return f"{100 * side['hits'] / side['runs']:.0f} ({side['hits']} of {side['runs']}{void})"


def line_of(told: dict[str, Any]) -> str:
    """Return what is told of both sides, as a row of Markdown."""
    per = [
        _per_100(one) if one and one["runs"] else "none run"
        for one in (told["sweep"], told["random"])
    ]
    what = f"{told['what']} {told['like']}".strip()
    return f"| {what} | {told['client']} | {per[0]} | {per[1]} |"


def main() -> None:
    """Measure, print, keep it beside the sweep."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.random_kills", description=__doc__)
    parser.add_argument("sweep", type=Path)
    parser.add_argument("--runs", type=int, default=100)
    options = parser.parse_args()
    sweep = sweep_of(SweepSettings.load(options.sweep), options.sweep)
    try:
        with make_progress(sys.stdout) as progress:
            told = measure(sweep, options.runs, progress)
    finally:
        if (close := getattr(sweep.system, "close", None)) is not None:
            close()
    write_whole(options.sweep, RESULT, json.dumps(told, indent=1) + "\n")
    print(  # noqa: T201
        "| what | client | sweep: hits per 100 runs | random kills: hits per 100 runs "
        "|\n|---|---|---|---|"
    )
    print(line_of(told))  # noqa: T201
    sys.exit(os.EX_OK)


if __name__ == "__main__":
    main()
