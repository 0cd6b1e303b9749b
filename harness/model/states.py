"""Where a record is at rest, and where a lost one was last seen: the words of an account."""

from __future__ import annotations

from enum import StrEnum


class Hop(StrEnum):
    """Which log of a pipeline."""

    TOPIC = "topic"
    """Between producer and consumer."""
    SINK = "sink"
    """A log that is the sink."""
    CURSOR = "cursor"
    """A topic that keeps the source's cursor."""
    ASIDE = "aside"
    """Where a broker, or a client's library, puts what it has given up: dead letters."""


class State(StrEnum):
    """Where an offered record is at rest: the first that matches."""

    RECORDED = "recorded"
    STALLED = "stalled"
    LEFT_IN_TOPIC = "left in topic"
    LEFT_IN_SOURCE = "left in source"
    SET_ASIDE = "set aside"
    """Nothing is left of it but dead letters."""
    LOST = "lost"


class LastHop(StrEnum):
    """Where a lost record was last seen."""

    NEVER_SENT = "never sent"
    SENT = "sent, not stored"
    ACKED = "acked, not stored"
    DELETED = "stored, deleted by retention"
    COMPACTED = "stored, compacted away"
    """A later one of its key stands for it."""
    PURGED = "stored, purged"
    DUPLICATE = "taken for a duplicate, no other copy there"
    GIVEN_UP = "acknowledged before delivery, never delivered"
    EXPIRED = "stored, expired"
    LIMIT = "stored, removed at a limit"
    """It was delivered too often, or its queue was full."""
    REJECTED = "delivered, rejected"
    DEAD_LETTER = "taken to the dead letters, not there"
    MOVED = "moved, not there"
    """To a place where nobody has found it, and from where nobody has taken it away."""
    ABORTED = "only in aborted transactions"
    SKIPPED = "stored, skipped"
    DELIVERED = "delivered, not recorded"
