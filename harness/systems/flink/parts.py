"""What a cell on Flink is made of: our producer and Kafka's parts, and a job that reads while records flow."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from harness.model.scenario import Role
from harness.run.controls import Watching, WireControls
from harness.run.drain import Check, Checks, QuietSink
from harness.run.parts import Parts, When
from harness.systems.flink.abilities import RunningJob
from harness.systems.flink.job import Job
from harness.systems.flink.rest import RestError
from harness.systems.flink.roles import TASK_MANAGER
from harness.systems.flink.settings import flinks
from harness.systems.kafka.authorities import observe_reading, observe_source
from harness.systems.kafka.one_broker import OneBroker
from harness.systems.kafka.parts import UNANSWERED, Ground
from harness.systems.kafka.scene import Scene
from harness.systems.kafka.shared_crash import SharedCrash
from harness.systems.kafka.stages import Producing, StageMaker
from harness.systems.kafka.who import KafkaNodes

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from harness.controls import AtWrite, Fired, InProgram, OnWire, Stop, Target
    from harness.model.cell import Cell
    from harness.model.history import Event, HistoryWriter
    from harness.systems.flink.cluster import Cluster
    from harness.systems.kafka.services import Services
    from harness.systems.kafka.transport import KafkaTransport
    from harness.wire.rules import Rule

SILENT = (*UNANSWERED, RestError)
"""What is raised where a broker, or a JobManager, cannot be asked."""


@dataclass
class FlinkNodes:
    """Who is who: the clients of a job are those of the TaskManager that runs it. Nothing of ours has a failpoint there."""

    kafka: KafkaNodes

    def target(self, role: Role, node: str | None = None) -> Target:
        """Return the node of a role."""
        return self.kafka.target(role, None if role is not Role.PRODUCER else node)

    def rule(self, trigger: OnWire, rule: Rule) -> Rule:
        """Return it as it is."""
        return self.kafka.rule(trigger, rule)

    def selector(self, fired: Fired) -> str | None:
        """Leave it to the route: clients of a job are all its own."""
        return None if fired.node == TASK_MANAGER else self.kafka.selector(fired)

    def hit(self, trigger: OnWire, hit: Event) -> str:
        """Return the TaskManager for what a job asks."""
        return str(TASK_MANAGER) if hit["role"] == Role.PROCESSOR else self.kafka.hit(trigger, hit)

    def standing(self, trigger: InProgram | AtWrite) -> Fired | None:
        """Return the stage that has stopped at its failpoint."""
        return self.kafka.standing(trigger)

    def arm(self, trigger: InProgram, stop: Stop) -> tuple[str, Mapping[str, Any]]:
        """Let the program stop by itself."""
        return self.kafka.arm(trigger, stop)


def parts_of(
    cell: Cell, directory: Path, history: HistoryWriter, *, transport: KafkaTransport, services: Services, cluster: Cluster
) -> Parts:
    """Return what one cell is made of."""
    scene = Scene(cell, directory, history, transport)
    ground = Ground.of(scene, services)
    made = StageMaker(scene, ground.outbox, ground.database.there).make(Role.PRODUCER, "producer")
    producing = Producing(scene, replace(made, stage=replace(made.stage, settings=flinks(cell.settings).stages)))
    job = Job(scene, cluster)
    broker = OneBroker(scene, SharedCrash(()))
    servers = {**broker.servers(), TASK_MANAGER: lambda: job.task_manager}
    nodes = FlinkNodes(KafkaNodes(scene, lambda: (producing.node,), servers))
    watching = Watching(scene.progress, lambda: job.position_trouble() is None, producing.has_ended, SILENT)
    checks = [
        Check("source", producing.trouble), Check("job", job.trouble), Check("position", job.position_trouble, costly=True),
        Check("topic", scene.log_trouble, costly=True),
    ]  # fmt: skip
    return Parts(
        ground=(*ground.parts(), job, producing),
        feed=producing,
        stages=job,
        controls=WireControls(
            cell, scene.load, transport.wire, directory, history, scene.so_far, nodes, watching, {RunningJob: job}
        ),
        drain=lambda: QuietSink(Checks(checks, SILENT), ground.sink.size),
        authorities=(
            partial(observe_source, scene, ground.outbox),
            partial(observe_reading, scene, job.positions, ground.sink.observe),
        ),
        when=When.BEFORE_LOAD,
        armed_before_load=True,
    )
