"""What Flink declares of itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.interfaces import System
from harness.model.semantics import Semantic
from harness.systems.flink.abilities import ABILITIES

if TYPE_CHECKING:
    from harness.model.cell import Cell
    from harness.model.scenario import Scenario


TOO_NEW: Final = "flink-connector-kafka==5.0.0+4.3.0"
"""A connector with a kafka-clients that is newer than the one that it was made with."""


def runs(scenario: Scenario) -> bool:
    """Say whether a scenario's pipeline is a job of it, on one broker."""
    return scenario.pipeline.system == SYSTEM.name and not scenario.deployment.clustered


def lacks(cell: Cell) -> str | None:
    """Say what is not tried on Flink 1, which is here for what its connectors get wrong, and which client cannot commit."""
    if cell.client == TOO_NEW and cell.semantic is Semantic.EXACTLY_ONCE:
        return (
            "connector 5.0.0 calls TransactionalRequestResult.await() at each checkpoint, which kafka-clients 4.3.0 lacks: "
            "the job fails, and restarts, for ever"
        )
    if "==" not in cell.system or cell.scenario.fault.id in {"none", "answer"}:
        return None
    return "of Flink 1 only what its connectors do by themselves is tried"


SYSTEM = System(
    name="flink",
    launcher="harness.systems.flink.system:FlinkSystem",
    scenarios="harness.scenarios.flink:FLINK",
    knowledge="harness.systems.flink.knowledge:KNOWLEDGE",
    versions=lambda: ("1.19.3",),
    lacks=lacks,
    clients=("flink-connector-kafka",),
    runtimes=("process", "docker"),
    runs=runs,
    abilities=lambda _: ABILITIES,
    transport="kafka",
)
