"""What programs and a broker of queues do with each other, whatever their protocol calls it.

A scenario names an act; each protocol says in its ``ACTS`` which of its steps that is, so one failure point is the same on all.
"""

from __future__ import annotations

from harness.wire.rules import CONTENT, Direction, StepName


class Act(StepName):
    """An act on a queue. No frame has this name: a rule is armed by the step that the protocol has for it."""

    SEND = "send"
    SENT = "answer-to-send"
    GIVE = "delivery"
    ACK = "acknowledgement"
    ACKED = "answer-to-acknowledgement"
    COMMIT = "commit"
    COMMITTED = "answer-to-commit"
    PREPARE = "prepare"
    """The first phase of a distributed transaction."""
    PREPARED = "answer-to-prepare"
    DECIDE = "commit-of-what-is-prepared"
    """The second phase."""
    DECIDED = "answer-to-commit-of-what-is-prepared"

    def selects(self, direction: Direction) -> frozenset[str]:  # noqa: ARG002 - the step of the protocol is asked again
        """Return every field: what the protocol's own step cannot be chosen by, is refused when that takes its place."""
        return frozenset(CONTENT)

    def removable(self, direction: Direction) -> bool:  # noqa: ARG002 - see above
        """Return true, likewise."""
        return True
