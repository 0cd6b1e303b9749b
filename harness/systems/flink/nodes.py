"""The nodes of a Flink cluster that faults strike: the TaskManager that runs a cell's job, and the
JobManager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.model.events import NodePhase
from harness.run.nodes import say_of
from harness.systems.flink.roles import JOB_MANAGER, TASK_MANAGER

if TYPE_CHECKING:
    from typing import Unpack

    from harness.model.events import NodeFields
    from harness.runtimes.interface import Exit
    from harness.systems.flink.cluster import Cluster
    from harness.systems.kafka.scene import Scene


class TaskManager:
    """The TaskManager that runs a cell's job at present. Implements
    :class:`harness.controls.Target`.
    """

    name = str(TASK_MANAGER)
    role = TASK_MANAGER

    def __init__(self, scene: Scene, cluster: Cluster) -> None:
        self._scene = scene
        self._cluster = cluster
        self._now = ""
        self._incarnation = 0
        self._pid = 0
        self._told = False

    def run_on(self, name: str) -> None:
        """Note that the job runs on the TaskManager of this name, which may be the
        same as before.
        """
        if name == self._now:
            return
        self._now = name
        self._pid = self._cluster.task_manager(name).pid
        self._incarnation += 1
        self._told = False
        self._say(NodePhase.STARTED, known_as=name)
        self._say(NodePhase.READY)

    def kill(self) -> None:
        """Kill the TaskManager with SIGKILL."""
        self._cluster.kill(self._now)
        self.ended()

    def ended(self) -> Exit | None:
        """Return how the TaskManager ended, or ``None``; the history notes the end once."""
        end = self._cluster.task_manager(self._now).exit
        if end is not None and not self._told:
            self._told = True
            self._say(NodePhase.EXITED, status=end.status, signal=end.signal)
        return end

    def has_ended(self) -> bool:
        """Say whether the job's TaskManager is known, and has ended."""
        return bool(self._now) and self.ended() is not None

    def end(self) -> None:
        """Kill the TaskManager, if it is known and lives."""
        if self._now and self.ended() is None:
            self.kill()

    def pause(self) -> None:
        """Stop the TaskManager (SIGSTOP)."""
        self._cluster.task_manager(self._now).pause()
        self._say(NodePhase.PAUSED)

    def resume(self) -> None:
        """Let the TaskManager go on."""
        self._cluster.task_manager(self._now).resume()
        self._say(NodePhase.RESUMED)

    def restart(self) -> None:
        """Raise NotImplementedError: the JobManager restarts the job
        (:meth:`Job.await_running`).
        """
        raise NotImplementedError("the JobManager restarts a job")

    def _say(self, phase: NodePhase, **fields: Unpack[NodeFields]) -> None:
        say_of(self, self._scene.history, phase, self._pid, self._incarnation, **fields)


class JobManager:
    """The JobManager, for a cell that does not share the cluster. Implements
    :class:`harness.controls.Target`.
    """

    name = str(JOB_MANAGER)
    role = JOB_MANAGER

    def __init__(self, scene: Scene, cluster: Cluster) -> None:
        self._scene = scene
        self._cluster = cluster

    def begin(self) -> None:
        """Write down its process id."""
        self._say(NodePhase.STARTED)

    def kill(self) -> None:
        """Kill the JobManager with SIGKILL."""
        end = self._cluster.kill_job_manager()
        self._say(NodePhase.EXITED, status=end.status, signal=end.signal)

    def pause(self) -> None:
        """Stop the JobManager (SIGSTOP)."""
        self._cluster.job_manager.pause()
        self._say(NodePhase.PAUSED)

    def resume(self) -> None:
        """Let the JobManager go on."""
        self._cluster.job_manager.resume()
        self._say(NodePhase.RESUMED)

    def restart(self) -> None:
        """Start a JobManager, and wait until it answers. It knows nothing of earlier jobs."""
        self._cluster.start_job_manager()
        self._cluster.await_up()
        self._say(NodePhase.STARTED)

    def _say(self, phase: NodePhase, **fields: Unpack[NodeFields]) -> None:
        say_of(self, self._scene.history, phase, self._cluster.job_manager.pid, 1, **fields)
