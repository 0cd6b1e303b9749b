"""A Spark session that cells share: started once, again after its end, and given up where a query
does not stop.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest

from harness.model.cell import Cell
from harness.model.scenario import NotApplicable, Role
from harness.model.semantics import Semantic
from harness.stages.settings import Settings
from harness.stages.stage import Stage
from harness.systems.spark import session as shared
from harness.systems.spark.launcher import Launched
from harness.systems.spark.query import shares_a_session
from harness.systems.spark.session import SharedSession
from scenarios.streaming import STREAMING
from tests.narrow import narrow

if TYPE_CHECKING:
    from pathlib import Path

STREAM = Cell(STREAMING[0], Semantic.AT_LEAST_ONCE, "spark", "kafka-python", "process", 1, 24)


@dataclass
class Pretended:
    """A process that only remembers what it was told."""

    alive: bool = True
    told: list[dict[str, str]] = field(default_factory=list)

    def write_stdin(self, data: bytes) -> None:
        """Remember an order."""
        self.told.append(json.loads(data))

    def kill(self) -> None:
        """Be dead."""
        self.alive = False


@dataclass
class Ground:
    """Starts such processes."""

    lives: list[Launched] = field(default_factory=list)

    def launch(self, runtime: Any, job: Any) -> Launched:
        """Start the two processes of a driver."""
        del runtime
        assert job.told
        node: Any = Pretended()
        front: Any = Pretended()
        self.lives.append(Launched(node, front))
        return self.lives[-1]


def stage(key: str) -> Stage:
    """A driver's stage of a cell."""
    names: dict[str, Any] = dict.fromkeys(
        ("bootstrap", "topic_in", "topic_out", "topic_cursor", "group", "outbox", "sink"), ""
    )
    return Stage(
        cell=key,
        key=key,
        name="driver",
        incarnation=1,
        history="",
        settings=narrow(STREAM.settings, Settings),
        **names,
    )


def told(life: Launched) -> list[dict[str, str]]:
    """What the front of a life was told."""
    front: Any = life.front
    return list(front.told)


@pytest.fixture
def ground() -> Ground:
    """Nothing started yet."""
    return Ground()


@pytest.fixture
def session(ground: Ground, tmp_path: Path) -> SharedSession:
    """A session of which nobody has asked anything."""
    pretended: Any = ground
    return SharedSession(pretended, pretended, {}, tmp_path)


def test_one_driver_for_all(session: SharedSession, ground: Ground) -> None:
    """Two cells of one name each: one life, two stages, each stopped as its own."""
    one, other = stage("one"), stage("other")
    assert session.begin(one) is session.begin(other)
    assert [Stage.from_json(order["start"]) for order in told(ground.lives[0])] == [one, other]
    session.end(one, lambda: any("stop" in order for order in told(ground.lives[0])))
    assert told(ground.lives[0])[2:] == [{"stop": "one.driver.1"}]
    session.end(one, lambda: False)  # it has ended
    assert len(told(ground.lives[0])) == 3
    assert ground.lives[0].node.alive
    session.close()
    assert not ground.lives[0].node.alive


def test_another_after_its_end(session: SharedSession, ground: Ground) -> None:
    """A session whose program is gone serves nobody; the next cell gets another."""
    front: Any = session.begin(stage("one")).front
    front.alive = False
    session.begin(stage("other"))
    assert len(ground.lives) == 2
    assert len(told(ground.lives[1])) == 1


def test_a_query_that_does_not_stop_takes_the_session_along(
    session: SharedSession, ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of one cell may go on beside the next."""
    monkeypatch.setattr(shared, "END_S", 0.05)
    session.begin(stage("one"))
    session.end(stage("one"), lambda: False)
    assert not ground.lives[0].node.alive
    session.begin(stage("other"))
    assert len(ground.lives) == 2


def test_who_shares() -> None:
    """Never a cell whose driver is killed or paused, or whose tasks run elsewhere; always the
    baseline.
    """
    cells = [
        replace(STREAM, scenario=scenario, semantic=semantic)
        for scenario in STREAMING
        for semantic, expectation in scenario.expect.items()
        if not isinstance(expectation, NotApplicable)
    ]
    own = {cell.scenario.id for cell in cells if not shares_a_session(cell)}
    for need, name in ((cell.scenario.fault.evidence(), cell.scenario.id) for cell in cells):
        assert Role.DRIVER not in (*need.killed, *need.paused) or name in own
    assert {"none", "delivery-lost", "ack-lost", "partitions-added"}.isdisjoint(own)
    assert {
        "driver-crash-mid-batch",
        "zombie-driver",
        "executor-crash-mid-task",
        "partitions-added+unseen",
    } <= own
