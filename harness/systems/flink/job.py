"""The job of a cell: submit it, take checkpoints, wait for its restarts; and find the TaskManager
that runs it.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from harness.model import events as kinds
from harness.model.failures import CellFailure
from harness.model.scenario import Role
from harness.model.waiting import WaitTimeoutError, wait_until
from harness.run.drain import StageEndedError
from harness.systems.flink.abilities import RunningJob
from harness.systems.flink.checkpoints import TAKEN_S, Checkpoints
from harness.systems.flink.inputs import failpoint_of
from harness.systems.flink.nodes import JobManager, TaskManager
from harness.systems.flink.rest import RestError
from harness.systems.flink.roles import TASK_MANAGER
from harness.systems.flink.settings import FlinkSettings
from harness.systems.flink.words import CHECKPOINTS, Place, words_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.systems.flink.cluster import Cluster
    from harness.systems.kafka.scene import Scene

NAME: Final = "job"
"""The prefix of its writer's name in the history; the numbers of submission and attempt follow."""
RUNNING_S: Final = 60.0
GIVEN_S: Final = 30.0
ENDED_S: Final = 15.0
OVER: Final = frozenset({"FAILED", "CANCELED", "FINISHED", "SUSPENDED"})
POLL_S: Final = 0.05


class Job(RunningJob):
    """One job, over all its submissions. Implements :class:`harness.run.parts.Stages`; opened and
    closed with the cell.
    """

    def __init__(self, scene: Scene, cluster: Cluster) -> None:
        self._scene = scene
        self._cluster = cluster
        self._settings = FlinkSettings.of(scene.cell.settings)
        self._checkpoints = Checkpoints(scene, cluster)
        self.id = ""
        self.submissions = 0
        self._slots = 0
        self._restarts = 0
        """How many attempts of the present submission a fault has ended."""
        self._restored = False
        """Whether the present attempt began from a checkpoint."""
        self.task_manager = TaskManager(scene, cluster)
        self.job_manager = JobManager(scene, cluster)

    # --- its life ---------------------------------------------------------------------------------

    def open(self) -> None:
        """Ask the cluster for TaskManagers."""
        self.job_manager.begin()
        self._slots = 1 + self._spare
        self._cluster.want(self._slots)

    @property
    def _spare(self) -> int:
        """How many spare TaskManagers the fault needs."""
        return getattr(self._scene.cell.scenario.fault, "spare", 0)

    def stand_by(self) -> None:
        """Do nothing: submitting a job is quick."""

    def start(self) -> None:
        """Submit the job, and wait until it runs and its first checkpoint is complete."""
        self.submit()

    def submit(self, restored_from: int | None = None) -> None:
        """Submit the job, with the state of a completed checkpoint or without state, and wait until
        it works.
        """
        self.submissions += 1
        self._restarts = 0
        self._restored = restored_from is not None
        folder = None if restored_from is None else str(self._checkpoints.folder(restored_from))
        self.id = self._checkpoints.job = self._cluster.submit(self._words(), folder)
        self.await_ready()

    def await_ready(self) -> None:
        """Wait until the present attempt works, and find its TaskManager."""
        writer = self.writer
        ready = self._scene.so_far.finder(kinds.Ready, lambda e: e.by == writer)
        wait_until(
            lambda: bool(ready()) or self._ended(),
            within_s=RUNNING_S,
            because=f"{writer} to run",
            poll_s=POLL_S,
        )
        wait_until(
            self._hosted,
            within_s=RUNNING_S,
            because=f"the TaskManager of {writer} to be known",
            poll_s=POLL_S,
        )
        if not self._restored:
            wait_until(
                self._first_complete,
                within_s=TAKEN_S,
                because=f"the first checkpoint of {writer}",
                poll_s=POLL_S,
            )

    def _first_complete(self) -> int:
        """Return the last complete checkpoint; 0: none. Flink 2 takes the first by itself at a
        start; Flink 1 must be asked.
        """
        if self._cluster.install.version.startswith("1.") and not self._checkpoints.under_way():
            self._cluster.rest.trigger(self.id)
        return self._checkpoints.last_complete()

    @property
    def writer(self) -> str:
        """The writer's name of the present attempt in the history."""
        return f"{NAME}-{self.submissions}-{self._restarts + 1}"

    def _hosted(self) -> bool:
        hosts = self._cluster.rest.hosts(self.id)
        if len(hosts) != 1:
            return False
        self.task_manager.run_on(next(iter(hosts)))
        return True

    def _ended(self) -> bool:
        """Return false; raise StageEndedError if the job has ended."""
        state = self._cluster.rest.state(self.id)
        if state in OVER:
            raise StageEndedError(f"the job is {state}: {self._cluster.rest.failure(self.id)}")
        return False

    def trouble(self) -> str | None:
        """Say why the job does not run, or return ``None``.

        Raises:
            StageEndedError: the job or its TaskManager has ended by itself.
        """
        if (end := self.task_manager.ended()) is not None:
            raise StageEndedError(f"the TaskManager ended with {end}")
        try:
            self._ended()
            state = self._cluster.rest.state(self.id)
        except RestError as error:
            return str(error)
        return None if state == "RUNNING" else f"the job is {state}"

    def close(self) -> None:
        """Cancel the job, and tell the cluster that its TaskManagers are not needed."""
        try:
            if self.id:
                self._end()
        finally:
            self._cluster.unwant(self._slots)
            self._slots = 0

    def _end(self) -> None:
        """Cancel the job, and wait for its end. If the JobManager cannot tell it, kill the
        TaskManager, which could write into the history of a cell that has ended.

        Raises:
            CellFailure: the job did not end in time, or nobody knows whether it has.
        """
        try:
            if self._cluster.rest.state(self.id) not in OVER:
                self._cluster.rest.cancel(self.id)
                wait_until(
                    lambda: self._cluster.rest.state(self.id) in OVER,
                    within_s=ENDED_S,
                    because="the job to end",
                    poll_s=POLL_S,
                )
        except (RestError, WaitTimeoutError) as error:
            if isinstance(error, RestError) and self.task_manager.has_ended():
                return  # a fault has killed both: the next JobManager does not know the job
            self.task_manager.end()
            raise CellFailure(f"nobody can tell whether the job has ended: {error}") from error

    def _words(self) -> list[str]:
        scene = self._scene
        place = Place(
            scene.cell.id,
            scene.history_folder,
            scene.transport.bootstrap(Role.PROCESSOR),
            scene.source,
            scene.sink,
            scene.group,
            scene.directory / CHECKPOINTS,
            failpoint_of(scene),
            scene.cell.key,
        )
        client = (
            f"{scene.cell.key}.{TASK_MANAGER}.{self.submissions}"  # the same on every TaskManager
        )
        return words_of(
            place,
            self._settings,
            name=f"{NAME}-{self.submissions}",
            client=client,
            again=self.submissions > 1,
        )

    # --- its checkpoints --------------------------------------------------------------------------

    def checkpoint(self) -> int:
        """Take a checkpoint, wait until it is complete, and return its number."""
        number = self._checkpoints.ask()
        self.tell_checkpoint(number, completed=True)
        return number

    def begin_checkpoint(self) -> int:
        """Request a checkpoint, wait until a source has passed its barriers on, and return its
        number.

        In an unaligned checkpoint the JobManager reports no source's part while the other source
        stands still. The state after the sources writes its snapshot line earlier, so that counts,
        too.
        """
        number = self._checkpoints.ask()

        def begun() -> bool:
            told, parts = self._checkpoints.seen(number), self._scene.so_far.of(kinds.Batch)
            return (
                told["num_acknowledged_subtasks"] > 0
                or told["status"] == "COMPLETED"
                or any(part.batch == number and part.by == self.writer for part in parts)
            )

        wait_until(
            begun,
            within_s=TAKEN_S,
            because=f"a source to take part in checkpoint {number}",
            poll_s=POLL_S,
        )
        return number

    def tell_checkpoint(self, number: int, *, completed: bool = False) -> None:
        """Write down the status of a checkpoint as the JobManager reports it; with ``completed``,
        wait until it is over.
        """
        self._checkpoints.tell(number, completed=completed)

    def await_given(self, position: int) -> None:
        """Wait for the job's lines of all records up to a position, of this attempt or of the
        attempt it was restored from.
        """
        wanted = {record.id for record in self._scene.load.records if record.position <= position}

        def given() -> bool:
            lines = self._scene.so_far.of(kinds.Delivered)
            return wanted <= {
                event.record for event in lines if self._restored or event.by == self.writer
            }

        wait_until(
            given,
            within_s=GIVEN_S,
            because=f"the job to be given all records before position {position + 1}",
        )

    def positions(self) -> dict[int, int]:
        """Return the position of the last completed checkpoint in each partition."""
        last = self._checkpoints.last_complete()
        mine = f"{NAME}-{self.submissions}-"
        lines = [
            e
            for e in self._scene.so_far.of(kinds.Batch)
            if e.batch == last and e.by.startswith(mine)
        ]
        return self._scene.every_partition({e.partition: e.position for e in lines})

    def position_trouble(self) -> str | None:
        """Say which partition the last checkpoint does not cover, and request the next checkpoint;
        ``None`` if it covers all.
        """
        trouble = self._scene.position_trouble(self.positions)
        if trouble and not self._checkpoints.under_way():
            self._cluster.rest.trigger(self.id)
        return trouble

    # --- what becomes of it -----------------------------------------------------------------------

    def await_running(self) -> None:
        """Wait until the next attempt works on another TaskManager."""
        self._restarts += 1
        self._restored = self._checkpoints.last_complete() > 0
        with self._refilled():
            self.await_ready()

    @contextmanager
    def _refilled(self) -> Iterator[None]:
        """Provide a TaskManager for the job. If there is a spare one, start its replacement
        afterwards, not to slow the job.
        """
        if not self._spare:
            self._cluster.refill()
        yield
        self._cluster.refill()

    def arm_store(self, name: str, *, refuses: bool = False) -> None:
        """Write the file that arms the failpoint in the JobManager's store."""
        self._checkpoints.arm_store(self._cluster.failpoints, name, refuses=refuses)

    def await_store(self) -> int:
        """Wait for the JobManager's line that a checkpoint is held at the store; return the
        checkpoint's number.
        """
        return self._checkpoints.await_stored()

    def await_spare(self) -> None:
        """Wait until every TaskManager has registered with the JobManager."""
        wait_until(
            self._cluster.all_registered,
            within_s=RUNNING_S,
            because="every TaskManager to register",
            poll_s=POLL_S,
        )

    def trigger(self) -> None:
        """Request a checkpoint, without waiting."""
        self._cluster.rest.trigger(self.id)

    def resubmit(self, number: int | None) -> None:
        """Cancel the job if it runs, and submit it with the state of checkpoint ``number``;
        ``None``: without state.
        """
        self._end()
        with self._refilled():
            self.submit(restored_from=number)
