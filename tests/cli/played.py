"""Systems that the commands are tested with: played, and lying on demand; and two that
cannot run.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from harness.model.failures import EnvironmentFailure
from harness.model.scenario import Predicted
from harness.model.semantics import Semantic
from scenarios import plain
from tests.memory.about import SYSTEM
from tests.memory.plants import Plant
from tests.memory.system import MemoryDeployed, MemorySystem
from tests.narrow import narrow

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from harness.model.cell import Cell
    from harness.model.history import HistoryWriter
    from harness.model.scenario import Deployment, Scenario
    from tests.memory.system import MemoryCellRun

ALO, EOS = Semantic.AT_LEAST_ONCE, Semantic.EXACTLY_ONCE
PLANTS = {
    "loses": Plant(lose=2),
    "disarmed": Plant(disarm=True),
    "stops": Plant(stop_reading=True),
    "control-disarmed": Plant(disarm=True),
    "control-harmless": Plant(),
}


def _named(name: str) -> Scenario:
    return replace(plain.DELIVERY_LOST, id=name)


SCENARIOS: tuple[Scenario, ...] = (
    plain.NONE,
    plain.ACK_LOST,
    plain.CONSUMER_CRASH_BEFORE_COMMIT,
    plain.CURSOR_OUTSIDE_THE_TRANSACTION,
    _named("loses"),
    _named("disarmed"),
    _named("stops"),
    replace(plain.NONE, id="control-harmless", expect={EOS: Predicted(control=True)}),
    replace(
        plain.ACK_LOST,
        id="control-disarmed",
        expect={
            EOS: Predicted(
                duplicated=narrow(plain.ACK_LOST.expect[ALO], Predicted).duplicated, control=True
            ),
        },
    ),
)
GOOD = (
    "none",
    "ack-lost",
    "consumer-crash-before-commit",
    "control-cursor-outside-the-transaction",
)


class PlayedSystem(MemorySystem):
    """The in-memory system with :data:`PLANTS`."""

    def __init__(self, _runtime: str = "process", _version: str | None = None) -> None:
        super().__init__(plants=PLANTS)


class NoSystem(PlayedSystem):
    """A system that this machine cannot run."""

    def prepare(self, say: Callable[[str], None]) -> None:
        """Say so."""
        say("looking for Java")
        raise EnvironmentFailure("there is no Java; install one, or set JAVA_HOME")


class BreakingSystem(PlayedSystem):
    """A system whose wire ends as soon as there is a second cell."""

    def deploy(self, need: Deployment, directory: Path) -> MemoryDeployed:
        """Deploy what will break."""
        return _Breaking(**vars(super().deploy(need, directory)))


class _Breaking(MemoryDeployed):
    def cell_run(self, cell: Cell, directory: Path, history: HistoryWriter) -> MemoryCellRun:
        if cell.scenario.id != plain.NONE.id:
            raise EnvironmentFailure("the wire ended")
        return super().cell_run(cell, directory, history)


PLAYED = replace(SYSTEM, launcher="tests.cli.played:PlayedSystem")
ABSENT = replace(SYSTEM, name="absent", launcher="tests.cli.played:NoSystem")
BREAKING = replace(SYSTEM, launcher="tests.cli.played:BreakingSystem")
