"""Events of the programs: their ledgers."""

from __future__ import annotations

from enum import StrEnum

from harness.model.events.base import Event, OfCopy
from harness.model.states import Hop


class TransactionOutcome(StrEnum):
    """The outcome of a transaction, as a program was told it."""

    BEGUN = "begun"
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"
    FENCED = "fenced"


class BatchPhase(StrEnum):
    """How far an engine is with a batch."""

    BEFORE_OFFSET_LOG = "before-offset-log"
    AFTER_OFFSET_LOG = "after-offset-log"
    BEFORE_SINK_LOG = "before-sink-log"
    AFTER_SINK_LOG = "after-sink-log"
    BEFORE_COMMIT_LOG = "before-commit-log"
    AFTER_COMMIT_LOG = "after-commit-log"
    SNAPSHOT = "snapshot"
    """The batch is in a checkpoint."""


class End(StrEnum):
    """How a program has ended by itself."""

    DONE = "done"
    ERROR = "error"
    SETTINGS = "settings"
    """Its client has refused its settings."""


class Ready(Event, frozen=True, kw_only=True):
    """A program is up and doing its work (connected, partitions assigned)."""

    role: str
    partitions: tuple[int, ...] | None = None
    pid: int | None = None
    worker: str | None = None


class Resumed(Event, frozen=True, kw_only=True):
    """The position from which a started program goes on."""

    where: str
    partition: int | None = None
    """Null: the source's cursor."""
    position: int
    batch: int | None = None
    taken: int | None = None
    """Of a program that writes no line per record: up to where records were taken before."""
    delivered: int | None = None
    """Of a program that writes no line per record: up to where records were delivered before."""


class Taken(Event, frozen=True, kw_only=True):
    """The program has taken the record from the source."""

    record: str
    passed: tuple[str, ...] = ()
    """Of a row that lostack has put into a table: the records whose transactions began later, and
    were committed before this one.
    """


class Acked(Event, frozen=True, kw_only=True):
    """The program was told that the record is stored."""

    hop: Hop | None = None
    record: str | None
    attempt: str | None = None
    partition: int | None = None
    offset: int | None = None


class OfAttempt(Event, frozen=True, kw_only=True):
    """An event about an attempt of which the program was not told that it succeeded."""

    hop: Hop | None = None
    record: str | None
    attempt: str | None = None
    error: str | None = None


class Refused(OfAttempt, frozen=True, kw_only=True):
    """The program was told an error that means *not stored*."""


class Unknown(OfAttempt, frozen=True, kw_only=True):
    """The program cannot know whether the record is stored (a time-out, a cut connection)."""


class Delivered(OfCopy, frozen=True, kw_only=True):
    """The program was given the record."""

    record: str | None
    redelivered: bool | None = None
    """The broker's own flag, or whether its count is above 1, where it has one."""
    place: str | None = None


class Transaction(Event, frozen=True, kw_only=True):
    """The outcome of a transaction, as the program was told it."""

    transaction: str
    """``<incarnation>.<number>``, the first two words of every attempt made in it."""
    outcome: TransactionOutcome
    error: str | None = None
    told_by: str | None = None
    """``library`` if the client's library reports the outcome without an answer of the broker; the
    outcome is then in doubt.
    """


class Doubt(Event, frozen=True, kw_only=True):
    """The connection to the database was lost before a COMMIT was answered. The program does not
    know whether the record's result is there.
    """

    record: str | None
    error: str


class Saved(Event, frozen=True, kw_only=True):
    """The program saved its position, or acknowledged a message. If ``error`` is not null, the
    program tried to and failed.
    """

    partition: int | None = None
    offset: int | None = None
    record: str | None = None
    """Of a queue, instead of partition and offset."""
    error: str | None = None
    how: str | None = None
    """Of a share group: accept, release or reject."""


class Batch(Event, frozen=True, kw_only=True):
    """A batch reads a partition from ``offset`` up to, not including, ``position``."""

    phase: str
    """A :class:`BatchPhase`. It is any text, because an engine of somebody else's may say more."""
    batch: int
    partition: int
    offset: int
    position: int


class State(Event, frozen=True, kw_only=True):
    """All records in the state of a key after a batch. A key whose state the batch did not change
    has no line. What is no record of lostack's is null there.
    """

    batch: int
    key: str
    records: tuple[str | None, ...]
    news: tuple[str | None, ...]
    """Those that this batch added."""


class Failpoint(Event, frozen=True, kw_only=True):
    """Written by the program right before it acts on itself."""

    name: str
    record: str | None = None
    hit: int
    action: str
    pid: int | None = None
    batch: int | None = None
    partition: int | None = None
    offset: int | None = None


class Stopped(Event, frozen=True, kw_only=True):
    """A program ended by itself, for this reason."""

    kind: End
    because: str | None = None
