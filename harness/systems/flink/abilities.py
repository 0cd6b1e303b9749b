"""The abilities of a cell on Flink: checkpoints, restarts, a source that stands still, and what
readers see.
"""

from __future__ import annotations

from typing import Final, Protocol


class RunningJob(Protocol):
    """A job that takes checkpoints on request, and that its JobManager restarts when there is a
    TaskManager for it.
    """

    def await_given(self, position: int) -> None:
        """Wait until the present attempt has been given all records of the source up to a position
        (from 1).
        """

    def checkpoint(self) -> int:
        """Take a checkpoint, wait until it is complete, and return its number."""

    def begin_checkpoint(self) -> int:
        """Request a checkpoint, wait until its barriers have left the source, and return its
        number.
        """

    def tell_checkpoint(self, number: int, *, completed: bool = False) -> None:
        """Write down the status of a checkpoint as the JobManager reports it; with ``completed``,
        wait until it is over.
        """

    def await_spare(self) -> None:
        """Wait until every TaskManager has registered with the JobManager. One that has not when
        the JobManager dies asks the dead one for ever (Flink 2.3.0, without high availability).
        """

    def trigger(self) -> None:
        """Request a checkpoint, without waiting."""

    def arm_store(self, name: str, *, refuses: bool = False) -> None:
        """Arm a failpoint in the JobManager's checkpoint store: it holds the next checkpoint there,
        or refuses it.
        """

    def await_store(self) -> int:
        """Wait until a checkpoint is held at the store's failpoint; return its number."""

    def resubmit(self, number: int | None) -> None:
        """Submit the job as an operator does, with the state of a checkpoint or without state, and
        wait until it runs.
        """

    def await_running(self) -> None:
        """Provide a TaskManager, and wait until the restored job runs on it."""


class StandingInput(Protocol):
    """A job with several sources, one of which can stand still. It passes on no barrier then."""

    def arm(self, position: int) -> None:
        """Make a source stand still when it reads the record at a position (from 1)."""

    def await_stand(self) -> str:
        """Wait until a source stands still; return the record's id."""

    def await_beside(self, *, given: bool) -> None:
        """Wait until the other sources have fetched all their records; with ``given``, until the
        job has got them, too.
        """


class Written(Protocol):
    """The topic that a job writes, and what its readers see."""

    def await_written(self, position: int) -> None:
        """Wait until the broker has acknowledged to the sink all records up to a position."""

    def await_aborted(self) -> None:
        """Wait until the coordinator has aborted the transaction with the target."""

    def await_committed(self) -> None:
        """Wait until everything in the topic is committed."""

    def tell_readers(self) -> None:
        """Write down how many offsets readers cannot see when the job has committed the target."""

    def await_readers(self) -> None:
        """Wait until readers see all that was there then, and write that down."""


ABILITIES: Final = frozenset({RunningJob, StandingInput, Written})
