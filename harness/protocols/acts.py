"""Acts: the steps between programs and a queue broker, with names that do not depend on the
protocol.

A scenario names an act. Each protocol maps acts to its own steps in ``ACTS``, so one failure point
works with every protocol.
"""

from __future__ import annotations

from harness.wire.rules import CONTENT, Direction, StepName


class Act(StepName):
    """An act on a queue. Frames never have this name: a rule is armed with the protocol's step for
    the act.
    """

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
        """Return every field. The protocol's own step, which replaces the act, refuses fields that
        it does not have.
        """
        return frozenset(CONTENT)

    def removable(self, direction: Direction) -> bool:  # noqa: ARG002 - see above
        """Return true. The protocol's own step, which replaces the act, refuses if it cannot be
        dropped.
        """
        return True
