"""Signs that a protection worked: without one, a count of zero proves nothing (design, section 3)."""

from __future__ import annotations

from enum import StrEnum


class Sign(StrEnum):
    """What must be seen in a cell that predicts zero."""

    REPEATED_REQUEST = "repeated-request"
    """The client sent the target's request again (same attempt, seen twice by the wire)."""
    TAKEN_AGAIN = "taken-again"
    """A restarted program took the target from the source again."""
    SENT_ANEW = "sent-anew"
    """One and the same program sent the target again as a new attempt: its client had given up."""
    ABORTED = "aborted"
    """A copy of the target stands in an aborted transaction, or a transaction of it was aborted or fenced."""
    DELIVERED_AGAIN = "delivered-again"
    """The target was delivered, or fetched, more than once."""
    ABSORBED = "absorbed"
    """A second copy of the target reached the sink and was not recorded."""
    NOT_RESENT = "not-resent"
    """The fate of the target was unknown to the producer, and it was not sent a second time."""
    RESUMED_PAST = "resumed-past"
    """A restarted program went on from a position past the target."""
    REPLAYED = "replayed"
    """The batch that holds the target was planned or worked on by a second incarnation of its driver."""
    ENDED_AGAIN = "ended-again"
    """The client asked for the end of the target's transaction again."""
    ASKED_AGAIN = "asked-again"
    """Of the target's transaction something was asked more than once: that a partition, a group or a position be part of it (by
    the client), or that its end be written into a log (by the coordinator)."""
    END_REFUSED = "end-refused"
    """A request to end the target's transaction was refused by the broker: it came late, or from one that was fenced."""
    REPLICATED = "replicated"
    """A follower had fetched the target before the power was lost, and whoever lost it had not flushed it."""
    ALONE = "alone"
    """When its leader died, no follower had the target."""
    COMMITTED_AGAIN = "committed-again"
    """A program asked the database more than once to commit a result of the target."""
    NOT_REPEATED = "not-repeated"
    """The database was asked once to commit the target's result, the answer never came, and the program left it at that."""
    DURABLE = "durable"
    """The database had answered the one commit of the target: whatever died later, nobody asked for it again."""
    FOUND = "found"
    """A result of the target came from a partition that was added while the pipeline ran."""
    FLUSHED = "flushed"
    """When the power was lost, the target's copy lay below the flushed offset of its log."""
