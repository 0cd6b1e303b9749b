"""What our job is told when it is submitted: words ``name=value``, see ``jvm/Job.java``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from harness.systems.flink.settings import TRANSACTION_MS, Guarantee

if TYPE_CHECKING:
    from pathlib import Path

    from harness.systems.flink.settings import FlinkSettings

CHECKPOINTS: Final = "checkpoints"
"""The folder of its checkpoints, in the cell's."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a job works: what it reads, writes, and is called there."""

    cell: str
    """In its lines of the history, which are in the folder ``history``."""
    history: Path
    bootstrap: str
    source: str
    sink: str
    group: str
    checkpoints: Path
    failpoint: Path
    """The file that names a record at which a source stands still, where there is one."""
    key: str = ""
    """What its transactional ids begin with."""


def words_of(place: Place, settings: FlinkSettings, *, name: str, client: str, again: bool = False) -> list[str]:
    """Return the words. ``name``: what it writes as, with the number of its attempt; ``again``: it was submitted before."""
    job = settings.job
    moved = again and job.later_prefix is not None
    transaction_ms = TRANSACTION_MS if moved else settings.transaction_timeout_ms
    words = {
        "cell": place.cell, "name": name, "history": str(place.history.absolute()),
        "bootstrap": place.bootstrap, "in": place.source, "out": place.sink, "group": place.group,
        "partitions": str(settings.topic.partitions), "inputs": str(job.inputs), "failpoint": str(place.failpoint.absolute()),
        "client": client, "guarantee": str(job.guarantee),
        "source.isolation.level": settings.consumer.isolation, "source.fetch.max.wait.ms": "50",
        "source.partition.discovery.interval.ms": "-1",
        "sink.client.id": client, "sink.transaction.timeout.ms": str(transaction_ms),
        "sink.linger.ms": str(job.linger_ms),
        "flink.execution.checkpointing.interval": "1 h",
        "flink.execution.checkpointing.dir": f"file://{place.checkpoints.absolute()}",
        "flink.state.checkpoints.dir": f"file://{place.checkpoints.absolute()}",  # what Flink 1 calls it
        "flink.execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "flink.execution.checkpointing.tolerable-failed-checkpoints": "100",
        "flink.execution.checkpointing.timeout": "60 s",
        "flink.execution.checkpointing.unaligned.enabled": str(job.unaligned).lower(),
        "flink.restart-strategy.type": "fixed-delay" if job.restarts else "none",
        "flink.restart-strategy.fixed-delay.attempts": "1000",
        "flink.restart-strategy.fixed-delay.delay": "50 ms",
        "flink.parallelism.default": "1", "flink.pipeline.max-parallelism": "8",
    }  # fmt: skip
    if job.guarantee is Guarantee.EXACTLY_ONCE:
        words |= {"prefix": f"{place.key}-{job.later_prefix if moved else job.prefix}", "naming": str(job.naming)}
    return [f"{name}={told}" for name, told in words.items()]
