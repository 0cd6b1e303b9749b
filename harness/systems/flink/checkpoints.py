"""The checkpoints of a job, as its JobManager reports them, and the failpoints at their store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from harness.model import events as kinds
from harness.model.events import FaultPhase
from harness.model.waiting import wait_until
from harness.systems.flink.words import CHECKPOINTS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from harness.systems.flink.cluster import Cluster
    from harness.systems.kafka.scene import Scene

TAKEN_S: Final = 30.0
POLL_S: Final = 0.05


class Checkpoints:
    """The checkpoints of the present submission of a cell's job."""

    def __init__(self, scene: Scene, cluster: Cluster) -> None:
        self._scene = scene
        self._cluster = cluster
        self.job = ""
        """The id of the submission."""

    def folder(self, number: int) -> Path:
        """Return the folder of a completed checkpoint."""
        return next((self._scene.directory / CHECKPOINTS).absolute().glob(f"*/chk-{number}"))

    def under_way(self) -> bool:
        """Whether a checkpoint is in progress."""
        return any(each["status"] == "IN_PROGRESS" for each in self._all())

    def ask(self) -> int:
        """Request a checkpoint, wait until it begins, and return its number."""
        before = max((each["id"] for each in self._all()), default=0)
        self._cluster.rest.trigger(self.job)
        found = wait_until(
            lambda: [e["id"] for e in self._all() if e["id"] > before],
            within_s=TAKEN_S,
            poll_s=POLL_S,
            because="a checkpoint to begin",
        )
        return int(min(found))

    def last_complete(self) -> int:
        """Return the number of the last complete checkpoint; 0: none."""
        return max(
            (int(each["id"]) for each in self._all() if each["status"] == "COMPLETED"),
            default=0,
        )

    def seen(self, number: int) -> Mapping[str, Any]:
        """Return what the JobManager reports of a checkpoint."""
        return next(each for each in self._all() if each["id"] == number)

    def _all(self) -> list[dict[str, Any]]:
        return self._cluster.rest.checkpoints(self.job)

    def tell(self, number: int, *, completed: bool) -> None:
        """Write down the status of a checkpoint; with ``completed``, wait until it is over."""
        if completed:
            wait_until(
                lambda: self.seen(number)["status"] != "IN_PROGRESS",
                within_s=TAKEN_S,
                poll_s=POLL_S,
                because=f"checkpoint {number} to be over",
            )
        told = self.seen(number)
        self._scene.history.write(
            kinds.Fault(
                phase=FaultPhase.CHECKPOINT,
                fault=self._scene.cell.scenario.fault.id,
                number=number,
                status=told["status"],
                acknowledged=told["num_acknowledged_subtasks"],
                of=told["num_subtasks"],
            )
        )

    def arm_store(self, failpoints: Path, name: str, *, refuses: bool) -> None:
        """Write the file that arms a failpoint in the JobManager's store, below ``failpoints``."""
        told = {
            "name": name,
            "action": "fail" if refuses else "hold",
            "cell": self._scene.cell.id,
            "record": self._scene.load.target.id,
            "history": str((self._scene.history_folder / "job-manager.jsonl").absolute()),
        }
        part = failpoints / f"{self.job}.part"
        part.write_text("".join(f"{key}={value}\n" for key, value in told.items()))
        part.replace(failpoints / f"{self.job}.armed")

    def await_stored(self) -> int:
        """Wait for the JobManager's line that a checkpoint is held at the store, and return its
        number.
        """
        hits = self._scene.so_far.finder(kinds.Failpoint, lambda e: e.by == "job-manager")
        found = wait_until(
            lambda: [hit.batch for hit in hits() if hit.batch is not None],
            within_s=TAKEN_S,
            because="a checkpoint to come to the store",
            poll_s=POLL_S,
        )
        return found[-1]
