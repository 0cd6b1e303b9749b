"""``make bench``: measures part by part, prints, and keeps the figures with the machine named in
``reports/bench.json``.
"""

from __future__ import annotations

import argparse
import datetime as dt
import importlib.metadata
import json
import os
import pkgutil
import platform
from pathlib import Path
from typing import Any

import psutil

from harness.model.safe_files import write_whole

PARTS = {
    "wire": "tests.bench.speed",
    "proxy": "tests.bench.proxy",
    "typed": "tests.bench.typed",
    "tls": "tests.bench.secured",
    "stomp": "tests.bench.stomp",
    "cells": "tests.bench.cells",
    "cost": "tests.bench.cost",
    "page": "tests.bench.page",
    "fuzz": "tests.bench.fuzz",
    "asks": "tests.bench.speed:asks",
    "matrix": "tests.bench.rates:matrix",
    "check": "tests.bench.rates:checked",
    "sweep": "tests.bench.rates:swept",
    "sweep-declared": "tests.bench.rates:swept_declared",
    "sweep-nats": "tests.bench.rates:swept_nats",
}
"""Each names a module with ``measure(rounds=n)``, or another such function behind a colon, which
returns figures (plain values). The audit's take hours, and are measured by ``python -m
tests.bench.audit``.
"""
RESULTS = Path("reports/bench.json")


def main() -> None:
    """Measure the parts asked for; those of an earlier run that are not measured again stay."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--part", action="append", choices=PARTS, help="only this one (may be given again)"
    )
    options = parser.parse_args()
    known: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for part in options.part or PARTS:
        before = os.getloadavg()[0]
        figures = pkgutil.resolve_name(_function(part))(rounds=options.rounds)
        known[part] = {
            "measured": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
            "machine": _machine(),
            "load before": round(before, 2),
            "load after": round(os.getloadavg()[0], 2),
            **figures,
        }
        RESULTS.parent.mkdir(exist_ok=True)
        write_whole(RESULTS.parent, RESULTS.name, json.dumps(known, indent=1) + "\n")
    print(json.dumps(known, indent=1))  # noqa: T201 - what a benchmark is for


def _function(part: str) -> str:
    named = PARTS[part]
    return named if ":" in named else f"{named}:measure"


def _machine() -> dict[str, str]:
    memory = psutil.virtual_memory().total / (1 << 30)
    versions = {
        name: importlib.metadata.version(name)
        for name in ("lostack", "kafka-python", "confluent-kafka")
    }
    return {
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "memory": f"{memory:.0f} GiB",
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        **versions,
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")),
        platform.machine(),
    )


if __name__ == "__main__":
    main()
