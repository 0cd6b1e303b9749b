"""How the parts of a declared cell are put together: what is opened, struck, traced and ended when;
without a broker.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from harness.abilities import needs_of
from harness.controls import AtWrite, Fired, OnWire
from harness.faults import CrashAtWrite
from harness.model import events as kinds
from harness.model.scenario import Deployment, NotApplicable, Role
from harness.model.writes import Point, Side
from harness.pipelines import failure_points, read_pipeline
from harness.protocols.kafka.steps import Api
from harness.run.cell import CellRun
from harness.run.controls import Watching, WireControls
from harness.systems.declared.abilities import TracedWrites
from harness.systems.declared.feed.feed import DeclaredFeed
from harness.systems.declared.parts import parts_of
from harness.systems.declared.programs.errors import StageError
from harness.systems.declared.programs.services import SharedServices
from harness.systems.declared.programs.stages import is_gathering
from harness.systems.declared.programs.targets import FaultTargets
from harness.systems.declared.programs.workers import Victim
from harness.systems.declared.results.matcher import RecordMatcher
from harness.wire.rules import Direction
from tests.judge.growing import tell
from tests.pipelines.scenes import EXAMPLES, KILLS

if TYPE_CHECKING:
    from pathlib import Path

    from harness.run.parts import Parts
    from harness.systems.declared.scene import Scene
    from harness.wire.rules import How, Rule
    from tests.pipelines.scenes import Scenes


def parts_for(scene: Scene) -> Parts:
    """Return the parts of the cell of a scene, on its brokers."""
    nowhere: Any = None
    return parts_of(
        scene.cell,
        scene.directory,
        scene.history,
        brokers=scene.brokers,
        fetched=scene.fetched,
        learnt=scene.learnt,
        runtime_of=lambda _: nowhere,
        shared_services=SharedServices(scene.directory / "services"),
    )


def test_what_waits_for_a_fault_goes_on_when_that_is_over(scenes: Scenes) -> None:
    """Fired or not: the drain would wait for records that nobody offers."""
    parts = parts_for(scenes("orders", fault=KILLS))
    assert isinstance(parts.feed, DeclaredFeed)
    assert parts.freed == (parts.feed.release,)


@pytest.mark.parametrize("prepared", [False, True])
def test_a_cell_gives_its_port_back_wherever_it_has_stopped(
    scenes: Scenes, monkeypatch: pytest.MonkeyPatch, prepared: bool
) -> None:
    """It is leased when the cell is made: also where no step of it comes, or an early one fails."""
    ended: list[str] = []
    scene = scenes("orders")
    lease = SimpleNamespace(port=1, close=lambda: ended.append("port"))
    monkeypatch.setattr("harness.systems.declared.scene.PortLease", lambda _: lease)
    run = CellRun(scene.cell, scene.history, parts_for(scene))
    if prepared:
        with pytest.raises(ConnectionError, match="orders"):
            run.prepare()
    run.close()
    run.close()
    assert ended == ["port"]


def test_an_output_is_looked_into_when_an_earlier_cell_s_topics_are_gone(
    scenes: Scenes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Totals have no token of a cell: those of the cell before would be this one's. And nothing is
    started yet.
    """
    done: list[str] = []

    def look(_: RecordMatcher) -> None:
        done.append("looked into")
        raise StageError("the output has records")

    scene = scenes("orders")
    monkeypatch.setattr(scene.brokers, "clean", lambda _: done.append("clean"), raising=False)
    monkeypatch.setattr(RecordMatcher, "check_output_is_fresh", look)
    run = CellRun(scene.cell, scene.history, parts_for(scene))
    with pytest.raises(StageError):
        run.prepare()
    run.close()
    assert done == ["clean", "looked into"]


def test_only_a_broker_of_its_own_is_killed(scenes: Scenes) -> None:
    """Others are on it, or it is somebody else's; and what is no stage of the pipeline cannot be
    struck.
    """
    scene = scenes("orders")
    shared = parts_for(scene).controls
    with pytest.raises(RuntimeError, match="kills the broker, so it must not share it"):
        shared.target(Role.BROKER)
    with pytest.raises(RuntimeError, match="the pipeline has no stage processor"):
        shared.target(Role.PROCESSOR)
    assert shared.target(Role.CONSUMER).name == "consumer"
    own = replace(scene.cell, scenario=replace(scene.cell.scenario, deployment=Deployment.OWN))
    scene.cell = own
    assert parts_for(scene).controls.target(Role.BROKER).name == "broker"


@pytest.mark.parametrize(
    "example", ["orders", "readings", "enrich", "streams", "exactly-once", "ingest"]
)
def test_no_failure_point_needs_what_a_declared_cell_has_not(scenes: Scenes, example: str) -> None:
    """Of any pipeline: its fault would find that out in the middle of the run."""
    pipeline = read_pipeline(EXAMPLES / example / "pipeline.toml")
    controls: Any = parts_for(scenes(example)).controls
    for scenario in failure_points(pipeline):
        if not all(isinstance(each, NotApplicable) for each in scenario.expect.values()):
            assert set(needs_of(scenario.fault)) <= set(controls.abilities), scenario.id


