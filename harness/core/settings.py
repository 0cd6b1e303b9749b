"""The settings behind a semantic: frozen, typed, and part of the scenario, never a default hidden in a program.

The three recipes at the end are section 1 of the design. A variant is ``dataclasses.replace`` of one of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from harness.core.semantics import Semantic


class SettingsError(ValueError):
    """A combination that cannot exist; the message says why."""


class PipelineKind(StrEnum):
    """The shape of a pipeline."""

    PLAIN = "plain"
    """outbox → producer → topic → consumer → database."""
    TOPIC_TO_TOPIC = "topic-to-topic"
    """outbox → producer → topic → processor → topic."""


class SaveCursor(StrEnum):
    """When the producer saves how far it has read its source."""

    BEFORE_SEND = "before-send"
    AFTER_ACK = "after-ack"
    IN_TRANSACTION = "in-transaction"
    """Written to a topic in the same Kafka transaction as the records."""
    AFTER_COMMIT = "after-commit"
    """Saved outside, after the Kafka transaction: the control that duplicates."""


class SavePosition(StrEnum):
    """When and where the consuming side saves its position."""

    BEFORE_WORK = "before-work"
    """Committed synchronously and confirmed, then worked on."""
    AFTER_RECORDING = "after-recording"
    WITH_RESULT = "with-result"
    """Result and position in one database transaction."""
    IN_TRANSACTION = "in-transaction"
    """Offsets sent in the Kafka transaction of the results (topic to topic)."""
    AUTO = "auto"
    """The client's auto-commit, as people copy it."""


class Members(StrEnum):
    """Group membership."""

    STATIC = "static"
    DYNAMIC = "dynamic"


class GroupMetadata(StrEnum):
    """When ``group_metadata()`` is taken; taken at commit time it no longer fences zombies."""

    AT_POLL = "at-poll"
    AT_COMMIT = "at-commit"


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """How records are sent. ``unit`` is records per send (per transaction, where there is one)."""

    acks: Literal[0, 1, "all"]
    retries: bool
    idempotence: bool
    cursor: SaveCursor
    transactional: bool = False
    resend: bool = False
    """The program offers a record again after its client has given up."""
    unit: int = 1
    in_flight: int = 1
    request_timeout_ms: int = 15_000
    delivery_timeout_ms: int = 60_000
    """How long the client tries before it gives a record up (a third of it where it does not retry)."""

    def __post_init__(self) -> None:
        if self.transactional and not self.idempotence:
            raise SettingsError("a transactional producer is idempotent: idempotence=False cannot be")
        if self.cursor is SaveCursor.IN_TRANSACTION and not self.transactional:
            raise SettingsError("a cursor can be saved in a transaction only by a transactional producer")
        if self.resend and self.acks == 0:
            raise SettingsError("with acks=0 nobody learns that a record should be sent again: resend cannot be")
        if self.unit < 1 or self.in_flight < 1:
            raise SettingsError("unit and in_flight count from 1")
        if not 0 < self.request_timeout_ms < self.delivery_timeout_ms:
            raise SettingsError("a delivery takes at least one request: delivery_timeout_ms must exceed request_timeout_ms")


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    """How records are consumed. ``unit`` is records per poll."""

    position: SavePosition
    idempotent: bool = False
    """Ids already recorded are absorbed, in the result's own database transaction."""
    isolation: Literal["read_committed", "read_uncommitted"] = "read_uncommitted"
    unit: int = 1
    count: int = 1
    """How many consumers share the group."""
    members: Members = Members.STATIC
    session_timeout_ms: int = 6000
    group_metadata: GroupMetadata = GroupMetadata.AT_POLL
    auto_commit_interval_ms: int = 5000
    request_timeout_ms: int | None = None
    """None: a little longer than the session time-out."""

    def __post_init__(self) -> None:
        if self.unit < 1 or self.count < 1:
            raise SettingsError("unit and count count from 1")


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """The topic between producer and consumer."""

    partitions: int = 3
    flush_messages: int | None = None
    """``flush.messages``: 1 makes every append durable before it is acknowledged."""


@dataclass(frozen=True, slots=True)
class Settings:
    """All that a semantic consists of."""

    producer: ProducerSettings
    consumer: ConsumerSettings
    topic: TopicSettings = field(default_factory=TopicSettings)
    transaction_timeout_ms: int = 60_000
    """Longer than any outage here (a time-out fences the producer), shorter than the drain."""


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


def recipe(pipeline: PipelineKind, semantic: Semantic) -> Settings:
    """Return section 1's settings for a semantic on a pipeline."""
    match semantic:
        case Semantic.AT_MOST_ONCE:
            return AT_MOST_ONCE
        case Semantic.AT_LEAST_ONCE:
            return AT_LEAST_ONCE
        case Semantic.EXACTLY_ONCE:
            return EXACTLY_ONCE_IN_TRANSACTION if pipeline is PipelineKind.TOPIC_TO_TOPIC else EXACTLY_ONCE
