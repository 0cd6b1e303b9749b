"""The scene of a cell on a Kafka that is played, and the processes of the cell."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from harness.model.cell import Cell
from harness.model.semantics import Semantic
from harness.scenarios.plain import NONE
from harness.systems.kafka.scene import Scene
from harness.systems.kafka.stages import StageMaker
from tests.events import told

if TYPE_CHECKING:
    from pathlib import Path

    from harness.model.events import Event
    from harness.model.scenario import Role
    from harness.run.nodes import StageNode

CELL = Cell(NONE, Semantic.AT_LEAST_ONCE, "kafka", "kafka-python", "process", 1, 24)


class Kept:
    """A history in memory. Stands in for :class:`harness.model.history.HistoryWriter`."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def write(self, event: Event) -> None:
        """Keep a line."""
        self.lines.append(told(event))

    def of(self, event: str, *names: str) -> list[tuple[Any, ...]]:
        """Return some fields of the lines of a kind."""
        return [
            tuple(line.get(name) for name in names) for line in self.lines if line["event"] == event
        ]


def scene_of(
    folder: Path, *brokers: Any, cell: Cell = CELL, history: Any = None, **observer: Any
) -> Scene:
    """Return the scene of a cell in a folder. ``observer``: what its observer answers; ``history``:
    what is written down.
    """
    transport: Any = SimpleNamespace(
        secured=None,
        observer=SimpleNamespace(**observer),
        brokers=brokers,
        servers=brokers,
        size=len(brokers),
        bootstrap=lambda _: "nowhere",
        runtime=SimpleNamespace(check=lambda: None),
    )
    written: Any = history or Kept()
    return Scene(cell, folder, written, transport)


def living(scene: Scene, role: Role, name: str) -> StageNode:
    """Return a process of a cell, in its first incarnation, that lives."""
    node = StageMaker(scene, "").make(role, name)
    process: Any = SimpleNamespace(pid=7, exit=None, stands_still=lambda: False)
    node.node, node.stage = process, replace(node.stage, incarnation=1)
    return node
