"""The settings of a Flink job for each semantic, and its pipeline."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from harness.model.pipeline import Pipeline, SettingsError
from harness.model.semantics import Semantic
from harness.stages.consumer_settings import ConsumerSettings, SavePosition
from harness.stages.settings import AT_LEAST_ONCE, EXACTLY_ONCE_IN_TRANSACTION, Settings

if TYPE_CHECKING:
    from harness.model.pipeline import Pipeline as AnyPipeline


class Guarantee(StrEnum):
    """The sink's ``DeliveryGuarantee``."""

    NONE = "NONE"
    """The sink's default: a checkpoint does not wait for acknowledgements."""
    AT_LEAST_ONCE = "AT_LEAST_ONCE"
    """A checkpoint waits until everything sent is acknowledged."""
    EXACTLY_ONCE = "EXACTLY_ONCE"
    """One transaction for each checkpoint: pre-committed with the checkpoint, and committed when
    that is complete.
    """


class Naming(StrEnum):
    """The sink's ``TransactionNamingStrategy``."""

    INCREMENTING = "INCREMENTING"
    """Transactional ids count up; the sink finds open transactions by trying the next ids."""
    POOLING = "POOLING"
    """Transactional ids are used again; the sink finds open transactions by listing them."""


@dataclass(frozen=True, slots=True)
class JobSettings:
    """Settings of a job besides its topics."""

    guarantee: Guarantee
    naming: Naming = Naming.INCREMENTING
    linger_ms: int = 0
    """``linger.ms`` of the sink's producer."""
    prefix: str = "job"
    """The prefix of the transactional ids, after the cell's key."""
    later_prefix: str | None = None
    """The prefix of a job that is submitted again; ``None``: the same.

    A job with another prefix has the long default time-out: the cell's short time-out is for the
    first job's open transactions.
    """
    inputs: int = 1
    """The number of sources, among which the partitions are divided. A checkpoint waits for a
    barrier from each.
    """
    unaligned: bool = False
    """Whether checkpoints are unaligned: a barrier overtakes records, and does not wait for other
    inputs' barriers.
    """
    restarts: bool = True
    """Whether the JobManager restarts the job. Otherwise the job fails when its
    TaskManager dies.
    """


@dataclass(frozen=True, slots=True)
class FlinkSettings(Settings):
    """All settings of a semantic: lostack's producer, the topics, and the job between them."""

    job: JobSettings = field(default_factory=lambda: JobSettings(Guarantee.AT_LEAST_ONCE))

    def check(self, pipeline: AnyPipeline, *, clustered: bool) -> None:
        """Raise SettingsError if the settings do not fit: a job runs on one broker, and on a
        pipeline of Flink.
        """
        if clustered or self.topic.replicas > 1:
            raise SettingsError("a job runs on one broker")
        if pipeline.system != "flink":
            raise SettingsError(f"settings of a Flink job do not fit the pipeline {pipeline}")

    @property
    def stages(self) -> Settings:
        """The settings of lostack's producer."""
        return Settings(self.producer, self.consumer, self.topic, self.transaction_timeout_ms)


TRANSACTION_MS: Final = 600_000
"""The time-out of the sink's transactions: longer than any outage that is not meant to outlast it,
even on a busy machine.

After a kill of JobManager and TaskManager a job once needed 62 s to return; with 60 s its
pre-committed records were lost.
"""
_CHECKPOINT = ConsumerSettings(position=SavePosition.CHECKPOINT)
FLINK_AT_LEAST_ONCE: Final = FlinkSettings(
    AT_LEAST_ONCE.producer,
    _CHECKPOINT,
    transaction_timeout_ms=TRANSACTION_MS,
    job=JobSettings(Guarantee.AT_LEAST_ONCE),
)
FLINK_EXACTLY_ONCE: Final = FlinkSettings(
    EXACTLY_ONCE_IN_TRANSACTION.producer,
    replace(_CHECKPOINT, isolation="read_committed"),
    transaction_timeout_ms=TRANSACTION_MS,
    job=JobSettings(Guarantee.EXACTLY_ONCE),
)
FLINK_NONE: Final = replace(FLINK_AT_LEAST_ONCE, job=JobSettings(Guarantee.NONE))
"""The sink's default guarantee: cells that claim at-least-once with it must be convicted."""

JOB: Final = Pipeline(
    "flink-job",
    "flink",
    {Semantic.AT_LEAST_ONCE: FLINK_AT_LEAST_ONCE, Semantic.EXACTLY_ONCE: FLINK_EXACTLY_ONCE},
    to_topic=True,
)
"""outbox → producer → topic → job with state for each key → topic."""


def with_job(settings: FlinkSettings, **changes: object) -> FlinkSettings:
    """Return the settings with changes to the job."""
    return replace(settings, job=replace(settings.job, **changes))  # type: ignore[arg-type]  # its own fields
