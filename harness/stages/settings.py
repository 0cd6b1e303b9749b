"""The settings of lostack's own stages, and their pipelines: frozen, typed, and part of the
scenario, never hidden in a program.

There is a recipe for each semantic. A variant is a ``dataclasses.replace`` of one of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Literal

from harness.model.pipeline import Pipeline, SettingsError
from harness.model.semantics import Semantic
from harness.model.states import Hop
from harness.stages.pushing import BY_LIBRARY, Acknowledge, JmsSettings, PushSettings
from harness.stages.querying import QuerySettings

if TYPE_CHECKING:
    from collections.abc import Mapping


class SaveCursor(StrEnum):
    """When the producer saves its cursor, the next position of the source."""

    BEFORE_SEND = "before-send"
    AFTER_ACK = "after-ack"
    IN_TRANSACTION = "in-transaction"
    """Written to a topic in the same Kafka transaction as the records."""
    AFTER_COMMIT = "after-commit"
    """Saved outside, after the Kafka transaction: a control, which must duplicate."""
    BETWEEN_PHASES = "between-phases"
    """Saved outside, after the broker has prepared the transaction and before it commits: the
    decision of a two-phase commit. A program that starts ends by it the transactions that an
    earlier program left prepared.
    """


class SavePosition(StrEnum):
    """When and where the consuming side saves its position."""

    BEFORE_WORK = "before-work"
    """Committed synchronously and confirmed, before the work."""
    AFTER_RECORDING = "after-recording"
    WITH_RESULT = "with-result"
    """Result and position in one database transaction."""
    IN_TRANSACTION = "in-transaction"
    """Offsets sent in the Kafka transaction of the results (topic to topic)."""
    CHECKPOINT = "checkpoint"
    """Kept by the streaming engine in its checkpoint: planned before the work, and committed after
    it.
    """
    AUTO = "auto"
    """Saved by the client's auto-commit, as many programs do; for a queue, the broker takes a
    dispatched message as done.
    """


class Members(StrEnum):
    """Group membership."""

    STATIC = "static"
    DYNAMIC = "dynamic"


class GroupProtocol(StrEnum):
    """Who assigns the work to the readers of a group."""

    CLASSIC = "classic"
    """The readers do, by JoinGroup and SyncGroup requests."""
    CONSUMER = "consumer"
    """The broker does (KIP-848): members report their partitions in heartbeats, and the answers
    assign partitions.
    """
    SHARE = "share"
    """The broker does, record by record (KIP-932): a share group, which reads the topic like a
    queue.
    """
    STREAMS = "streams"
    """The broker does, task by task (KIP-1071): the group of an application of Kafka Streams."""


class GroupMetadata(StrEnum):
    """When ``group_metadata()`` is taken; taken at commit time it no longer fences zombies."""

    AT_POLL = "at-poll"
    AT_COMMIT = "at-commit"


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """How records are sent. ``unit``: records per send (per transaction, if the producer is
    transactional).
    """

    acks: Literal[0, 1, "all"]
    """The acknowledgements that a send waits for. 0: none. For a queue, every other value means to
    request a receipt.
    """
    retries: bool
    idempotence: bool
    """For a queue: each message carries its record's id, for a broker that drops messages with a
    known id.
    """
    cursor: SaveCursor
    transactional: bool = False
    resend: bool = False
    """Whether the program sends a record again after its client has given up."""
    unit: int = 1
    in_flight: int = 1
    """How many requests may wait for an answer. For JMS in a transaction, more than 1 means: wait
    for the commit only.
    """
    linger_ms: int = 100
    """How long the client waits to fill a batch if a unit has several records. A unit of one record
    is sent at once.
    """
    part_bytes: int | None = None
    """A message with more bytes is sent in parts (Pulsar's chunks), each a message to the broker;
    ``None``: never in parts.
    """
    in_step: bool = False
    """Whether each message of a unit must be acknowledged before the next one is sent."""
    aborts_first: bool = False
    """Whether each unit is first sent in a transaction that the program aborts, and then in one
    that it commits.
    """
    fresh: bool = False
    """Whether each transaction has a new producer, whose start raises the epoch."""
    recovers: bool = True
    """Whether a program that starts ends the transactions that an earlier program left prepared."""
    named: bool = False
    """Whether, on a queue, each message of a transaction carries its record's id as well."""
    catches_up: int | None = None
    """How many records a restarted program puts into a unit, because more came meanwhile; ``None``:
    as many as before.
    """
    own_id: bool = False
    """Whether each process has its own transactional id, and so fences no other."""
    metadata_max_age_ms: int | None = None
    """The maximal age of the client's metadata before it asks again; ``None``: the client's
    default, five minutes.
    """
    request_timeout_ms: int = 15_000
    delivery_timeout_ms: int = 60_000
    """How long the client tries before it gives a record up (a third of it if it does
    not retry).
    """

    def __post_init__(self) -> None:
        if self.transactional and not self.idempotence:
            raise SettingsError(
                "a transactional producer is always idempotent: do not set idempotence=False"
            )
        if (
            self.cursor in {SaveCursor.IN_TRANSACTION, SaveCursor.BETWEEN_PHASES}
            and not self.transactional
        ):
            raise SettingsError(
                "a cursor can be saved in a transaction only by a transactional producer"
            )
        if (self.aborts_first or self.fresh or self.own_id) and not self.transactional:
            raise SettingsError("aborts_first, fresh and own_id need a transactional producer")
        if self.named and not self.transactional:
            raise SettingsError(
                "named needs a transactional producer: without transactions, set idempotence "
                "instead"
            )
        if self.resend and self.acks == 0:
            raise SettingsError(
                "with acks=0 the program cannot know that it must send a record again: do not "
                "set resend"
            )
        if (
            min(
                self.unit, self.in_flight, self.unit if self.catches_up is None else self.catches_up
            )
            < 1
        ):
            raise SettingsError("unit, catches_up and in_flight must be at least 1")
        if not 0 < self.request_timeout_ms < self.delivery_timeout_ms:
            raise SettingsError(
                "a delivery takes at least one request: delivery_timeout_ms must exceed "
                "request_timeout_ms"
            )

    @property
    def names_records(self) -> bool:
        """Whether a message is numbered by its record's position in the source, by which a Pulsar
        broker deduplicates.
        """
        return self.idempotence and not self.transactional

    @property
    def by_id(self) -> bool:
        """Whether each message of a queue carries its record's id."""
        return self.named or self.names_records

    @property
    def max_block_ms(self) -> int:
        """How long a call, such as a commit, may wait for a broker: as long as a delivery, but at
        least 20 s and at most 60 s.
        """
        return min(max(20_000, self.delivery_timeout_ms), 60_000)


SESSION_MS: Final = 6000
"""The default session time-out of a dynamic member. The interval of every member's heartbeats is
derived from it.
"""
OUTLIVES_MS: Final = 120_000
"""The default session time-out of a static member: longer than a broker's restart takes, even on a
slow machine.

A client that gets no answer for the length of its session assumes that the group has removed it. It
then starts again at the saved position (Java), or is refused for ever (librdkafka #3437). A
separate scenario tries that.
"""


@dataclass(frozen=True, slots=True)
class ShareSettings:
    """Settings of a share group, and how its readers acknowledge."""

    lock_ms: int = 30_000
    """For how long a record is locked for a reader (``share.record.lock.duration.ms``)."""
    limit: int = 5
    """How often a record is delivered at most (``share.delivery.count.limit``)."""
    implicit: bool = False
    """Whether a poll acknowledges the records of the poll before, in one request
    (``share.acknowledgement.mode``).
    """
    rejects: bool = False
    """Whether a record whose work fails is rejected (never delivered again); otherwise it is
    released for another attempt.
    """
    poisoned: bool = False
    """Whether work on a record that failed once fails always."""


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    """How records are consumed. ``unit``: records per poll."""

    position: SavePosition
    idempotent: bool = False
    """Whether records with a known id are absorbed, in the result's database transaction. In a
    query with state, a key's new result replaces the one before.
    """
    isolation: Literal["read_committed", "read_uncommitted"] = "read_uncommitted"
    unit: int = 1
    count: int = 1
    """How many consumers share the group."""
    members: Members = Members.STATIC
    session_timeout_ms: int | None = None
    """``None``: :data:`SESSION_MS`, or :data:`OUTLIVES_MS` for a static member."""
    group_metadata: GroupMetadata = GroupMetadata.AT_POLL
    auto_commit_interval_ms: int = 5000
    reset: Literal["earliest", "latest", "none"] = "earliest"
    """``auto.offset.reset``: where to start if no position is saved. With another value than
    ``earliest``, lostack saves a position at the beginning before the start, as an administrator
    would.
    """
    metadata_max_age_ms: int | None = None
    """The same as a producer's: how soon a member learns of added partitions."""
    request_timeout_ms: int | None = None
    """``None``: a little longer than the session time-out."""
    durable: bool = True
    """Whether the database server writes a commit to disk before it answers
    (``synchronous_commit``).
    """
    protocol: GroupProtocol = GroupProtocol.CLASSIC
    """Settings of a share group. For it, saving the position means acknowledging records."""
    share: ShareSettings = field(default_factory=ShareSettings)
    query: QuerySettings = field(default_factory=QuerySettings)
    jms: JmsSettings = field(default_factory=JmsSettings)
    push: PushSettings = field(default_factory=PushSettings)

    def __post_init__(self) -> None:
        if self.unit < 1 or self.count < 1:
            raise SettingsError("unit and count must be at least 1")
        mode = self.jms.mode
        if mode is not None and (mode in BY_LIBRARY) != (self.position is SavePosition.AUTO):
            raise SettingsError(
                f"the acknowledgement mode {mode} does not fit the position {self.position}"
            )

    @property
    def acknowledges(self) -> Acknowledge:
        """The acknowledgement mode of a JMS client."""
        return self.jms.mode or (
            Acknowledge.AUTO if self.position is SavePosition.AUTO else Acknowledge.INDIVIDUAL
        )

    @property
    def session_ms(self) -> int:
        """The session time-out."""
        return self.session_timeout_ms or (
            OUTLIVES_MS if self.members is Members.STATIC else SESSION_MS
        )

    @property
    def heartbeat_ms(self) -> int:
        """The interval of a member's heartbeats in milliseconds."""
        return max(100, (self.session_timeout_ms or SESSION_MS) // 10)

    @property
    def patience_ms(self) -> int:
        """How many milliseconds a consumer waits for an answer."""
        return self.request_timeout_ms or max(
            15_000, (self.session_timeout_ms or SESSION_MS) + 1000
        )


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
        if self.consumer.position is SavePosition.CHECKPOINT and pipeline not in STREAMING:
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
            pipeline.to_topic and pipeline not in STREAMING
        ):
            raise SettingsError(
                "offsets can be sent in a transaction only from topic to topic; "
                "use SavePosition.WITH_RESULT or an idempotent consumer"
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
_TRANSACTIONAL = ProducerSettings(
    acks="all",
    retries=True,
    idempotence=True,
    transactional=True,
    cursor=SaveCursor.IN_TRANSACTION,
    resend=True,
)
EXACTLY_ONCE = Settings(
    _TRANSACTIONAL,
    ConsumerSettings(
        position=SavePosition.AFTER_RECORDING, idempotent=True, isolation="read_committed"
    ),
)
"""Exactly-once with an idempotent consumer, which commits its position to Kafka."""
EXACTLY_ONCE_WITH_RESULT = Settings(
    _TRANSACTIONAL, ConsumerSettings(position=SavePosition.WITH_RESULT, isolation="read_committed")
)
"""Exactly-once with result and position in one database transaction."""
EXACTLY_ONCE_IN_TRANSACTION = Settings(
    _TRANSACTIONAL,
    ConsumerSettings(position=SavePosition.IN_TRANSACTION, isolation="read_committed"),
)
"""Exactly-once from topic to topic: offsets are sent in the transaction of the results."""
STREAM_AT_MOST_ONCE = Settings(
    AT_MOST_ONCE.producer, ConsumerSettings(position=SavePosition.BEFORE_WORK, unit=6)
)
"""A streaming query whose position is kept outside its checkpoint and saved before each batch is
worked on.
"""
STREAM_AT_LEAST_ONCE = Settings(
    AT_LEAST_ONCE.producer, ConsumerSettings(position=SavePosition.CHECKPOINT, unit=6)
)
"""A streaming query with a checkpoint and a sink that appends."""
STREAM_EXACTLY_ONCE = Settings(
    _TRANSACTIONAL,
    ConsumerSettings(
        position=SavePosition.CHECKPOINT, idempotent=True, isolation="read_committed", unit=12
    ),
)
"""A streaming query with a checkpoint and an idempotent sink. Its unit counts offsets; each record
is followed by a marker.
"""


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


def _of_a_query(
    *, replaces: bool = False, listed: bool = False, absorbs: bool = False
) -> Mapping[Semantic, Settings]:
    """Return the recipes of a streaming query.

    ``replaces``: a new result replaces the one before. ``listed``: its files are read by listing
    their folder. ``absorbs``: its sink absorbs records with a known id.
    """
    once = replace(STREAM_AT_MOST_ONCE.consumer, idempotent=replaces)
    again = replace(STREAM_AT_LEAST_ONCE.consumer, query=QuerySettings(listed=listed))
    exactly = replace(STREAM_EXACTLY_ONCE.consumer, idempotent=absorbs)
    return {
        Semantic.AT_MOST_ONCE: replace(STREAM_AT_MOST_ONCE, consumer=once),
        Semantic.AT_LEAST_ONCE: replace(STREAM_AT_LEAST_ONCE, consumer=again),
        Semantic.EXACTLY_ONCE: replace(STREAM_EXACTLY_ONCE, consumer=exactly),
    }


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
STREAM_TO_DATABASE: Final = Pipeline("stream-to-database", "spark", _of_a_query(absorbs=True))
"""outbox → producer → topic → streaming query → database, by foreachBatch."""
STREAM_TO_POSTGRES: Final = Pipeline(
    "stream-to-postgres", "spark", _of_a_query(absorbs=True), on_server=True
)
"""The same, and the database is a PostgreSQL server."""
STREAM_TO_FILES: Final = Pipeline("stream-to-files", "spark", _of_a_query(listed=True))
"""outbox → producer → topic → streaming query → Parquet files."""
STREAM_TO_TOPIC: Final = Pipeline("stream-to-topic", "spark", _of_a_query(), to_topic=True)
"""outbox → producer → topic → streaming query → topic."""
STREAM_TO_STATE: Final = Pipeline(
    "stream-to-state", "spark", _of_a_query(replaces=True, absorbs=True)
)
"""outbox → producer → topic → streaming aggregation with a state store → database, by foreachBatch
in update mode.
"""
BY_FOREACH_BATCH: Final = (STREAM_TO_DATABASE, STREAM_TO_POSTGRES, STREAM_TO_STATE)
STREAMING: Final = (*BY_FOREACH_BATCH, STREAM_TO_FILES, STREAM_TO_TOPIC)
PIPELINES: Final = {
    pipeline.name: pipeline for pipeline in (PLAIN, TO_POSTGRES, TOPIC_TO_TOPIC, SHARED, *STREAMING)
}
"""Every pipeline of lostack's own stages, by its name."""


def recipe(pipeline: Pipeline, semantic: Semantic) -> Settings:
    """Return the settings of a semantic on one of these pipelines."""
    found = pipeline.recipes[semantic]
    if not isinstance(found, Settings):
        raise TypeError(f"{pipeline} is not a pipeline of lostack's own stages")
    return found


def ours(settings: object) -> Settings:
    """Return the settings of a cell with lostack's own stages.

    Raises:
        TypeError: the cell has other stages.
    """
    if not isinstance(settings, Settings):
        raise TypeError(f"these are not settings of lostack's own stages: {settings}")
    return settings
