"""The settings of our own stages, and their pipelines: frozen, typed, and part of the scenario, never hidden in a program.

The three recipes are section 1 of the design. A variant is ``dataclasses.replace`` of one of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Literal

from harness.model.pipeline import Pipeline, SettingsError
from harness.model.semantics import Semantic
from harness.model.states import Hop
from harness.stages.pushing import BY_LIBRARY, Acknowledge, PushSettings

if TYPE_CHECKING:
    from collections.abc import Mapping


class SaveCursor(StrEnum):
    """When the producer saves how far it has read its source."""

    BEFORE_SEND = "before-send"
    AFTER_ACK = "after-ack"
    IN_TRANSACTION = "in-transaction"
    """Written to a topic in the same Kafka transaction as the records."""
    AFTER_COMMIT = "after-commit"
    """Saved outside, after the Kafka transaction: the control that duplicates."""
    BETWEEN_PHASES = "between-phases"
    """Saved outside, when the broker has prepared the transaction and before it commits it: the decision of a two-phase commit,
    by which a program that starts ends what an earlier one has left prepared."""


class SavePosition(StrEnum):
    """When and where the consuming side saves its position."""

    BEFORE_WORK = "before-work"
    """Committed synchronously and confirmed, then worked on."""
    AFTER_RECORDING = "after-recording"
    WITH_RESULT = "with-result"
    """Result and position in one database transaction."""
    IN_TRANSACTION = "in-transaction"
    """Offsets sent in the Kafka transaction of the results (topic to topic)."""
    CHECKPOINT = "checkpoint"
    """Kept by the streaming engine in its checkpoint: planned before the work, committed after it."""
    AUTO = "auto"
    """The client's auto-commit, as people copy it; of a queue, the broker's own word when it has dispatched a message."""


class Members(StrEnum):
    """Group membership."""

    STATIC = "static"
    DYNAMIC = "dynamic"


class GroupProtocol(StrEnum):
    """Who shares the work among the readers of a group."""

    CLASSIC = "classic"
    """They do, by joining and syncing."""
    CONSUMER = "consumer"
    """The broker does (KIP-848): members say by their heartbeats what they have, and are told what they are to have."""
    SHARE = "share"
    """The broker does, record by record (KIP-932): a share group, to which the topic is a queue."""
    STREAMS = "streams"
    """The broker does, task by task (KIP-1071): the group of an application of Kafka Streams."""


class GroupMetadata(StrEnum):
    """When ``group_metadata()`` is taken; taken at commit time it no longer fences zombies."""

    AT_POLL = "at-poll"
    AT_COMMIT = "at-commit"


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """How records are sent. ``unit`` is records per send (per transaction, where there is one)."""

    acks: Literal[0, 1, "all"]
    """0: nobody is told anything. Of a queue, whose broker is one, the others are alike: a receipt is asked for."""
    retries: bool
    idempotence: bool
    """Of a queue: each message carries its record's id, for a broker that takes no id twice."""
    cursor: SaveCursor
    transactional: bool = False
    resend: bool = False
    """The program offers a record again after its client has given up."""
    unit: int = 1
    in_flight: int = 1
    """How many requests may wait for an answer; of JMS, in a transaction: where several may, its commit alone is waited for."""
    linger_ms: int = 100
    """How long the client waits for a unit of several records to be whole; a single one goes at once."""
    part_bytes: int | None = None
    """A message of more bytes goes in parts, each a message to its broker (Pulsar calls them chunks); none: it goes whole."""
    in_step: bool = False
    """Each message of a unit is acknowledged before the next one is sent."""
    aborts_first: bool = False
    """Each unit is sent in a transaction that the program aborts, and then in one that it commits."""
    fresh: bool = False
    """Each transaction has a producer of its own, whose beginning raises the epoch."""
    recovers: bool = True
    """A program that starts ends what an earlier one has left prepared; else nobody does."""
    own_id: bool = False
    """Each process has a transactional id of its own, which fences no other."""
    metadata_max_age_ms: int | None = None
    """How old what the client knows of a topic may grow before it asks again; none: the client's own, five minutes."""
    request_timeout_ms: int = 15_000
    delivery_timeout_ms: int = 60_000
    """How long the client tries before it gives a record up (a third of it where it does not retry)."""

    def __post_init__(self) -> None:
        if self.transactional and not self.idempotence:
            raise SettingsError("a transactional producer is idempotent: idempotence=False cannot be")
        if self.cursor in {SaveCursor.IN_TRANSACTION, SaveCursor.BETWEEN_PHASES} and not self.transactional:
            raise SettingsError("a cursor can be saved in a transaction only by a transactional producer")
        if (self.aborts_first or self.fresh or self.own_id) and not self.transactional:
            raise SettingsError("aborts_first, fresh and own_id are about transactions: the producer must be transactional")
        if self.resend and self.acks == 0:
            raise SettingsError("with acks=0 nobody learns that a record should be sent again: resend cannot be")
        if self.unit < 1 or self.in_flight < 1:
            raise SettingsError("unit and in_flight count from 1")
        if not 0 < self.request_timeout_ms < self.delivery_timeout_ms:
            raise SettingsError("a delivery takes at least one request: delivery_timeout_ms must exceed request_timeout_ms")

    @property
    def names_records(self) -> bool:
        """Whether a record goes by its number in the source, by which a broker of Pulsar that deduplicates knows it."""
        return self.idempotence and not self.transactional

    @property
    def max_block_ms(self) -> int:
        """How long a call, the one that commits among them, may wait for a broker: as a delivery does, within 20 to 60 s."""
        return min(max(20_000, self.delivery_timeout_ms), 60_000)


