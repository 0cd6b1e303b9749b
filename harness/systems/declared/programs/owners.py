"""Find the process behind each connection on the wire: one of the stage's, or a stranger's, which
voids the cell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.model import events as kinds
from harness.model.events import ConnPhase, NodePhase
from harness.model.scenario import Role
from harness.runtimes.process.processes import command_of, is_alive

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from harness.systems.declared.programs.nodes import CommandNode
    from harness.systems.declared.programs.workers import Workers
    from harness.systems.declared.scene import Scene


class Owners:
    """Remembers which process owns each connection of a cell."""

    def __init__(self, scene: Scene, stages: Mapping[Role, CommandNode], workers: Workers) -> None:
        self._scene = scene
        self._stages = stages
        self._workers = workers
        self._looked_at = 0
        self._owners: dict[int, tuple[int, int]] = {}
        """Connection → its process id, and the incarnation of the stage that opened it."""

    def attribute(self) -> None:
        """Write down which process each new connection belongs to.

        A connection that has already ended has no owner, and proves nothing: nobody is looked for,
        which takes time where a program connects anew for each request. If a process that has
        fetched ends by itself, the user is told at once.
        """
        new = self._scene.so_far.events(self._looked_at)
        reads = self._scene.pipeline.dialect.reads[0].label
        self._looked_at += len(new)
        ended = {
            event.conn
            for event in new
            if isinstance(event, kinds.Conn) and event.phase == ConnPhase.CLOSE
        }
        opened = [
            event
            for event in new
            if isinstance(event, kinds.Conn)
            and event.phase == ConnPhase.OPEN
            and event.conn not in ended
        ]
        for role, stage in self._stages.items():
            self._find(stage, [event for event in opened if event.role == role])
        for event in new:
            if isinstance(event, kinds.Frame) and event.api == reads:
                self._note(event)
        for one in self._workers.gone():
            stage = self._stages[one.role]
            stage.processes.say(NodePhase.GONE, pid=one.pid, command=one.command)
            self._scene.fetched.say(
                f"{self._scene.cell.scenario.id}: a process of the {stage.name} has ended by "
                f"itself: {one.pid} ({one.command})"
            )

    def _note(self, frame: kinds.Frame) -> None:
        """Note that the process behind a connection has fetched."""
        owner = None if frame.conn is None else self._owners.get(frame.conn)
        if owner and frame.role is not None and self._scene.pipeline.reads(frame.role):
            self._workers.note(Role(frame.role), *owner)

    def _find(self, stage: CommandNode, opened: Sequence[kinds.Conn]) -> None:
        """Write down which processes have opened the connections of a stage."""
        ports = {event.conn: event.peer for event in opened if event.peer is not None}
        owners = stage.processes.owners({*ports.values()}) if ports else {}
        for conn, port in ports.items():
            if (pid := owners.get(port)) is not None:
                self._owners[conn] = pid, stage.processes.incarnation
                self._scene.history.write(
                    kinds.Owner(conn=conn, role=stage.role, pid=pid, command=command_of(pid))
                )
            elif (stranger := stage.processes.stranger(port)) is not None:
                self._scene.history.write(
                    kinds.Stranger(conn=conn, role=stage.role, pid=stranger[0], command=stranger[1])
                )

    def lives(self, conn: int) -> bool:
        """Say whether the process behind a connection lives; if that process is unknown, whether
        the connection is open.
        """
        pid, _ = self._owners.get(conn, (None, 0))
        return self._scene.stages_seen.is_open(conn) if pid is None else is_alive(pid)
