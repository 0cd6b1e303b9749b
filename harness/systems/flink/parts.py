"""Put together the parts of a cell on Flink: lostack's producer, Kafka's parts, and a job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.model.scenario import Predicted
from harness.run.drain import STANDS_S, Check, Idle
from harness.run.who import CellNodes
from harness.systems.flink.abilities import RunningJob, StandingInput, Written
from harness.systems.flink.inputs import Inputs
from harness.systems.flink.job import Job
from harness.systems.flink.rest import RestError
from harness.systems.flink.roles import JOB_MANAGER, TASK_MANAGER
from harness.systems.flink.settings import FlinkSettings
from harness.systems.flink.sink_log import SinkLog
from harness.systems.kafka.one_broker import OneBroker
from harness.systems.kafka.parts import UNANSWERED, CellOnKafka

if TYPE_CHECKING:
    from harness.run.parts import Parts
    from harness.systems.flink.cluster import Cluster

SILENT = (*UNANSWERED, RestError)
"""The exceptions that mean: a broker or the JobManager does not answer at the moment."""


def parts_of(on_kafka: CellOnKafka, *, cluster: Cluster) -> Parts:
    """Return the parts of one cell."""
    scene, cell = on_kafka.scene, on_kafka.scene.cell
    producing = on_kafka.producing(FlinkSettings.of(cell.settings).stages)
    job = Job(scene, cluster)
    servers = {**OneBroker(scene).servers(), TASK_MANAGER: lambda: job.task_manager}
    if cell.scenario.deployment.alone:
        servers[JOB_MANAGER] = lambda: job.job_manager
    stands = isinstance(cell.expectation, Predicted) and cell.expectation.stands
    return on_kafka.parts(
        job,
        producing,
        CellNodes(scene, lambda: (producing.node,), servers),
        on_kafka.watching(job.position_trouble, producing.has_ended, SILENT, producing.supervise),
        checks=(
            Check("job", job.trouble),
            Check("position", job.position_trouble, costly=True),
            Check("topic", scene.log_trouble, costly=True),
        ),
        positions=job.positions,
        abilities={
            RunningJob: job,
            StandingInput: Inputs(scene),
            Written: SinkLog(scene, lambda: job.writer),
        },
        still=lambda: Idle(scene.progress, producing.has_ended, STANDS_S) if stands else None,
    )