class Traced:
    """A reader that is held at a durable write as soon as it is traced; ``done``: what becomes of
    it, and of the wire.
    """

    name, role = "consumer", Role.CONSUMER
    command = SimpleNamespace(one_dies=False)

    def __init__(self, done: list[str]) -> None:
        self.done = done
        self.tracer = self.processes = self

    def start(self, log: Path, point: Point) -> None:
        """Trace it."""
        self.done.append(f"trace {point} into {log.name}")

    def held(self) -> SimpleNamespace | None:
        """Say who stands still."""
        return SimpleNamespace(pid=5) if self.done else None

    def claim(self, pid: int) -> None:
        """Write down that it is one of its processes."""
        self.done.append(f"claim {pid}")

    def end(self) -> None:
        """Trace it no more."""
        self.done.append("untrace")


class NotedWire:
    """A wire that notes what it is told, and holds the first frame that a rule is for."""

    def __init__(self, scene: Scene, done: list[str]) -> None:
        self.scene, self.done = scene, done

    def arm(self, cell: str, rule: Rule) -> None:
        """Take a rule, which is hit at once."""
        hit = {
            "event": "rule",
            "rule": rule.id,
            "phase": "hit",
            "conn": 3,
            "role": "consumer",
            "held": "h1",
            "record": rule.record,
        }
        tell(self.scene.history_folder, hit | {"cell": cell})

    def resolve(self, hold: str, how: How) -> SimpleNamespace:
        """Note what becomes of what is held."""
        self.done.append(f"{how} {hold}")
        return SimpleNamespace(reached=True)

    def holds(self) -> list[SimpleNamespace]:
        """Hold another frame of the cell."""
        return [SimpleNamespace(cell=self.scene.cell.id, held="h2")]

    def disarm(self, cell: str, rule: str) -> None:
        """Note which rule is taken back."""
        assert cell == self.scene.cell.id
        self.done.append(f"disarm {rule}")


def test_a_stage_is_traced_while_its_record_waits_until_the_fault_is_disarmed(
    scenes: Scenes,
) -> None:
    """What it writes before it is given the record counts for nothing; when the drain begins nobody
    is traced any more.
    """
    scene = scenes("orders", fault=CrashAtWrite(Role.CONSUMER, (Api.FETCH, Direction.RESPONSE)))
    done = list[str]()
    stage: Any = Traced(done)
    nodes = FaultTargets(scene, {Role.CONSUMER: stage}, {}, members=lambda: 0, victim=Victim())
    watching = Watching(progress=lambda: len(done), settled=lambda: True, exhausted=lambda: False)
    wire: Any = NotedWire(scene, done)
    controls = WireControls(scene, wire, nodes, watching)
    point = Point("rename", 2, Side.BEFORE)
    at = AtWrite(Role.CONSUMER, point, OnWire(Role.CONSUMER, Api.FETCH, Direction.RESPONSE))
    TracedWrites(scene, controls, nodes).arm(at)
    assert done == []
    assert controls.await_fired(at) == Fired(None, "consumer", None)
    assert done == ["trace before rename 2 into writes.txt", "release h1", "claim 5"]
    controls.disarm()
    controls.disarm()
    assert done[3:] == ["discard h2", "disarm given", "untrace", "discard h2"]


def test_a_group_that_gathers_is_seen() -> None:
    """A member that has asked to join waits for the others; one that is answered, or has gone,
    waits no more.
    """

    def frame(conn: int, corr: int, way: str, api: str = "JoinGroup") -> kinds.Frame:
        return kinds.Frame(t=0, conn=conn, corr=corr, dir=Direction(way), api=api)

    told: list[kinds.Frame | kinds.Conn] = []
    assert not is_gathering(told)
    for line, gathering in (
        (frame(1, 1, "request"), True),
        (frame(1, 1, "response"), False),
        (frame(1, 2, "request", "SyncGroup"), True),
        (frame(2, 2, "response", "SyncGroup"), True),
        (frame(1, 2, "response", "SyncGroup"), False),
        (frame(1, 3, "request", "Fetch"), False),
        (frame(2, 7, "request"), True),
        (frame(3, 7, "request"), True),
        (kinds.Conn(t=0, phase=kinds.ConnPhase.OPEN, conn=2), True),
        (kinds.Conn(t=0, phase=kinds.ConnPhase.CLOSE, conn=2), True),
        (frame(3, 7, "response"), False),
    ):
        told.append(line)
        assert is_gathering(told) is gathering, line


def test_the_output_is_not_read_while_records_flow(
    scenes: Scenes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading it may lock a user's database. Waits for the fault go by what the wire saw alone."""
    reads: list[str] = []
    monkeypatch.setattr(RecordMatcher, "ids", lambda _: reads.append("ids"))
    monkeypatch.setattr(RecordMatcher, "size", lambda _: reads.append("size"))
    scene = scenes("orders")
    controls = parts_for(scene).controls
    assert isinstance(controls, WireControls)
    assert (controls.watching.advance(), reads) == (0, [])
