"""What a semantic costs: records a second and end-to-end latency without a fault, per client, as ratios to at-most-once.

The pipeline is the plain one through the wire; from a record's being taken from the source until it is in the consumer's
hands. Two units: one record per send, poll and commit, as in the table of the failure points, and a hundred.
"""

from __future__ import annotations

import statistics
import tempfile
from dataclasses import replace
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.core import events as kinds
from harness.core.cell import Cell
from harness.core.history import read_history
from harness.core.scenario import Predicted
from harness.core.settings import Settings, recipe
from harness.programs.clients import ADAPTERS
from harness.runner import RunPlan, run
from harness.saved import HISTORY
from harness.systems.kafka.system import KafkaSystem
from scenarios.plain import NONE
from tests.bench.cells import _Silent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.core.semantics import Semantic
    from harness.saved import CellResult

RECORDS = {1: 300, 100: 6000}
"""Records of a run, by unit."""


def measure(rounds: int) -> dict[str, Any]:
    """Return medians over ``rounds`` runs: ``{unit: {client: {semantic: {records/s, latency in ms, ratios}}}}``."""
    system = KafkaSystem()
    cells = tuple(_cells(rounds))
    with tempfile.TemporaryDirectory() as reports:
        plan = RunPlan(
            (system,), cells, (), Path(reports), 1, "bench", tuple({cell.seed for cell in cells}), max(RECORDS.values())
        )
        seen = {result.plan.id: _figures(result) for result in run(plan, _Silent()).results}
    found: dict[str, Any] = {}
    for unit in RECORDS:
        for client in ADAPTERS:
            mine = {semantic: _median([seen[cell.id] for cell in cells if _is(cell, unit, client, semantic)])
                    for semantic in NONE.expect}  # fmt: skip
            cheapest = mine[next(iter(mine))]
            found.setdefault(f"records a unit: {unit}", {})[client] = {
                str(semantic): figures | {f"{name}, ratio": round(value / cheapest[name], 2) for name, value in figures.items()}
                for semantic, figures in mine.items()
            }
    return found


def _is(cell: Cell, unit: int, client: str, semantic: Semantic) -> bool:
    return (cell.settings.producer.unit, cell.client, cell.semantic) == (unit, client, semantic)


def _cells(rounds: int) -> Iterator[Cell]:
    for unit, records in RECORDS.items():
        expect = {semantic: Predicted(settings=_in_units(recipe(NONE.pipeline, semantic), unit)) for semantic in NONE.expect}
        scenario = replace(NONE, id=f"cost-{unit}", expect=expect)
        for client in ADAPTERS:
            for semantic in expect:
                every = (Cell(scenario, semantic, "kafka", client, "process", seed, records) for seed in count(1))
                yield from islice((cell for cell in every if not cell.load().jitter_ms[1]), rounds)  # no pauses of the source


def _in_units(settings: Settings, unit: int) -> Settings:
    producer = replace(settings.producer, unit=unit)
    return replace(settings, producer=producer, consumer=replace(settings.consumer, unit=unit))


def _figures(result: CellResult) -> dict[str, float]:
    """Return records a second and the latency of the middle and of the slowest hundredth, in ms. Raises where a cell failed."""
    if not result.verdict.green:
        raise RuntimeError(f"{result.plan.id}: {result.verdict.reason}")
    history = read_history(result.directory / HISTORY)
    taken = {event["record"]: event["t"] for event in history.of(kinds.TAKEN)}
    arrived = {event["record"]: event["t"] for event in history.of(kinds.DELIVERED)}
    waits = sorted((arrived[record] - t) / 1e6 for record, t in taken.items())
    seconds = (max(arrived.values()) - min(taken.values())) / 1e9
    return {
        "records/s": len(taken) / seconds,
        "latency p50, ms": waits[len(waits) // 2],
        "latency p99, ms": waits[len(waits) * 99 // 100],
    }


def _median(runs: list[dict[str, float]]) -> dict[str, float]:
    return {name: round(statistics.median(run[name] for run in runs), 1) for name in runs[0]}
