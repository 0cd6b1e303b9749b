"""The steps of PostgreSQL's protocol that the wire knows."""

from __future__ import annotations

from typing import Final

from harness.wire.protocol import Step
from harness.wire.rules import Direction, StepName


class Database(StepName):
    """A commit, and its answer; and how far a reader of a replication slot says that it is, which
    nobody answers.
    """

    COMMIT = "DatabaseCommit"
    CONFIRMATION = "SlotConfirmation"

    def selects(self, direction: Direction) -> frozenset[str]:
        """Return by which fields of a rule it can be chosen, either way."""
        return STEPS[str(self), direction].selects


STEPS: Final = {
    **{
        (str(Database.COMMIT), way): Step(
            selects=frozenset({"record"}), durable=way is Direction.REQUEST
        )
        for way in Direction
    },
    (str(Database.CONFIRMATION), Direction.REQUEST): Step(durable=True),
}
