"""Seconds of a broker's death and return, of one cell alone, of the plain matrix, and of a large page; medians of rounds."""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from harness import registry
from harness.core.scenario import Deployment
from harness.runner import RunPlan, run
from harness.saved import write_whole
from harness.selection import select
from tests.bench import page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.core.cell import Cell
    from harness.interfaces import System
    from harness.saved import CellResult, SavedRun

CELL = "plain/ack-lost/at-least-once"


class _Silent:
    """Progress that nobody watches."""

    def say(self, text: str) -> None:
        """Ignore it."""

    def planned(self, cells: Sequence[Cell]) -> None:
        """Ignore it."""

    def began(self, cell: Cell) -> None:
        """Ignore it."""

    def ended(self, result: CellResult) -> None:
        """Ignore it."""


def main() -> None:
    """Measure, print, and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    system = registry.system("kafka")
    system.prepare(print)
    figures: dict[str, object] = {"rounds": rounds}
    figures["broker SIGKILL to ack, s"] = _spread(_returns(system, 2 * rounds))
    with tempfile.TemporaryDirectory() as reports:
        alone = [_run(system, [CELL], Path(reports)) for _ in range(rounds)]
        figures["one cell alone, s"] = _spread([saved.results[0].seconds for saved in alone])
        matrix = [_run(system, ["plain"], Path(reports), group="plain") for _ in range(rounds)]
        figures["plain matrix, s"] = _spread([saved.info.seconds for saved in matrix])
        figures["plain matrix, cells"] = len(matrix[0].results)
        figures["plain matrix, cell seconds by phase"] = _phases(matrix[-1])
        figures["machine"] = matrix[0].info.machine
        figures["versions"] = matrix[0].info.versions
    figures["page"] = page.measure(rounds=rounds)
    text = json.dumps(figures, indent=1)
    Path("reports").mkdir(exist_ok=True)
    write_whole(Path("reports/bench.json"), text)
    print(text)  # noqa: T201 - what a benchmark is for


def _returns(system: System, times: int) -> list[float]:
    """Kill and restart one broker several times."""
    with tempfile.TemporaryDirectory() as directory:
        deployed = system.deploy(Deployment.OWN, Path(directory))
        try:
            return [_return(deployed) for _ in range(times)]
        finally:
            deployed.close()


def _return(deployed: object) -> float:
    since = time.monotonic()
    deployed.kill_broker()  # type: ignore[attr-defined]
    deployed.restart_broker()  # type: ignore[attr-defined]
    return time.monotonic() - since


def _run(system: System, only: list[str], reports: Path, group: str | None = None) -> SavedRun:
    scenarios = [scenario for scenario in registry.scenarios() if group in (None, scenario.group)]
    chosen = select(scenarios, only=only)
    plan = RunPlan((system,), chosen.cells, chosen.not_applicable, reports, 3, "bench", chosen.seeds, chosen.records)
    return run(plan, _Silent())


def _phases(saved: SavedRun) -> dict[str, float]:
    names = dict.fromkeys(name for result in saved.results for name in result.phases)
    return {name: round(sum(result.phases.get(name, 0.0) for result in saved.results), 1) for name in names}


def _spread(seconds: list[float]) -> dict[str, float]:
    return {"min": round(min(seconds), 2), "median": round(statistics.median(seconds), 2), "max": round(max(seconds), 2)}


if __name__ == "__main__":
    main()
