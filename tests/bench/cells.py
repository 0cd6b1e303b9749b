"""The harness itself: a broker's death and return, one cell alone, and the plain matrix with its
seconds by phase.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import registry
from harness.matrix.runner import RunPlan, run
from harness.matrix.selection import select
from harness.model.scenario import Deployment
from harness.systems.kafka.system import KafkaSystem
from tests.planted.lies import Silent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.saved import SavedRun

CELL = "plain/ack-lost/at-least-once"
JOBS = 3


def measure(rounds: int) -> dict[str, Any]:
    """Return seconds: of a broker's return, of one cell alone, of the plain matrix and the
    network's.
    """
    system = KafkaSystem()
    system.prepare(print)
    found: dict[str, Any] = {"broker SIGKILL to ack, s": _spread(_returns(system, rounds))}
    with tempfile.TemporaryDirectory() as reports:
        alone = [_run(system, Path(reports), [CELL]) for _ in range(rounds)]
        found["one cell alone, s"] = _spread([saved.results[0].seconds for saved in alone])
        found["one cell alone, s by phase"] = _phases(alone[-1])
        for group in ("plain", "network"):
            saved = _run(system, Path(reports), (), group)
            seconds = saved.info.seconds
            found[f"group {group}"] = {
                "cells": len(saved.results),
                "seconds": round(seconds, 1),
                "seconds a cell": round(seconds / len(saved.results), 2),
                "deploy, s": saved.info.phases,
                "cell seconds by phase": _phases(saved),
            }
    return found


def _returns(system: KafkaSystem, times: int) -> list[float]:
    """Kill and restart one broker several times."""
    with tempfile.TemporaryDirectory() as directory:
        deployed = system.deploy(Deployment.OWN, Path(directory))
        try:
            found = []
            for _ in range(times):
                since = time.monotonic()
                deployed.transport.kill_broker()
                deployed.transport.restart_broker()
                found.append(time.monotonic() - since)
            return found
        finally:
            deployed.close()


def _run(
    system: KafkaSystem, reports: Path, only: Sequence[str], group: str | None = None
) -> SavedRun:
    scenarios = [scenario for scenario in registry.scenarios() if group in (None, scenario.group)]
    chosen = select(scenarios, only=only)
    return run(
        RunPlan(
            (system,),
            chosen.cells,
            chosen.not_applicable,
            reports,
            JOBS,
            "bench",
            chosen.seeds,
            chosen.records,
        ),
        Silent(),
    )


def _phases(saved: SavedRun) -> dict[str, float]:
    names = dict.fromkeys(name for result in saved.results for name in result.phases)
    return {
        name: round(sum(result.phases.get(name, 0.0) for result in saved.results), 1)
        for name in names
    }


def _spread(seconds: list[float]) -> dict[str, float]:
    return {
        "min": round(min(seconds), 2),
        "median": round(statistics.median(seconds), 2),
        "max": round(max(seconds), 2),
    }
