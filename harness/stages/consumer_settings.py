"""The settings of lostack's own consumers, and of the groups that they share."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Literal

from harness.model.pipeline import SettingsError
from harness.stages.pushing import BY_LIBRARY, Acknowledge, AcknowledgeSettings, PushSettings
from harness.stages.querying import QuerySettings


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
    acknowledging: AcknowledgeSettings = field(default_factory=AcknowledgeSettings)
    push: PushSettings = field(default_factory=PushSettings)

    def __post_init__(self) -> None:
        if self.unit < 1 or self.count < 1:
            raise SettingsError("unit and count must be at least 1")
        mode = self.acknowledging.mode
        if mode is not None and (mode in BY_LIBRARY) != (self.position is SavePosition.AUTO):
            raise SettingsError(
                f"the acknowledgement mode {mode} does not fit the position {self.position}"
            )

    @property
    def acknowledges(self) -> Acknowledge:
        """The acknowledgement mode of a client of a queue."""
        return self.acknowledging.mode or (
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
