"""The settings of lostack's own producers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from harness.model.pipeline import SettingsError


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
