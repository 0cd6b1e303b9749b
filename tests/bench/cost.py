"""What a semantic costs without a fault, per client, as ratios to at-most-once: throughput, and
latency below the limit.

The pipeline is the plain one through the wire. Throughput: as fast as it goes, one record per send,
poll and commit (as in the table of the failure points), and a hundred; of the producer alone (until
the last ack), and of the whole (until the last record is in the consumer's hands). Latency: one
record every ``PACE_MS``, from its being taken from the source until it is in the consumer's hands;
at full speed that would be the length of a queue.
"""

from __future__ import annotations

import statistics
import tempfile
from dataclasses import replace
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.matrix.runner import RunPlan, run
from harness.model import events as kinds
from harness.model.cell import Cell
from harness.model.history import HISTORY, read_history
from harness.model.scenario import Predicted, Scenario
from harness.stages.clients import ADAPTERS
from harness.stages.settings import Settings, recipe
from harness.systems.kafka.system import KafkaSystem
from scenarios.plain import NONE
from tests.planted.lies import Silent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.saved import CellResult

FULL_SPEED = {1: 300, 100: 6000}
"""Records of a run at full speed, by unit."""
PACED = 60
PACE_MS = 100
LINGER_MS = 2
"""A unit is handed over at once: to wait longer for it would be measured instead of
the semantic.
"""


def measure(rounds: int) -> dict[str, Any]:
    """Return medians over ``rounds`` runs: ``{measure: {client: {semantic: {figure: value, its
    ratio to the first}}}}``.
    """
    groups: dict[tuple[str, str, str], list[Cell]] = {}
    for name, scenario, records in _measures():
        for client in ADAPTERS:
            for semantic in scenario.expect:
                every = (
                    Cell(scenario, semantic, "kafka", client, "process", seed, records)
                    for seed in count(1)
                )
                even = (
                    cell for cell in every if scenario.pace_ms or not cell.load().jitter_ms[1]
                )  # no pauses of the source
                groups[name, client, str(semantic)] = list(islice(even, rounds))
    cells = tuple(cell for group in groups.values() for cell in group)
    with tempfile.TemporaryDirectory() as reports:
        seeds = tuple({cell.seed for cell in cells})
        plan = RunPlan(
            (KafkaSystem(),), cells, (), Path(reports), 1, "bench", seeds, max(FULL_SPEED.values())
        )
        results = {result.plan.id: result for result in run(plan, Silent()).results}
        seen = {
            key: _median([_figures(results[cell.id], key[0]) for cell in group])
            for key, group in groups.items()
        }
    found: dict[str, Any] = {}
    for (name, client, named), figures in seen.items():
        mine = found.setdefault(name, {}).setdefault(client, {})
        cheapest = next(iter(mine.values()), figures)
        mine[named] = figures | {
            f"{each}, ratio": round(value / cheapest[each], 2) for each, value in figures.items()
        }
    return found


def _measures() -> Iterator[tuple[str, Scenario, int]]:
    for unit, records in FULL_SPEED.items():
        yield f"full speed, {unit} a unit", _scenario(f"cost-{unit}", unit), records
    yield f"one every {PACE_MS} ms", replace(_scenario("cost-paced", 1), pace_ms=PACE_MS), PACED


def _scenario(name: str, unit: int) -> Scenario:
    expect = {
        semantic: Predicted(settings=_in_units(recipe(NONE.pipeline, semantic), unit))
        for semantic in NONE.expect
    }
    return replace(NONE, id=name, expect=expect)


def _in_units(settings: Settings, unit: int) -> Settings:
    producer = replace(settings.producer, unit=unit, linger_ms=LINGER_MS)
    return replace(settings, producer=producer, consumer=replace(settings.consumer, unit=unit))


def _figures(result: CellResult, name: str) -> dict[str, float]:
    """Return records a second, or the latency of the middle and of the slowest hundredth in ms.
    Raises where a cell failed.
    """
    if not result.verdict.green:
        raise RuntimeError(f"{result.plan.id}: {result.verdict.reason}")
    history = read_history(result.directory / HISTORY)
    taken = {event.record: event.t for event in history.of(kinds.Taken)}
    acked = {event.record: event.t for event in history.of(kinds.Acked)}
    arrived = {event.record: event.t for event in history.of(kinds.Delivered)}
    first = min(taken.values())
    if "speed" in name:
        return {
            "produced/s": len(taken) / (max(acked.values()) - first) * 1e9,
            "delivered/s": len(taken) / (max(arrived.values()) - first) * 1e9,
        }
    waits = sorted((arrived[record] - t) / 1e6 for record, t in taken.items())
    return {"p50, ms": waits[len(waits) // 2], "p99, ms": waits[len(waits) * 99 // 100]}


def _median(runs: list[dict[str, float]]) -> dict[str, float]:
    return {name: round(statistics.median(run[name] for run in runs), 1) for name in runs[0]}
