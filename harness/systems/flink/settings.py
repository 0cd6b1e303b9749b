"""The settings of a job, and its pipeline: what KafkaSink promises under each semantic, and what it leaves to checkpoints."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from harness.model.pipeline import Pipeline, SettingsError
from harness.model.semantics import Semantic
from harness.stages.settings import (
    AT_LEAST_ONCE,
    EXACTLY_ONCE_IN_TRANSACTION,
    ConsumerSettings,
    SavePosition,
    Settings,
)

if TYPE_CHECKING:
    from harness.model.pipeline import Pipeline as AnyPipeline


class Guarantee(StrEnum):
    """``DeliveryGuarantee`` of the sink."""

    NONE = "NONE"
    """The sink's default: nothing waits for what was sent."""
    AT_LEAST_ONCE = "AT_LEAST_ONCE"
    """A checkpoint waits until all that was sent is acknowledged."""
    EXACTLY_ONCE = "EXACTLY_ONCE"
    """A transaction for each checkpoint: pre-committed with it, committed when it is complete."""


class Naming(StrEnum):
    """``TransactionNamingStrategy`` of the sink."""

    INCREMENTING = "INCREMENTING"
    """Ids count up; what was left open is found by trying the next ones."""
    POOLING = "POOLING"
    """Ids are used again; what was left open is found by listing."""


@dataclass(frozen=True, slots=True)
class JobSettings:
    """What a job is told beside what is read and written."""

    guarantee: Guarantee
    naming: Naming = Naming.INCREMENTING
    linger_ms: int = 0
    """How long the sink's client waits for a batch to be whole."""
    prefix: str = "job"
    """Of the transactional ids, behind the cell's key."""
    later_prefix: str | None = None
    """That of a job that is submitted again; none: the same.

    Such a job has long transactions of its own: the cell's short time-out is for what the first job left open.
    """
    inputs: int = 1
    """How many sources it has, each of every how-many-th partition: a checkpoint waits for a barrier from each."""
    unaligned: bool = False
    """Whether a barrier overtakes what was sent before it, and nobody waits for the others."""
    restarts: bool = True
    """Whether its JobManager restarts it; else it has failed with its TaskManager."""


@dataclass(frozen=True, slots=True)
class FlinkSettings(Settings):
    """All that a semantic consists of: our producer, the topics, and the job between them."""

    job: JobSettings = field(default_factory=lambda: JobSettings(Guarantee.AT_LEAST_ONCE))

    def check(self, pipeline: AnyPipeline, *, clustered: bool) -> None:
        """Raise SettingsError where they cannot be: a job runs on one broker."""
        if clustered or self.topic.replicas > 1:
            raise SettingsError("a job runs on one broker")
        if pipeline.system != "flink":
            raise SettingsError(f"a job of Flink is no part of {pipeline}")

    @property
    def stages(self) -> Settings:
        """What our producer is told."""
        return Settings(self.producer, self.consumer, self.topic, self.transaction_timeout_ms)


TRANSACTION_MS: Final = 600_000
"""Of the sink's transactions: longer than any outage here that is not meant to outlast it, also on a busy machine.

A job whose JobManager and TaskManager were killed was back after 62 s once; 60 s had lost it what was pre-committed.
"""
_CHECKPOINT = ConsumerSettings(position=SavePosition.CHECKPOINT)
FLINK_AT_LEAST_ONCE: Final = FlinkSettings(
    AT_LEAST_ONCE.producer, _CHECKPOINT, transaction_timeout_ms=TRANSACTION_MS, job=JobSettings(Guarantee.AT_LEAST_ONCE)
)
FLINK_EXACTLY_ONCE: Final = FlinkSettings(
    EXACTLY_ONCE_IN_TRANSACTION.producer, replace(_CHECKPOINT, isolation="read_committed"),
    transaction_timeout_ms=TRANSACTION_MS, job=JobSettings(Guarantee.EXACTLY_ONCE),
)  # fmt: skip
FLINK_NONE: Final = replace(FLINK_AT_LEAST_ONCE, job=JobSettings(Guarantee.NONE))
"""The sink as it is where nobody chooses: sold as at-least-once, it must be convicted."""

JOB: Final = Pipeline(
    "flink-job", "flink",
    {Semantic.AT_LEAST_ONCE: FLINK_AT_LEAST_ONCE, Semantic.EXACTLY_ONCE: FLINK_EXACTLY_ONCE}, to_topic=True,
)  # fmt: skip
"""outbox → producer → topic → job with state for each key → topic."""


def with_job(settings: FlinkSettings, **changes: object) -> FlinkSettings:
    """Return settings with another job."""
    return replace(settings, job=replace(settings.job, **changes))  # type: ignore[arg-type]  # its own fields


def flinks(settings: object) -> FlinkSettings:
    """Return the settings of a cell of this system.

    Raises:
        TypeError: they are another system's.
    """
    if not isinstance(settings, FlinkSettings):
        raise TypeError(f"these are no settings of a job: {settings}")
    return settings
