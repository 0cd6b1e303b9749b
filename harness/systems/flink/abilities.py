"""What a job of Flink can be told to do, or suffer, beyond the eight verbs."""

from __future__ import annotations

from typing import Final, Protocol


class RunningJob(Protocol):
    """A job that takes checkpoints when it is told to, and is restarted where there is a TaskManager for it."""

    def await_given(self, position: int) -> None:
        """Wait until the present attempt has been given what it is to be given of the source up to a position (from 1)."""

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

    def resubmit(self, number: int | None) -> None:
        """Submit the job with the state of a checkpoint or with none, as an operator does it, and wait until it runs."""

    def await_running(self) -> None:
        """Let there be a TaskManager, and wait until the job runs there, restored."""


class StandingInput(Protocol):
    """A job of several sources, one of which can stand still: it passes no barrier on then."""

    def arm(self, position: int) -> None:
        """Let a source stand still when it reads the record at a position (from 1)."""

    def await_stand(self) -> str:
        """Wait until it does; return that record's id."""

    def await_beside(self, *, given: bool) -> None:
        """Wait until the sources that do not stand have fetched all there is; where it is to be ``given``, the job has that."""


class Written(Protocol):
    """The log that a job writes, and what its readers see."""

    def await_written(self, position: int) -> None:
        """Wait until the sink has learnt that all records up to a position are there."""

    def await_aborted(self) -> None:
        """Wait until the coordinator has aborted the transaction that holds the target."""

    def await_committed(self) -> None:
        """Wait until all that is there can be read."""

    def tell_readers(self) -> None:
        """Write down how much readers do not see, when the job has committed the target."""

    def await_readers(self) -> None:
        """Wait until they see all that was there then, and write down that they do."""


ABILITIES: Final = frozenset({RunningJob, StandingInput, Written})
