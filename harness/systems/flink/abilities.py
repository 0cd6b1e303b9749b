"""What a job of Flink can be told to do, or suffer, beyond the eight verbs."""

from __future__ import annotations

from typing import Final, Protocol


class RunningJob(Protocol):
    """A job that takes checkpoints when it is told to, and is restarted where there is a TaskManager for it."""

    def await_given(self, position: int) -> None:
        """Wait until the job has been given all records of the source up to a position (from 1), that one among them."""

    def checkpoint(self) -> int:
        """Take a checkpoint, and wait until it is complete; return its number."""

    def begin_checkpoint(self) -> int:
        """Ask for a checkpoint, and wait until its barriers have left the source; return its number."""

    def tell_checkpoint(self, number: int, *, completed: bool = False) -> None:
        """Write down what the JobManager says of a checkpoint; where it is to be ``completed``, when it is."""

    def trigger(self) -> None:
        """Ask for a checkpoint, and wait for nothing."""

    def arm_store(self, name: str, *, refuses: bool = False) -> None:
        """Let the JobManager stand still, or refuse the checkpoint, at a failpoint of its store when the next one comes there."""

    def await_store(self) -> int:
        """Wait until it does; return the number of that checkpoint."""

    def resubmit(self, number: int) -> None:
        """Submit the job with the state of a checkpoint, as an operator does it, and wait until it runs."""

    def await_running(self) -> None:
        """Let there be a TaskManager, and wait until the job runs there, restored."""

    def await_aborted(self) -> None:
        """Wait until the coordinator has aborted the transaction that holds the target."""


ABILITIES: Final = frozenset({RunningJob})
