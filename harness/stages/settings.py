"""The settings of lostack's own stages, and their pipelines: frozen, typed, and part of the
scenario, never hidden in a program.

There is a recipe for each semantic. A variant is a ``dataclasses.replace`` of one of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Self

from harness.model.pipeline import Pipeline, SettingsError
from harness.model.semantics import Semantic
from harness.model.states import Hop
from harness.stages.consumer_settings import ConsumerSettings, GroupProtocol, Members, SavePosition
from harness.stages.producer_settings import ProducerSettings, SaveCursor

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """The topic, or queue, between producer and consumer."""

    partitions: int = 3
    """The number of partitions; 0 for a queue, which has none."""
    flush_messages: int | None = None
    """``flush.messages``: 1 makes every append durable before it is acknowledged."""
    replicas: int = 1
    """The number of replicas; more than one needs a cluster."""
    min_insync: int = 1
    """``min.insync.replicas``: with fewer in sync, the broker refuses records that are sent with
    acks=all.
    """
    unclean: bool = False
    """``unclean.leader.election.enable``: whether a replica that is not in sync may lead if no
    other is left.
    """

    def __post_init__(self) -> None:
        if self.partitions < 0:
            raise SettingsError("partitions must be at least 1, or 0 for a queue")
        if not 1 <= self.min_insync <= self.replicas:
            raise SettingsError("min_insync must be at least 1 and at most the number of replicas")

    @property
    def is_queue(self) -> bool:
        """Whether it is a queue: messages are acknowledged one by one, and no log is kept."""
        return self.partitions == 0


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings that make a semantic. Implements :class:`harness.model.pipeline.Settings`."""

    producer: ProducerSettings
    consumer: ConsumerSettings
    topic: TopicSettings = field(default_factory=TopicSettings)
    transaction_timeout_ms: int = 60_000
    """The transaction time-out: longer than any outage in a cell (a time-out fences the producer),
    shorter than the drain.
    """

    @classmethod
    def of(cls, settings: object) -> Self:
        """Return a cell's settings, which are of this class.

        Raises:
            TypeError: the settings are another system's.
        """
        if not isinstance(settings, cls):
            raise TypeError(f"these are not {cls.__name__}: {settings}")
        return settings

    @property
    def unit(self) -> int:
        """The number of records per send, or per transaction of a transactional producer."""
        return self.producer.unit

    @property
    def patience_s(self) -> float:
        """How many seconds a producer may try before it gives a record up."""
        return self.producer.delivery_timeout_ms / 1000

    def logs(self, pipeline: Pipeline) -> Mapping[str, int]:
        """Return the number of partitions of each log that is read at the end, by its hop. A queue
        is not a log.
        """
        size = self.topic.partitions
        if self.topic.is_queue:
            return {}
        found = {} if self.consumer.protocol is GroupProtocol.SHARE else {Hop.TOPIC: size}
        if pipeline.to_topic:
            found[Hop.SINK] = size
        if self.producer.cursor is SaveCursor.IN_TRANSACTION:
            found[Hop.CURSOR] = 1
        return {str(hop): partitions for hop, partitions in found.items()}

    def check(self, pipeline: Pipeline, *, clustered: bool) -> None:
        """Raise SettingsError if the settings do not fit a pipeline, or need a cluster."""
        if self.topic.replicas > 1 and not clustered:
            raise SettingsError("several replicas need several brokers; use Deployment.CLUSTER")
        if self.consumer.position is SavePosition.CHECKPOINT and not _has_checkpoint(pipeline):
            raise SettingsError("only a streaming query has a checkpoint")
        shares = self.consumer.protocol is GroupProtocol.SHARE
        if shares != (pipeline == SHARED):
            raise SettingsError(
                "the pipeline shared is read by a share group, and other pipelines by consumer "
                "groups"
            )
        if shares and self.consumer.position not in {
            SavePosition.BEFORE_WORK,
            SavePosition.AFTER_RECORDING,
        }:
            raise SettingsError(
                "a share group must acknowledge records before the work, or after the recording"
            )
        if self.consumer.position is SavePosition.IN_TRANSACTION and not (
            pipeline.to_topic and not _has_checkpoint(pipeline)
        ):
            raise SettingsError(
                "offsets can be sent in a transaction only from topic to topic; "
                "use SavePosition.WITH_RESULT or an idempotent consumer"
            )


def _has_checkpoint(pipeline: Pipeline) -> bool:
    """Return whether the pipeline's reader is a streaming engine, which keeps a checkpoint."""
    return any(
        isinstance(each, Settings) and each.consumer.position is SavePosition.CHECKPOINT
        for each in pipeline.recipes.values()
    )


