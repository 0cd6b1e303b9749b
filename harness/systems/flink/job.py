"""The job of a cell: submitted, told to take checkpoints, restarted by its JobManager; and the TaskManager that runs it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from harness.model import events as kinds
from harness.model.scenario import Role
from harness.model.waiting import wait_until
from harness.run.drain import StageEndedError
from harness.systems.flink.abilities import RunningJob
from harness.systems.flink.inputs import failpoint_of
from harness.systems.flink.nodes import JobManager, TaskManager
from harness.systems.flink.rest import RestError
from harness.systems.flink.roles import TASK_MANAGER
from harness.systems.flink.settings import flinks
from harness.systems.flink.words import CHECKPOINTS, Place, words_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from harness.systems.flink.cluster import Cluster
    from harness.systems.kafka.scene import Scene

NAME: Final = "job"
"""What it writes as, with the numbers of its submission and its attempt."""
RUNNING_S: Final = 60.0
TAKEN_S: Final = 30.0
GIVEN_S: Final = 30.0
ENDED_S: Final = 15.0
OVER: Final = frozenset({"FAILED", "CANCELED", "FINISHED", "SUSPENDED"})
POLL_S: Final = 0.05


class Job(RunningJob):
    """One job over its submissions. Implements :class:`harness.run.parts.Stages`; a part of its cell's ground."""

    def __init__(self, scene: Scene, cluster: Cluster) -> None:
        self._scene = scene
        self._cluster = cluster
        self._settings = flinks(scene.cell.settings)
        self.id = ""
        self.submissions = 0
        self._slots = 0
        self._restarts = 0
        """How many attempts of the present submission have been ended by a fault."""
        self._restored = False
        """Whether the present attempt began with a checkpoint."""
        self.task_manager = TaskManager(scene, cluster)
        self.job_manager = JobManager(scene, cluster)

    # --- its life ----------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Ask for room."""
        self.job_manager.begin()
        self._slots = 1 + self._spare
        self._cluster.want(self._slots)

    @property
    def _spare(self) -> int:
        """How many TaskManagers stand by for it."""
        return getattr(self._scene.cell.scenario.fault, "spare", 0)

    def stand_by(self) -> None:
        """Do nothing ahead: nothing takes long."""

    def start(self) -> None:
        """Submit it, and wait until it runs and Flink's own first checkpoint is complete."""
        self.submit()

    def submit(self, restored_from: int | None = None) -> None:
        """Submit it, with the state of a completed checkpoint or with none, and wait until it does its work."""
        self.submissions += 1
        self._restarts = 0
        self._restored = restored_from is not None
        folder = None if restored_from is None else str(self.checkpoint_folder(restored_from))
        self.id = self._cluster.submit(self._words(), folder)
        self.await_ready()

    def await_ready(self) -> None:
        """Wait until the present attempt does its work, and say where."""
        writer = self.writer
        ready = self._scene.so_far.finder(kinds.READY, lambda e: e["by"] == writer)
        wait_until(lambda: bool(ready()) or self._ended(), within_s=RUNNING_S, because=f"{writer} to run", poll_s=POLL_S)
        wait_until(self._hosted, within_s=RUNNING_S, because=f"the TaskManager of {writer} to be known", poll_s=POLL_S)
        if not self._restored:
            wait_until(self._first_complete, within_s=TAKEN_S, because=f"the first checkpoint of {writer}", poll_s=POLL_S)

    def _first_complete(self) -> int:
        """Flink 2 takes one by itself after such a start, whatever the interval; Flink 1 is asked, once its tasks run."""
        if self._cluster.install.version.startswith("1.") and not self._under_way():
            self._cluster.rest.trigger(self.id)
        return self._last_complete()

    @property
    def writer(self) -> str:
        """What the present attempt writes as."""
        return f"{NAME}-{self.submissions}-{self._restarts + 1}"

    def _hosted(self) -> bool:
        hosts = self._cluster.rest.hosts(self.id)
        if len(hosts) != 1:
            return False
        self.task_manager.run_on(next(iter(hosts)))
        return True

    def _ended(self) -> bool:
        """Raise StageEndedError where the job has ended."""
        state = self._cluster.rest.state(self.id)
        if state in OVER:
            raise StageEndedError(f"the job is {state}: {self._cluster.rest.failure(self.id)}")
        return False

    def trouble(self) -> str | None:
        """Say why the job does not run, or return ``None``.

        Raises:
            StageEndedError: it has ended, or its TaskManager has, by itself.
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
        """Cancel it, and give its room back."""
        try:
            if self.id:
                self._end()
        finally:
            self._cluster.unwant(self._slots)
            self._slots = 0

    def _end(self) -> None:
        try:
            if self._cluster.rest.state(self.id) not in OVER:
                self._cluster.rest.cancel(self.id)
                wait_until(lambda: self._cluster.rest.state(self.id) in OVER, within_s=ENDED_S, because="the job to end",
                           poll_s=POLL_S)  # fmt: skip
        except RestError:  # its JobManager is gone, or knows it no more
            return

    def _words(self) -> list[str]:
        scene = self._scene
        place = Place(scene.cell.id, scene.history_folder, scene.transport.bootstrap(Role.PROCESSOR), scene.source, scene.sink,
                      scene.group, scene.directory / CHECKPOINTS, failpoint_of(scene), scene.cell.key)  # fmt: skip
        client = f"{scene.cell.key}.{TASK_MANAGER}.{self.submissions}"  # whichever TaskManager that is in
        return words_of(place, self._settings, name=f"{NAME}-{self.submissions}", client=client, again=self.submissions > 1)

    # --- its checkpoints ---------------------------------------------------------------------------------------------

    def checkpoint_folder(self, number: int) -> Path:
        """Return the folder of a completed checkpoint."""
        return next((self._scene.directory / CHECKPOINTS).absolute().glob(f"*/chk-{number}"))

    def checkpoint(self) -> int:
        """Take one, and wait until it is complete."""
        number = self._ask()
        self.tell_checkpoint(number, completed=True)
        return number

    def begin_checkpoint(self) -> int:
        """Ask for one, and wait until a source has taken its part of it, and passed its barriers on.

        Where it is unaligned no source's part was seen to be acknowledged while the other one stood still; the state behind them
        takes its own before.
        """
        number = self._ask()

        def begun() -> bool:
            told, parts = self._seen(number), self._scene.so_far.of(kinds.BATCH)
            return told["num_acknowledged_subtasks"] > 0 or told["status"] == "COMPLETED" or any(
                part["batch"] == number and part["by"] == self.writer for part in parts)  # fmt: skip

        wait_until(begun, within_s=TAKEN_S, because=f"a source to take its part of checkpoint {number}", poll_s=POLL_S)
        return number

    def tell_checkpoint(self, number: int, *, completed: bool = False) -> None:
        """Write down what the JobManager says of it."""
        if completed:
            wait_until(lambda: self._seen(number)["status"] != "IN_PROGRESS", within_s=TAKEN_S, poll_s=POLL_S,
                       because=f"checkpoint {number} to be complete")  # fmt: skip
        told = self._seen(number)
        self._scene.history.write(
            kinds.FAULT, phase="checkpoint", fault=self._scene.cell.scenario.fault.id, number=number, status=told["status"],
            acknowledged=told["num_acknowledged_subtasks"], of=told["num_subtasks"],
        )  # fmt: skip

    def await_given(self, position: int) -> None:
        """Wait for the lines in which the job says so, of this attempt or of one whose checkpoint it has."""
        wanted = {record.id for record in self._scene.load.records if record.position <= position}

        def given() -> bool:
            lines = self._scene.so_far.of(kinds.DELIVERED)
            return wanted <= {event["record"] for event in lines if self._restored or event["by"] == self.writer}

        wait_until(given, within_s=GIVEN_S, because=f"the job to be given what comes before position {position + 1}")

    def positions(self) -> dict[int, int]:
        """Return how far the last completed checkpoint has read each partition."""
        last = self._last_complete()
        mine = f"{NAME}-{self.submissions}-"
        lines = [e for e in self._scene.so_far.of(kinds.BATCH) if e["batch"] == last and e["by"].startswith(mine)]
        return self._scene.every_partition({e["partition"]: e["position"] for e in lines})

    def position_trouble(self) -> str | None:
        """Return which partition the last completed checkpoint is behind in, or ``None``. Asks for the next one where it is."""
        trouble = self._scene.position_trouble(self.positions)
        if trouble and not self._under_way():
            self._cluster.rest.trigger(self.id)
        return trouble

    def _under_way(self) -> bool:
        """Whether a checkpoint is begun, and not over."""
        return any(each["status"] == "IN_PROGRESS" for each in self._history())

    def _ask(self) -> int:
        before = max((each["id"] for each in self._history()), default=0)
        self._cluster.rest.trigger(self.id)
        found = wait_until(lambda: [e["id"] for e in self._history() if e["id"] > before], within_s=TAKEN_S, poll_s=POLL_S,
                           because="a checkpoint to begin")  # fmt: skip
        return int(min(found))

    def _last_complete(self) -> int:
        return max((int(each["id"]) for each in self._history() if each["status"] == "COMPLETED"), default=0)

    def _seen(self, number: int) -> Mapping[str, Any]:
        return next(each for each in self._history() if each["id"] == number)

    def _history(self) -> list[dict[str, Any]]:
        return self._cluster.rest.checkpoints(self.id)

    # --- what becomes of it ------------------------------------------------------------------------------------------

    def await_running(self) -> None:
        """Wait until the next attempt does its work on another TaskManager."""
        self._restarts += 1
        self._restored = self._last_complete() > 0
        with self._refilled():
            self.await_ready()

    @contextmanager
    def _refilled(self) -> Iterator[None]:
        """Let there be a TaskManager for the job; where one stands by, the next is started behind it, so as not to slow it."""
        if not self._spare:
            self._cluster.refill()
        yield
        self._cluster.refill()

    def arm_store(self, name: str, *, refuses: bool = False) -> None:
        """Write the file that the JobManager looks for."""
        folder = self._cluster.failpoints
        told = {
            "name": name, "action": "fail" if refuses else "hold", "cell": self._scene.cell.id,
            "record": self._scene.load.target.id, "history": str((self._scene.history_folder / "job-manager.jsonl").absolute()),
        }  # fmt: skip
        part = folder / f"{self.id}.part"
        part.write_text("".join(f"{key}={value}\n" for key, value in told.items()))
        part.replace(folder / f"{self.id}.armed")

    def await_store(self) -> int:
        """Wait for the line in which the JobManager says so."""
        hits = self._scene.so_far.finder(kinds.FAILPOINT, lambda e: e["by"] == "job-manager")
        found = wait_until(hits, within_s=TAKEN_S, because="a checkpoint to come to the store", poll_s=POLL_S)
        return int(found[-1]["batch"])

    def trigger(self) -> None:
        """Ask."""
        self._cluster.rest.trigger(self.id)

    def resubmit(self, number: int | None) -> None:
        """Cancel the job if it still runs, and submit it with the state in the checkpoint's folder."""
        self._end()
        with self._refilled():
            self.submit(restored_from=number)
