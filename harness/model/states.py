"""Where a record is when the pipeline is at rest, and where a lost record was last seen: the words
of an account.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Hop(StrEnum):
    """The place of a log or queue in its pipeline."""

    TOPIC = "topic"
    """The log or queue between producer and consumer."""
    SINK = "sink"
    """The log or queue that is the sink."""
    CURSOR = "cursor"
    """A topic that keeps the source's cursor."""
    ASIDE = "aside"
    """Dead letters: the log or queue for records that a broker, a client's library or a program has
    given up. A copy that rests there is ready for a reader; one that was read waits for nothing.
    """


class State(StrEnum):
    """Where an offered record is when the pipeline is at rest: the first state that matches."""

    RECORDED = "recorded"
    STALLED = "stalled"
    LEFT_IN_TOPIC = "left in topic"
    LEFT_IN_SOURCE = "left in source"
    SET_ASIDE = "set aside"
    """All that is left of the record is dead letters."""
    SUPERSEDED = "superseded"
    """Compaction took the record before a reader was given it; its log had a later one of the key.
    """
    LOST = "lost"


LEFT: Final = frozenset({State.STALLED, State.LEFT_IN_TOPIC, State.LEFT_IN_SOURCE})
"""The states of a record that may still arrive."""


class LastHop(StrEnum):
    """Where a lost record was last seen."""

    NEVER_SENT = "never sent"
    SENT = "sent, not stored"
    ACKED = "acked, not stored"
    DELETED = "stored, deleted by retention"
    COMPACTED = "stored, compacted away"
    """The broker kept a later record of the same key."""
    PURGED = "stored, purged"
    DUPLICATE = "taken for a duplicate, no other copy there"
    GIVEN_UP = "acknowledged before delivery, never delivered"
    EXPIRED = "stored, expired"
    LIMIT = "stored, removed at a limit"
    """The record was delivered too often, or its queue was full."""
    REJECTED = "delivered, rejected"
    DEAD_LETTER = "taken to the dead letters, not there"
    MOVED = "moved, not there"
    """The record was moved to a place where the observer did not find it, and from which nobody has
    removed it.
    """
    ABORTED = "only in aborted transactions"
    SKIPPED = "stored, skipped"
    DELIVERED = "delivered, not recorded"
