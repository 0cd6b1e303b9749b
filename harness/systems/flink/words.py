"""The arguments of lostack's job: words ``name=value``, see ``jvm/Job.java``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from harness.systems.flink.settings import TRANSACTION_MS, Guarantee

if TYPE_CHECKING:
    from pathlib import Path

    from harness.systems.flink.settings import FlinkSettings

CHECKPOINTS: Final = "checkpoints"
"""The job's checkpoint folder, in the cell's folder."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a job works: its topics, group and folders."""

    cell: str
    """The cell's id, for the job's history lines."""
    history: Path
    bootstrap: str
    source: str
    sink: str
    group: str
    checkpoints: Path
    failpoint: Path
    """The file that names a record at which a source stands still, if it exists."""
    key: str = ""
    """The prefix of its transactional ids."""


def words_of(
    place: Place, settings: FlinkSettings, *, name: str, client: str, again: bool = False
) -> list[str]:
    """Return the job's arguments. ``name``: its writer's name without the attempt; ``again``: it
    was submitted before.
    """
    job = settings.job
    moved = again and job.later_prefix is not None
    transaction_ms = TRANSACTION_MS if moved else settings.transaction_timeout_ms
    words = {
        "cell": place.cell,
        "name": name,
        "history": str(place.history.absolute()),
        "bootstrap": place.bootstrap,
        "in": place.source,
        "out": place.sink,
        "group": place.group,
        "partitions": str(settings.topic.partitions),
        "inputs": str(job.inputs),
        "failpoint": str(place.failpoint.absolute()),
        "client": client,
        "guarantee": str(job.guarantee),
        "source.isolation.level": settings.consumer.isolation,
        "source.fetch.max.wait.ms": "50",
        "source.partition.discovery.interval.ms": "-1",
        "sink.client.id": client,
        "sink.transaction.timeout.ms": str(transaction_ms),
        "sink.linger.ms": str(job.linger_ms),
        "flink.execution.checkpointing.interval": "1 h",
        "flink.execution.checkpointing.dir": f"file://{place.checkpoints.absolute()}",
        # the name in Flink 1
        "flink.state.checkpoints.dir": f"file://{place.checkpoints.absolute()}",
        "flink.execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "flink.execution.checkpointing.tolerable-failed-checkpoints": "100",
        "flink.execution.checkpointing.timeout": "60 s",
        "flink.execution.checkpointing.unaligned.enabled": str(job.unaligned).lower(),
        "flink.restart-strategy.type": "fixed-delay" if job.restarts else "none",
        "flink.restart-strategy.fixed-delay.attempts": "1000",
        "flink.restart-strategy.fixed-delay.delay": "50 ms",
        "flink.parallelism.default": "1",
        "flink.pipeline.max-parallelism": "8",
    }
    if job.guarantee is Guarantee.EXACTLY_ONCE:
        words |= {
            "prefix": f"{place.key}-{job.later_prefix if moved else job.prefix}",
            "naming": str(job.naming),
        }
    return [f"{name}={told}" for name, told in words.items()]
