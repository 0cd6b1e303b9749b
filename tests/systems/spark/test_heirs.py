"""Whose query goes on in the shared session, and whose does not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from harness.controls import InProgram, OnWire
from harness.faults import Kill, NoFault, Pause, Twice
from harness.model.cell import expand
from harness.model.events import NodePhase
from harness.model.scenario import Role
from harness.model.semantics import Semantic
from harness.protocols.kafka.steps import Api
from harness.systems.spark.driver import DriverNode
from harness.systems.spark.launcher import Launched
from harness.systems.spark.query import dies_once, shares_a_session
from harness.wire.rules import Direction
from scenarios.streaming import BY_TIMER, MID_BATCH, TASK_BEFORE_OUTPUT

if TYPE_CHECKING:
    from pathlib import Path

    from harness.model.cell import Cell
    from harness.model.scenario import Fault, Scenario

CLIENT = "spark-sql-kafka"
AT: Any = InProgram(Role.DRIVER, "mid-batch")
ON_WIRE = OnWire(Role.DRIVER, Api.FETCH, Direction.RESPONSE)
STRUCK: Any = Kill(ON_WIRE, (Role.DRIVER,))
KILLED = Kill(AT, (Role.DRIVER,))


@dataclass(frozen=True)
class Stage:
    """As much of a stage's settings as a driver looks at."""

    key: str = "cell"
    name: str = "driver"
    incarnation: int = 0

    @property
    def writer(self) -> str:
        """The name of this incarnation."""
        return f"{self.name}-{self.incarnation}"

    def environment(self) -> dict[str, str]:
        """Return nothing."""
        return {}


class Ground:
    """Starts JVMs, and notes whose."""

    at_hand = True

    def __init__(self) -> None:
        self.began: list[str] = []

    def launch(self, _: object, job: Any) -> Launched:
        """Note a JVM of its own."""
        self.began.append(f"own {job.name}")
        return launched(len(self.began))

    def program(self, _: object) -> None:
        """Name no program."""


class Session:
    """The shared session, in the same list."""

    def __init__(self, began: list[str]) -> None:
        self._began = began

    def stand_by(self) -> None:
        """Note that it is to be up."""
        self._began.append("shared")

    def begin(self, stage: Stage) -> Launched:
        """Note a query."""
        self._began.append(f"shared {stage.writer}")
        return launched(99)

    def end(self, stage: Stage, _: object) -> None:
        """Note a query's end."""
        self._began.append(f"end of {stage.writer}")


def launched(pid: int) -> Launched:
    """Return a JVM that lives until it is killed."""
    node = SimpleNamespace(pid=pid, exit=None)
    node.kill = lambda: setattr(node, "exit", SimpleNamespace(pid=pid, status=None, signal=9))
    alive: Any = node
    return Launched(alive, None)


def cell(like: Scenario, fault: Fault) -> Cell:
    """Return a cell with this fault."""
    scenarios, semantics = [replace(like, fault=fault)], [Semantic.AT_LEAST_ONCE]
    [found] = expand(scenarios, semantics=semantics, seeds=[1], system="spark", client=CLIENT)
    return found


@pytest.mark.parametrize("inherits", [True, False])
def test_a_killed_drivers_query_goes_on_in_the_shared_session(
    tmp_path: Path, inherits: bool
) -> None:
    """The one that dies has a JVM of its own in any case: nobody else's query dies with it."""
    ground = Ground()
    runtime: Any = SimpleNamespace(check=lambda: None)
    told: list[Any] = []
    history: Any = SimpleNamespace(write=told.append)
    so_far: Any = None
    (tmp_path / "cell").mkdir()
    folder = tmp_path / "cell" / "failpoints"
    driver = DriverNode(Role.DRIVER, "module", Stage(), runtime, history, so_far, tmp_path, folder)
    driver.ground = ground  # type: ignore[assignment]
    driver.heir = Session(ground.began) if inherits else None  # type: ignore[assignment]
    driver.start()
    driver.stand_by()
    driver.kill()
    driver.start()
    waited = [event.stood_by for event in told if event.phase is NodePhase.STARTED]
    assert waited == [False, True], "the second JVM is there already when the first dies"
    first = "own driver-1"
    if inherits:
        assert ground.began == [first, "shared", "shared driver-2"]
        driver.kill()
        assert ground.began[-1] == "end of driver-2"
    else:
        assert ground.began == [first, "own driver-2"]


@pytest.mark.parametrize(
    ("fault", "once"),
    [
        (KILLED, True),
        (Kill(ON_WIRE, (Role.DRIVER, Role.BROKER)), True),
        (Kill(replace(AT, role=Role.PRODUCER), (Role.PRODUCER,)), False),
        (Pause(AT), False),
        (Twice(STRUCK, STRUCK), False),
    ],
    ids=["killed", "with-a-broker", "another", "paused", "twice"],
)
def test_whose_driver_dies_once(fault: Fault, once: bool) -> None:
    """A second fault would strike the session of other cells."""
    assert dies_once(cell(MID_BATCH, fault)) is once


@pytest.mark.parametrize("like", [TASK_BEFORE_OUTPUT, BY_TIMER])
def test_who_needs_more_than_a_session_has_a_driver_again(like: Scenario) -> None:
    """Executors, or a program that starts the query again each time that it has read all."""
    assert not dies_once(cell(like, KILLED))
    assert not shares_a_session(cell(like, NoFault()))