SESSION_MS: Final = 6000
"""The session of a dynamic member, and the pace of every member's heartbeats, where a scenario names no session."""
OUTLIVES_MS: Final = 120_000
"""The session of a static member likewise: longer than a broker needs to come back, on a slow machine, too.

A client that hears nothing for as long as its session lasts believes that it has been put out: it forgets its place, and
begins at the saved position again (Java), or is refused for ever (librdkafka #3437). That is a scenario of its own.
"""


@dataclass(frozen=True, slots=True)
class ShareSettings:
    """What a share group is told of itself, and how its readers acknowledge."""

    lock_ms: int = 30_000
    """For how long a record is a reader's own (``share.record.lock.duration.ms``)."""
    limit: int = 5
    """How often a record is delivered (``share.delivery.count.limit``)."""
    implicit: bool = False
    """What is polled next acknowledges what was polled last, in one request (``share.acknowledgement.mode``)."""
    rejects: bool = False
    """A record whose work fails is rejected, for ever; else it is released, for another attempt."""
    poisoned: bool = False
    """Work on a record that has failed fails always."""


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    """How records are consumed. ``unit`` is records per poll."""

    position: SavePosition
    idempotent: bool = False
    """Ids already recorded are absorbed, in the result's own database transaction; of a query with state, the result of
    a key takes the place of the one before."""
    isolation: Literal["read_committed", "read_uncommitted"] = "read_uncommitted"
    unit: int = 1
    count: int = 1
    """How many consumers share the group."""
    members: Members = Members.STATIC
    session_timeout_ms: int | None = None
    """None: :data:`SESSION_MS`, or as a static member :data:`OUTLIVES_MS`."""
    group_metadata: GroupMetadata = GroupMetadata.AT_POLL
    auto_commit_interval_ms: int = 5000
    reset: Literal["earliest", "latest", "none"] = "earliest"
    """``auto.offset.reset``: where to go on when no position is saved. What begins elsewhere than at the earliest record is
    given a position at the beginning before it starts, as an administrator would."""
    metadata_max_age_ms: int | None = None
    """As a producer's: how soon a member learns of partitions that were added."""
    request_timeout_ms: int | None = None
    """None: a little longer than the session time-out."""
    executors: int = 0
    """JVMs that run the tasks of a streaming query; none: threads of its driver."""
    durable: bool = True
    """A commit is answered by the database server when it is written down; else soon, and written down later."""
    per_batch: bool = False
    """A batch of a streaming query and its number are recorded in one database transaction, once."""
    fail_on_loss: bool = True
    """A streaming query ends with an error where the log no longer has what it is to read; else it goes on without it."""
    assigned: bool = False
    """A streaming query reads the partitions that there were when it was written (assign), not the topic's (subscribe)."""
    listed: bool = False
    """Files are read by listing their folder, not through the log of the sink that wrote them."""
    protocol: GroupProtocol = GroupProtocol.CLASSIC
    """Of a share group, to save a position means to acknowledge records: there is none that it has."""
    share: ShareSettings = field(default_factory=ShareSettings)
    mode: Acknowledge | None = None
    """Of a client of JMS. None: what fits ``position``, AUTO or INDIVIDUAL."""
    blocking: bool = True
    """A client of JMS waits for the answer to an acknowledgement."""
    push: PushSettings = field(default_factory=PushSettings)

    def __post_init__(self) -> None:
        if self.unit < 1 or self.count < 1:
            raise SettingsError("unit and count count from 1")
        if self.mode is not None and (self.mode in BY_LIBRARY) != (self.position is SavePosition.AUTO):
            raise SettingsError(f"the mode {self.mode} does not acknowledge when the position says: {self.position}")

    @property
    def acknowledges(self) -> Acknowledge:
        """How a client of JMS acknowledges."""
        return self.mode or (Acknowledge.AUTO if self.position is SavePosition.AUTO else Acknowledge.INDIVIDUAL)

    @property
    def session_ms(self) -> int:
        """The session time-out."""
        return self.session_timeout_ms or (OUTLIVES_MS if self.members is Members.STATIC else SESSION_MS)

    @property
    def heartbeat_ms(self) -> int:
        """How often a member tells its group that it lives."""
        return max(100, (self.session_timeout_ms or SESSION_MS) // 10)

    @property
    def patience_ms(self) -> int:
        """How long a consumer waits for an answer."""
        return self.request_timeout_ms or max(15_000, (self.session_timeout_ms or SESSION_MS) + 1000)


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """The topic, or queue, between producer and consumer."""

    partitions: int = 3
    """0: it is a queue, which has none."""
    flush_messages: int | None = None
    """``flush.messages``: 1 makes every append durable before it is acknowledged."""
    replicas: int = 1
    """How many brokers keep a copy; more than one needs a cluster."""
    min_insync: int = 1
    """``min.insync.replicas``: with fewer in sync, what asks for all acks is refused."""
    unclean: bool = False
    """``unclean.leader.election.enable``: a replica that is not in sync may lead where no other is left."""

    def __post_init__(self) -> None:
        if self.partitions < 0:
            raise SettingsError("partitions count from 1; a queue has 0")
        if not 1 <= self.min_insync <= self.replicas:
            raise SettingsError("min_insync counts replicas: from 1 to how many there are")

    @property
    def is_queue(self) -> bool:
        """Whether what is read of it is acknowledged message by message, and no log is kept of it."""
        return self.partitions == 0


@dataclass(frozen=True, slots=True)
class Settings:
    """All that a semantic consists of. Implements :class:`harness.model.pipeline.Settings`."""

    producer: ProducerSettings
    consumer: ConsumerSettings
    topic: TopicSettings = field(default_factory=TopicSettings)
    transaction_timeout_ms: int = 60_000
    """Longer than any outage here (a time-out fences the producer), shorter than the drain."""

    @property
    def unit(self) -> int:
        """Records per send, or per transaction, where there is one."""
        return self.producer.unit

    @property
    def patience_s(self) -> float:
        """How long a producer may try before it gives a record up."""
        return self.producer.delivery_timeout_ms / 1000

    def logs(self, pipeline: Pipeline) -> Mapping[str, int]:
        """Return how many partitions each log has that is read at the end, by its hop. A queue is none."""
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
        """Raise SettingsError where they cannot be on a pipeline, or without a cluster."""
        if self.topic.replicas > 1 and not clustered:
            raise SettingsError("one broker keeps one replica; use Deployment.CLUSTER")
        if self.consumer.position is SavePosition.CHECKPOINT and pipeline not in STREAMING:
            raise SettingsError("only a streaming query has a checkpoint")
        shares = self.consumer.protocol is GroupProtocol.SHARE
        if shares != (pipeline == SHARED):
            raise SettingsError("a share group reads the pipeline that is called shared, and no other group does")
        if shares and self.consumer.position not in {SavePosition.BEFORE_WORK, SavePosition.AFTER_RECORDING}:
            raise SettingsError("what a share group is given is acknowledged before the work, or after the recording")
        if self.consumer.position is SavePosition.IN_TRANSACTION and not (pipeline.to_topic and pipeline not in STREAMING):
            raise SettingsError(
                "offsets can be sent in a transaction only from topic to topic; "
                "use SavePosition.WITH_RESULT or an idempotent consumer"
            )


AT_MOST_ONCE = Settings(
    ProducerSettings(acks=1, retries=False, idempotence=False, cursor=SaveCursor.BEFORE_SEND),
    ConsumerSettings(position=SavePosition.BEFORE_WORK),
)
AT_LEAST_ONCE = Settings(
    ProducerSettings(acks="all", retries=True, idempotence=False, cursor=SaveCursor.AFTER_ACK, resend=True),
    ConsumerSettings(position=SavePosition.AFTER_RECORDING),
)
_TRANSACTIONAL = ProducerSettings(
    acks="all", retries=True, idempotence=True, transactional=True, cursor=SaveCursor.IN_TRANSACTION, resend=True
)
EXACTLY_ONCE = Settings(
    _TRANSACTIONAL,
    ConsumerSettings(position=SavePosition.AFTER_RECORDING, idempotent=True, isolation="read_committed"),
)
"""With the idempotent consumer, which commits to Kafka."""
EXACTLY_ONCE_WITH_RESULT = Settings(
    _TRANSACTIONAL, ConsumerSettings(position=SavePosition.WITH_RESULT, isolation="read_committed")
)
"""With result and position in one database transaction."""
EXACTLY_ONCE_IN_TRANSACTION = Settings(
    _TRANSACTIONAL, ConsumerSettings(position=SavePosition.IN_TRANSACTION, isolation="read_committed")
)
"""Topic to topic: offsets sent in the transaction of the results."""
STREAM_AT_MOST_ONCE = Settings(AT_MOST_ONCE.producer, ConsumerSettings(position=SavePosition.BEFORE_WORK, unit=6))
"""A streaming query whose position is kept outside its checkpoint and saved before each batch is worked on."""
STREAM_AT_LEAST_ONCE = Settings(AT_LEAST_ONCE.producer, ConsumerSettings(position=SavePosition.CHECKPOINT, unit=6))
"""With a checkpoint and a sink that appends."""
STREAM_EXACTLY_ONCE = Settings(
    _TRANSACTIONAL, ConsumerSettings(position=SavePosition.CHECKPOINT, idempotent=True, isolation="read_committed", unit=12)
)
"""With a checkpoint and a sink that absorbs what it has. Its unit counts offsets: a marker stands behind each record."""


_QUEUE = TopicSettings(partitions=0)
QUEUE_AT_MOST_ONCE = Settings(
    ProducerSettings(acks=0, retries=False, idempotence=False, cursor=SaveCursor.BEFORE_SEND),
    ConsumerSettings(position=SavePosition.AUTO), _QUEUE,
)  # fmt: skip
"""As a protocol's defaults are: no receipt is asked for, and the broker forgets what it has dispatched."""
QUEUE_AT_MOST_ONCE_ANSWERED = Settings(AT_MOST_ONCE.producer, AT_MOST_ONCE.consumer, _QUEUE)
"""Everything is answered: who sends asks for a receipt, and who consumes acknowledges before the work, once that is taken."""
QUEUE_AT_LEAST_ONCE = Settings(
    ProducerSettings(acks="all", retries=False, idempotence=False, cursor=SaveCursor.AFTER_ACK, resend=True),
    ConsumerSettings(position=SavePosition.AFTER_RECORDING), _QUEUE,
)  # fmt: skip
QUEUE_EXACTLY_ONCE = replace(
    QUEUE_AT_LEAST_ONCE, consumer=ConsumerSettings(position=SavePosition.AFTER_RECORDING, idempotent=True)
)
"""Effectively once, in the sink: what was sent twice, or delivered twice, is absorbed there by the record's id, in the
transaction of the result. The queue may hold a record twice, and nothing is claimed of that."""
QUEUE_RECIPES = {
    Semantic.AT_MOST_ONCE: QUEUE_AT_MOST_ONCE, Semantic.AT_LEAST_ONCE: QUEUE_AT_LEAST_ONCE,
    Semantic.EXACTLY_ONCE: QUEUE_EXACTLY_ONCE,
}  # fmt: skip
QUEUE_EXACTLY_ONCE_BY_ID = replace(QUEUE_EXACTLY_ONCE, producer=replace(QUEUE_EXACTLY_ONCE.producer, idempotence=True))
"""The broker absorbs what is sent twice, by the record's id; the sink what is delivered twice."""
QUEUE_RECIPES_BY_ID = QUEUE_RECIPES | {Semantic.EXACTLY_ONCE: QUEUE_EXACTLY_ONCE_BY_ID}


_RECIPES = {
    Semantic.AT_MOST_ONCE: AT_MOST_ONCE, Semantic.AT_LEAST_ONCE: AT_LEAST_ONCE, Semantic.EXACTLY_ONCE: EXACTLY_ONCE,
}  # fmt: skip
PLAIN: Final = Pipeline("plain", "kafka", _RECIPES, shares_death=True)
"""outbox → producer → topic → consumer → database."""
TO_POSTGRES: Final = Pipeline("to-postgres", "kafka", _RECIPES, on_server=True, shares_death=True)
"""The same, and the database is a PostgreSQL server."""
TOPIC_TO_TOPIC: Final = Pipeline(
    "topic-to-topic", "kafka", _RECIPES | {Semantic.EXACTLY_ONCE: EXACTLY_ONCE_IN_TRANSACTION}, to_topic=True, shares_death=True
)
"""outbox → producer → topic → processor → topic."""


def _shared(recipe: Settings) -> Settings:
    """Return a recipe with a share group in the place of the consumer group.

    One partition: a share group's work is shared by records. A member that died without a word is put out soon.
    """
    consumer = replace(recipe.consumer, protocol=GroupProtocol.SHARE, members=Members.DYNAMIC, session_timeout_ms=3000)
    return replace(recipe, consumer=consumer, topic=TopicSettings(partitions=1))


SHARED: Final = Pipeline("shared", "kafka", {semantic: _shared(each) for semantic, each in _RECIPES.items()}, shares_death=True)
"""outbox → producer → topic → share group → database."""


def _of_a_query(*, replaces: bool = False, listed: bool = False, absorbs: bool = False) -> Mapping[Semantic, Settings]:
    """Return the recipes of a streaming query.

    ``replaces``: its results take the place of those before; ``listed``: its files are read by listing their folder;
    ``absorbs``: its sink takes no id twice.
    """
    once = replace(STREAM_AT_MOST_ONCE.consumer, idempotent=replaces)
    again = replace(STREAM_AT_LEAST_ONCE.consumer, listed=listed)
    exactly = replace(STREAM_EXACTLY_ONCE.consumer, idempotent=absorbs)
    return {
        Semantic.AT_MOST_ONCE: replace(STREAM_AT_MOST_ONCE, consumer=once),
        Semantic.AT_LEAST_ONCE: replace(STREAM_AT_LEAST_ONCE, consumer=again),
        Semantic.EXACTLY_ONCE: replace(STREAM_EXACTLY_ONCE, consumer=exactly),
    }


def queue_pipeline(system: str, *, by_id: bool = False) -> Pipeline:
    """Return the pipeline of a broker of queues: outbox → producer → queue → consumer → database.

    ``by_id``: of a broker that takes no id twice.
    """
    return Pipeline(QUEUE_BY_ID, system, QUEUE_RECIPES_BY_ID) if by_id else Pipeline(QUEUE, system, QUEUE_RECIPES)


QUEUE: Final = "queue"
QUEUE_BY_ID: Final = "queue-by-id"
STREAM_TO_DATABASE: Final = Pipeline("stream-to-database", "spark", _of_a_query(absorbs=True))
"""outbox → producer → topic → streaming query → database, by foreachBatch."""
STREAM_TO_POSTGRES: Final = Pipeline("stream-to-postgres", "spark", _of_a_query(absorbs=True), on_server=True)
"""The same, and the database is a PostgreSQL server."""
STREAM_TO_FILES: Final = Pipeline("stream-to-files", "spark", _of_a_query(listed=True))
"""outbox → producer → topic → streaming query → Parquet files."""
STREAM_TO_TOPIC: Final = Pipeline("stream-to-topic", "spark", _of_a_query(), to_topic=True)
"""outbox → producer → topic → streaming query → topic."""
STREAM_TO_STATE: Final = Pipeline("stream-to-state", "spark", _of_a_query(replaces=True, absorbs=True))
"""outbox → producer → topic → streaming aggregation with a state store → database, by foreachBatch in update mode."""
BY_FOREACH_BATCH: Final = (STREAM_TO_DATABASE, STREAM_TO_POSTGRES, STREAM_TO_STATE)
STREAMING: Final = (*BY_FOREACH_BATCH, STREAM_TO_FILES, STREAM_TO_TOPIC)
PIPELINES: Final = {pipeline.name: pipeline for pipeline in (PLAIN, TO_POSTGRES, TOPIC_TO_TOPIC, SHARED, *STREAMING)}
"""Every pipeline of our own stages, by its name."""


def recipe(pipeline: Pipeline, semantic: Semantic) -> Settings:
    """Return the settings of a semantic on one of these pipelines."""
    found = pipeline.recipes[semantic]
    if not isinstance(found, Settings):
        raise TypeError(f"{pipeline} is none of our stages'")
    return found


def ours(settings: object) -> Settings:
    """Return the settings of a cell whose stages are ours.

    Raises:
        TypeError: the cell's stages are not ours.
    """
    if not isinstance(settings, Settings):
        raise TypeError(f"these are no settings of our stages: {settings}")
    return settings
