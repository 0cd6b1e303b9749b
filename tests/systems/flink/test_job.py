"""A job ends with its cell, whatever has become of its JobManager: on fakes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from harness.model.failures import CellFailure
from harness.runtimes.interface import Exit
from harness.systems.flink import job as flink_job
from harness.systems.flink.job import Job
from harness.systems.flink.rest import RestError
from harness.systems.flink.settings import FLINK_AT_LEAST_ONCE
from tests.events import told

if TYPE_CHECKING:
    from harness.model.events import Event

KILLED = Exit(pid=1, status=None, signal=9, at_ns=0)


class TaskManagers:
    """A cluster with one TaskManager, and a JobManager that answers with these states of the job:
    the last one for ever.
    """

    def __init__(self, *states: str | RestError) -> None:
        self.exit: Exit | None = None
        self.cancelled: list[str] = []
        self.slots = 0
        self._states = list(states)
        self.rest = SimpleNamespace(state=self._state, cancel=self.cancelled.append)

    def _state(self, job: str) -> str:
        assert job == "job-id"
        state = self._states.pop(0) if len(self._states) > 1 else self._states[0]
        if isinstance(state, RestError):
            raise state
        return state

    def task_manager(self, name: str) -> Any:
        """Return it."""
        assert name == "task-manager-1"
        return SimpleNamespace(pid=1, exit=self.exit)

    def kill(self, name: str) -> None:
        """Kill it."""
        assert name == "task-manager-1"
        self.exit = KILLED

    def unwant(self, slots: int) -> None:
        """Take back the slots."""
        self.slots -= slots


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what makes a job that was submitted, its cluster, and the lines of its history."""
    monkeypatch.setattr(flink_job, "ENDED_S", 0.1)

    def make(
        *states: str | RestError, hosted: bool = True
    ) -> tuple[Job, TaskManagers, list[dict[str, Any]]]:
        cluster: Any = TaskManagers(*states)
        lines: list[dict[str, Any]] = []

        def write(event: Event) -> None:
            lines.append(told(event))

        scene: Any = SimpleNamespace(
            cell=SimpleNamespace(settings=FLINK_AT_LEAST_ONCE), history=SimpleNamespace(write=write)
        )
        job = Job(scene, cluster)
        job.id = "job-id"
        if hosted:
            job.task_manager.run_on("task-manager-1")
        return job, cluster, lines

    return make


GONE = RestError("GET /jobs/job-id: Connection refused")


@pytest.mark.parametrize(
    "states",
    [(GONE,), ("RUNNING", GONE), ("RUNNING", "CANCELLING", GONE), ("RUNNING", "CANCELLING")],
)
def test_a_task_manager_does_not_outlive_a_job_of_which_nobody_tells(
    made: Any, states: tuple[Any, ...]
) -> None:
    """It would write behind the last line of the history: it is killed, and the cell is void."""
    job, cluster, lines = made(*states)
    with pytest.raises(CellFailure, match="nobody can tell whether the job has ended"):
        job.close()
    assert cluster.exit == KILLED
    assert (lines[-1]["phase"], lines[-1]["signal"]) == ("exited", 9)


def test_a_job_whose_task_manager_is_unknown_voids_its_cell(made: Any) -> None:
    """It may run anywhere, or soon."""
    job, cluster, _ = made(GONE, hosted=False)
    with pytest.raises(CellFailure, match="nobody can tell"):
        job.close()
    assert cluster.exit is None


def test_a_job_that_a_fault_has_ended_with_all_it_had_is_over(made: Any) -> None:
    job, cluster, _ = made(GONE)
    cluster.exit = KILLED
    job.close()


def test_a_job_that_does_not_end_may_run_elsewhere(made: Any) -> None:
    job, cluster, _ = made("RUNNING")
    cluster.exit = KILLED
    with pytest.raises(CellFailure, match=r"waited .* for the job to end"):
        job.close()


def test_a_job_that_ends_leaves_its_task_manager_to_others(made: Any) -> None:
    job, cluster, _ = made("RUNNING", "CANCELLING", "CANCELED")
    job.close()
    assert (cluster.exit, cluster.cancelled) == (None, ["job-id"])
