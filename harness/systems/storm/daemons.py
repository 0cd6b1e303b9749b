"""Nimbus and the supervisor as targets of faults, for a cell that does not share its Storm."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from harness.model.events import NodePhase
from harness.run.nodes import ServerNode, say_of
from harness.systems.storm.settings import NIMBUS, SUPERVISOR

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Unpack

    from harness.controls import Target
    from harness.model.events import NodeFields
    from harness.model.scenario import Role
    from harness.systems.kafka.scene import Scene
    from harness.systems.storm.cluster import Cluster


class SupervisorNode:
    """The present supervisor, without its workers. Implements :class:`harness.controls.Target`."""

    name = str(SUPERVISOR)
    role = SUPERVISOR

    def __init__(self, scene: Scene, cluster: Cluster) -> None:
        self._scene = scene
        self._cluster = cluster

    def kill(self) -> None:
        """Kill the supervisor alone with SIGKILL; its workers live on."""
        self._say(
            NodePhase.EXITED,
            self._cluster.kill_supervisor(),
            status=None,
            signal=int(signal.SIGKILL),
        )

    def pause(self) -> None:
        """Stop the supervisor (SIGSTOP)."""
        self._signal(signal.SIGSTOP, NodePhase.PAUSED)

    def resume(self) -> None:
        """Let the supervisor go on."""
        self._signal(signal.SIGCONT, NodePhase.RESUMED)

    def restart(self) -> None:
        """Start the next supervisor, and wait until it is registered at Nimbus."""
        self._cluster.restart_supervisor()
        for phase in (NodePhase.STARTED, NodePhase.READY):
            self._say(phase, self._cluster.supervisor_pid())

    def _signal(self, what: signal.Signals, phase: NodePhase) -> None:
        pid = self._cluster.supervisor_pid()
        os.kill(pid, what)
        self._say(phase, pid)

    def _say(self, phase: NodePhase, pid: int, **fields: Unpack[NodeFields]) -> None:
        say_of(self, self._scene.history, phase, pid, **fields)


def daemons(scene: Scene, cluster: Cluster) -> Mapping[Role, Callable[[], Target]]:
    """Return Nimbus and the supervisor as targets, by their roles."""
    nimbus = ServerNode(
        scene.history,
        lambda: cluster.process("nimbus"),
        cluster.kill_nimbus,
        cluster.restart_nimbus,
        name=str(NIMBUS),
        role=NIMBUS,
    )
    supervisor = SupervisorNode(scene, cluster)
    return {NIMBUS: lambda: nimbus, SUPERVISOR: lambda: supervisor}
