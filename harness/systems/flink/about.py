"""The declaration of the system Flink."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.interfaces import System
from harness.model.semantics import Semantic
from harness.systems.flink.abilities import ABILITIES

if TYPE_CHECKING:
    from collections.abc import Collection

    from harness.model.cell import Cell


TOO_NEW: Final = "flink-connector-kafka==5.0.0+4.3.0"
"""A connector with a newer kafka-clients than it was built with."""


def lacks(cell: Cell) -> str | None:
    """Say why a cell is not applicable: a client that cannot commit, or a fault that is not tried
    on Flink 1.
    """
    if cell.client == TOO_NEW and cell.semantic is Semantic.EXACTLY_ONCE:
        return (
            "at each checkpoint, connector 5.0.0 calls TransactionalRequestResult.await(), which "
            "kafka-clients 4.3.0 lacks: the job fails and restarts for ever"
        )
    if "==" not in cell.system or cell.scenario.fault.id in {"none", "answer"}:
        return None
    return "Flink 1 is only tested without faults and with an error answered by the broker"


def client_versions(_: str, version: str | None) -> Collection[str]:
    """Return the versions of the connector whose checksums are known, for a version of Flink."""
    from harness.systems.flink.install import VERSION, connectors  # noqa: PLC0415 - what fetches is imported when it is asked

    return tuple(connectors(version or VERSION))


SYSTEM = System(
    name="flink",
    launcher="harness.systems.flink.system:FlinkSystem",
    scenarios="harness.scenarios.flink:FLINK",
    knowledge="harness.systems.flink.knowledge:KNOWLEDGE",
    versions=lambda: ("1.19.3",),
    client_versions=client_versions,
    lacks=lacks,
    clients=("flink-connector-kafka",),
    runtimes=("process", "docker"),
    abilities=lambda _: ABILITIES,
    transport="kafka",
)
