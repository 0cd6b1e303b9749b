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


class State(StrEnum):
    """Where an offered record is at rest: the first that matches."""

    RECORDED = "recorded"
    STALLED = "stalled"
    LEFT_IN_TOPIC = "left in topic"
    LEFT_IN_SOURCE = "left in source"
    LOST = "lost"


class LastHop(StrEnum):
    """Where a lost record was last seen."""

    NEVER_SENT = "never sent"
    SENT = "sent, not stored"
    ACKED = "acked, not stored"
    DELETED = "stored, deleted by retention"
    ABORTED = "only in aborted transactions"
    SKIPPED = "stored, skipped"
    DELIVERED = "delivered, not recorded"
