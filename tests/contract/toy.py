"""An engine that nobody knows: all that it takes to add one. A file of its own, one registry line, scenarios of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.abilities import PowerLoss
from harness.controls import OnWire
from harness.faults import Drop, Forget, Kill, NoFault
from harness.interfaces import System
from harness.judge.signs import DELIVERED_AGAIN
from harness.model.pipeline import Pipeline
from harness.model.prediction import AtLeast, Exactly
from harness.model.scenario import Predicted, Role, Scenario
from harness.model.semantics import Semantic
from harness.protocols.kafka.steps import Api
from harness.systems.memory.queue import QueueRun
from harness.systems.memory.system import MemoryDeployed, MemorySystem
from harness.wire.rules import Direction

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from harness.model.cell import Cell
    from harness.model.history import HistoryWriter
    from harness.model.scenario import Deployment

ALO, EOS = Semantic.AT_LEAST_ONCE, Semantic.EXACTLY_ONCE


@dataclass(frozen=True, slots=True)
class ToySettings:
    """What makes up a semantic of the toy. Implements :class:`harness.model.pipeline.Settings`."""

    acknowledges: str
    unit: int = 1
    patience_s: float = 1.0

    def logs(self, pipeline: Pipeline) -> Mapping[str, int]:
        """It has none: it is a queue."""
        del pipeline
        return {}

    def check(self, pipeline: Pipeline, *, clustered: bool) -> None:
        """Find nothing wrong."""


TOY_LINE = Pipeline("toy-line", "toy", {ALO: ToySettings("each"), EOS: ToySettings("in a transaction")})
TOY_WORKER = Role("toy-worker")
REQUEST = OnWire(TOY_WORKER, Api.FETCH, Direction.RESPONSE)
SCENARIOS = (
    Scenario(
        id="none", failure_point="none", fault=NoFault(), because="Nothing is done to anybody.", pipeline=TOY_LINE,
        expect={ALO: Predicted(), EOS: Predicted()},
    ),
    Scenario(
        id="delivery-lost", failure_point="delivery-lost", fault=Drop(REQUEST), pipeline=TOY_LINE,
        because="What was not acknowledged is delivered again.",
        expect={ALO: Predicted(duplicated=AtLeast()), EOS: Predicted(sign=DELIVERED_AGAIN)},
    ),
    Scenario(
        id="power-loss", failure_point="power-loss", fault=Kill(REQUEST, (Role.BROKER,), forget=Forget.TOPIC),
        because="What was not flushed is gone.", pipeline=TOY_LINE, expect={ALO: Predicted(lost=Exactly(), control=True)},
    ),
)  # fmt: skip


class ToyLauncher(MemorySystem):
    """A play of a queue, under another name."""

    name = "toy"

    def __init__(self, _runtime: str = "process", _version: str | None = None) -> None:
        super().__init__()

    def deploy(self, need: Deployment, directory: Path) -> MemoryDeployed:
        """Deploy nothing."""
        return ToyDeployed(**vars(super().deploy(need, directory)))


class ToyDeployed(MemoryDeployed):
    """Nothing that runs."""

    def cell_run(self, cell: Cell, directory: Path, history: HistoryWriter) -> QueueRun:
        """Return the play of one cell."""
        return QueueRun(cell, directory, history, self.plant)


SYSTEM = System(
    name="toy",
    launcher="tests.contract.toy:ToyLauncher",
    scenarios="tests.contract.toy:SCENARIOS",
    clients=("toy-client",),
    runs=lambda scenario: scenario.pipeline.system == "toy",
    abilities=lambda _: frozenset(),
)
LACKS = PowerLoss
"""What a fault of its scenarios needs, and it has not."""