AT_MOST_ONCE = Settings(
    ProducerSettings(acks=1, retries=False, idempotence=False, cursor=SaveCursor.BEFORE_SEND),
    ConsumerSettings(position=SavePosition.BEFORE_WORK),
)
AT_LEAST_ONCE = Settings(
    ProducerSettings(
        acks="all", retries=True, idempotence=False, cursor=SaveCursor.AFTER_ACK, resend=True
    ),
    ConsumerSettings(position=SavePosition.AFTER_RECORDING),
)
TRANSACTIONAL: Final = ProducerSettings(
    acks="all",
    retries=True,
    idempotence=True,
    transactional=True,
    cursor=SaveCursor.IN_TRANSACTION,
    resend=True,
)
EXACTLY_ONCE = Settings(
    TRANSACTIONAL,
    ConsumerSettings(
        position=SavePosition.AFTER_RECORDING, idempotent=True, isolation="read_committed"
    ),
)
"""Exactly-once with an idempotent consumer, which commits its position to Kafka."""
EXACTLY_ONCE_WITH_RESULT = Settings(
    TRANSACTIONAL, ConsumerSettings(position=SavePosition.WITH_RESULT, isolation="read_committed")
)
"""Exactly-once with result and position in one database transaction."""
EXACTLY_ONCE_IN_TRANSACTION = Settings(
    TRANSACTIONAL,
    ConsumerSettings(position=SavePosition.IN_TRANSACTION, isolation="read_committed"),
)
"""Exactly-once from topic to topic: offsets are sent in the transaction of the results."""
_QUEUE = TopicSettings(partitions=0)
QUEUE_AT_MOST_ONCE = Settings(
    ProducerSettings(acks=0, retries=False, idempotence=False, cursor=SaveCursor.BEFORE_SEND),
    ConsumerSettings(position=SavePosition.AUTO),
    _QUEUE,
)
"""The defaults of a queue protocol: no receipt is requested, and the broker forgets a message when
it has dispatched it.
"""
QUEUE_AT_MOST_ONCE_ANSWERED = Settings(AT_MOST_ONCE.producer, AT_MOST_ONCE.consumer, _QUEUE)
"""Every request is answered: the producer requests receipts, and the consumer's acknowledgement is
confirmed before the work.
"""
QUEUE_AT_LEAST_ONCE = Settings(
    ProducerSettings(
        acks="all", retries=False, idempotence=False, cursor=SaveCursor.AFTER_ACK, resend=True
    ),
    ConsumerSettings(position=SavePosition.AFTER_RECORDING),
    _QUEUE,
)
QUEUE_EXACTLY_ONCE = replace(
    QUEUE_AT_LEAST_ONCE,
    consumer=ConsumerSettings(position=SavePosition.AFTER_RECORDING, idempotent=True),
)
"""Effectively once in the sink: a record that was sent or delivered twice is absorbed there by its
id, in the transaction of the result. The queue may hold a record twice; that is no violation.
"""
QUEUE_RECIPES = {
    Semantic.AT_MOST_ONCE: QUEUE_AT_MOST_ONCE,
    Semantic.AT_LEAST_ONCE: QUEUE_AT_LEAST_ONCE,
    Semantic.EXACTLY_ONCE: QUEUE_EXACTLY_ONCE,
}
QUEUE_EXACTLY_ONCE_BY_ID = replace(
    QUEUE_EXACTLY_ONCE, producer=replace(QUEUE_EXACTLY_ONCE.producer, idempotence=True)
)
"""The broker drops a record that is sent twice, by its id; the sink absorbs a record that is
delivered twice.
"""
QUEUE_RECIPES_BY_ID = QUEUE_RECIPES | {Semantic.EXACTLY_ONCE: QUEUE_EXACTLY_ONCE_BY_ID}


_RECIPES = {
    Semantic.AT_MOST_ONCE: AT_MOST_ONCE,
    Semantic.AT_LEAST_ONCE: AT_LEAST_ONCE,
    Semantic.EXACTLY_ONCE: EXACTLY_ONCE,
}
PLAIN: Final = Pipeline("plain", "kafka", _RECIPES, shares_death=True)
"""outbox → producer → topic → consumer → database."""
TO_POSTGRES: Final = Pipeline("to-postgres", "kafka", _RECIPES, on_server=True, shares_death=True)
"""The same, and the database is a PostgreSQL server."""
TOPIC_TO_TOPIC: Final = Pipeline(
    "topic-to-topic",
    "kafka",
    _RECIPES | {Semantic.EXACTLY_ONCE: EXACTLY_ONCE_IN_TRANSACTION},
    to_topic=True,
    shares_death=True,
)
"""outbox → producer → topic → processor → topic."""


def _shared(recipe: Settings) -> Settings:
    """Return a recipe with a share group instead of the consumer group.

    The topic has one partition, because a share group distributes single records. The session
    time-out is short.
    """
    consumer = replace(
        recipe.consumer,
        protocol=GroupProtocol.SHARE,
        members=Members.DYNAMIC,
        session_timeout_ms=3000,
    )
    return replace(recipe, consumer=consumer, topic=TopicSettings(partitions=1))


SHARED: Final = Pipeline(
    "shared",
    "kafka",
    {semantic: _shared(each) for semantic, each in _RECIPES.items()},
    shares_death=True,
)
"""outbox → producer → topic → share group → database."""


def queue_pipeline(system: str, *, by_id: bool = False) -> Pipeline:
    """Return the pipeline of a broker of queues: outbox → producer → queue → consumer → database.

    ``by_id``: the broker drops messages with a known id.
    """
    return (
        Pipeline(QUEUE_BY_ID, system, QUEUE_RECIPES_BY_ID)
        if by_id
        else Pipeline(QUEUE, system, QUEUE_RECIPES)
    )


QUEUE: Final = "queue"
QUEUE_BY_ID: Final = "queue-by-id"
PIPELINES: Final = (PLAIN, TO_POSTGRES, TOPIC_TO_TOPIC, SHARED)
"""The pipelines of lostack's own stages on Kafka, without an engine."""


def recipe(pipeline: Pipeline, semantic: Semantic) -> Settings:
    """Return the settings of a semantic on one of these pipelines."""
    return Settings.of(pipeline.recipes[semantic])
