"""What a user waits for: commands as they are typed, each in a folder of its own.

A sweep's rate is of the time in which points ran, the starts and ends of brokers among it, without
its dry runs. Processor seconds are of all processes that the command has waited for.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from harness.model.exits import ExitCode
from harness.saved import CELLS, RUN_FILE, RunInfo
from harness.sweep.settings import POINTS

ROOT = Path(__file__).parents[2]
ORDERS = str(ROOT / "examples" / "orders" / "pipeline.toml")
MINUTES = 2.5
"""How long points begin in a sweep. Short ones are of its first points alone, which cost less."""
A_RUN = "2*"
"""The folders of runs, and not ``latest``, which is one of them once more."""
RAN = frozenset({ExitCode.KEPT, ExitCode.BROKEN, ExitCode.VOID})
"""The exit codes of a sweep that ran, also one that is PARTIAL, or has findings."""


def swept(rounds: int) -> dict[str, Any]:
    """Sweep a pipeline of lostack's own on Kafka."""
    del rounds
    return _swept("--only", "plain/exactly-once")


def swept_declared(rounds: int) -> dict[str, Any]:
    """Sweep a user's pipeline of two Python programs."""
    del rounds
    return _swept(ORDERS)


def swept_nats(rounds: int) -> dict[str, Any]:
    """Sweep the NATS engine's pipeline."""
    del rounds
    return _swept("--system", "nats", "--only", "stream/exactly-once")


def checked(rounds: int) -> dict[str, Any]:
    """Check the short list of ``examples/orders``, all jars there."""
    return _timed(rounds, "check", ORDERS)


def matrix(rounds: int) -> dict[str, Any]:
    """Run Kafka's main cells."""
    return _timed(rounds, "run", "--system", "kafka")


def ran(folder: Path) -> tuple[int, float]:
    """Return how many points a sweep has run, and in how many seconds."""
    runs = [each.parent for each in folder.glob(f"reports/sweeps/*/{POINTS}/{A_RUN}/{RUN_FILE}")]
    points = sum(len(list((each / CELLS).iterdir())) for each in runs)
    return points, sum(RunInfo.load(each).seconds for each in runs)


def _swept(*what: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        _, cpu_s, code = _lostack(Path(folder), "sweep", *what, "--minutes", str(MINUTES))
        points, seconds = ran(Path(folder))
    if not points or code not in RAN:
        raise RuntimeError(f"lostack sweep {' '.join(what)} ended with {code}, {points} points ran")
    return {
        "command": " ".join(("lostack sweep", *map(_named, what))),
        "points": points,
        "seconds": round(seconds, 1),
        "points an hour": round(3600 * points / seconds),
        "processor seconds, dry runs among them": round(cpu_s, 1),
        "exit code": code,
    }


def _timed(rounds: int, *command: str) -> dict[str, Any]:
    seconds, cpu, cells = [], [], []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            wall_s, cpu_s, code = _lostack(Path(folder), *command)
            cells.append(sum(1 for _ in Path(folder).glob(f"reports/{A_RUN}/{CELLS}/*")))
        if code != ExitCode.KEPT:
            raise RuntimeError(f"lostack {' '.join(command)} ended with {code}")
        seconds.append(wall_s)
        cpu.append(cpu_s)
    return {
        "command": " ".join(("lostack", *map(_named, command))),
        "cells": cells,
        "seconds": [round(each, 1) for each in seconds],
        "seconds, median": round(statistics.median(seconds), 1),
        "processor seconds, median": round(statistics.median(cpu), 1),
    }


def _lostack(folder: Path, *command: str) -> tuple[float, float, int]:
    """Run a command; return its seconds, its processor seconds, and its exit code."""
    before, since = _children_s(), time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "harness.cli", *command],
        cwd=folder,
        stdout=sys.stderr,
        check=False,
    )
    return time.monotonic() - since, _children_s() - before, done.returncode


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _named(word: str) -> str:
    """Name a file as from the checkout."""
    return str(Path(word).relative_to(ROOT)) if word.startswith(str(ROOT)) else word
