"""Find the node that a fault strikes in a declared cell. A user's program is known by its route on
the wire.

A stage may have several processes. The one that hits a failpoint waits there until the whole stage,
or it alone, is killed.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from harness.controls import AtWrite, Fired
from harness.faults import ChangesGroup
from harness.model import events as kinds
from harness.run.who import SERVERS, LastHit
from harness.runtimes.process.processes import command_of
from harness.systems.declared.programs.errors import StageError
from harness.wire.rules import FreezeScope

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from harness.controls import InProgram, OnWire, Stop, Target
    from harness.model.scenario import Role
    from harness.systems.declared.programs.nodes import CommandNode
    from harness.systems.declared.programs.workers import Victim
    from harness.systems.declared.scene import Scene
    from harness.wire.rules import Rule


class FaultTargets:
    """Finds the nodes of a cell. Implements :class:`harness.run.controls.Nodes`."""

    def __init__(
        self,
        scene: Scene,
        stages: Mapping[Role, CommandNode],
        servers: Mapping[Role, Callable[[], Target]],
        *,
        members: Callable[[], int],
        victim: Victim,
        last_hit: LastHit | None = None,
    ) -> None:
        """``members``: returns how many members the readers' groups have now; ``victim``: becomes
        the process that the fault strikes, ``last_hit`` the frame at which it does.
        """
        self._scene = scene
        self._stages = stages
        self._servers = servers
        self._members = members
        self._victim = victim
        self._last_hit = last_hit or LastHit()
        self.members = 0
        """How many members the groups had when the fault fired."""

    def target(self, role: Role, node: str | None = None) -> Target:
        """Return the stage or server of a role; if the fault strikes one process of the stage, that
        process.

        Raises:
            RuntimeError: the pipeline has no such stage, or the server is shared with other cells.
        """
        del node  # a run has one stage of each role
        if role in self._servers:
            return self._servers[role]()
        if role in SERVERS:
            raise RuntimeError(
                f"{self._scene.cell.id} kills the {role}, so it must not share it: use "
                "Deployment.OWN"
            )
        stage = self.stage(role)
        return stage if self.victim is None else stage.one(self.victim)

    @property
    def victim(self) -> int | None:
        """The id of the process that the fault strikes; ``None`` if it strikes the whole stage."""
        return self._victim.pid

    def stage(self, role: Role) -> CommandNode:
        """Return the whole stage of a role.

        Raises:
            RuntimeError: the pipeline has no stage of this role.
        """
        if role not in self._stages:
            raise RuntimeError(f"{self._scene.cell.id}: the pipeline has no stage {role}")
        return self._stages[role]

    def membership(self) -> int:
        """Return how many members the cell's groups have now."""
        return self._members()

    def rule(self, trigger: OnWire, rule: Rule) -> Rule:
        """Return the rule; if the fault strikes one process of several, it does not freeze the
        others' connections.
        """
        if rule.freeze is FreezeScope.CLIENT and self._crashes_one(trigger.role):
            return dataclasses.replace(rule, freeze=None)
        return rule

    def selector(self, fired: Fired) -> str | None:
        """Return ``None``: the route selects alone, because a user's program chooses its client
        ids.
        """
        del fired
        return None

    def hit(self, trigger: OnWire, hit: kinds.Rule) -> str:
        """Return the name of the stage that hit the rule; if the fault strikes one process,
        remember which one. The hit is kept.
        """
        self._last_hit.event = hit
        if self._crashes_one(trigger.role):
            self.members = self.membership()
            conn = hit.conn
            ports = (e.peer for e in self._scene.so_far.of(kinds.Conn) if e.conn == conn)
            self._aim(
                trigger.role, self.stage(trigger.role).processes.owner(next(ports, None) or 0), conn
            )
        return str(hit.role)

    def standing(self, trigger: InProgram | AtWrite) -> Fired | None:
        """Return the stage with a process at its failpoint, or with a thread at its durable write;
        ``None`` before that.
        """
        stage = self.stage(trigger.role)
        pid = (
            self._pid_at_write(stage) if isinstance(trigger, AtWrite) else self._pid_at_failpoint()
        )
        if pid is None:
            return None
        if self._crashes_one(trigger.role):
            self._aim(trigger.role, pid)
        else:
            stage.processes.claim(pid)
        return Fired(
            None if isinstance(trigger, AtWrite) else self._scene.load.target.id, stage.name, None
        )

    def arm(self, trigger: InProgram, stop: Stop) -> tuple[str, Mapping[str, Any]]:
        """Return how the failpoint is armed: it holds the program, and the fault then strikes the
        stage.
        """
        del trigger, stop
        target = self._scene.load.target
        return "hold", {"record": self._scene.cell.in_hand(target), "called": target.id}

    def _pid_at_failpoint(self) -> int | None:
        return next((event.pid for event in self._scene.so_far.of(kinds.Failpoint)), None)

    def _pid_at_write(self, stage: CommandNode) -> int | None:
        held = stage.tracer.held()
        return None if held is None else held.pid

    def _crashes_one(self, role: Role) -> bool:
        if role not in self._stages:
            return False
        fault = self._scene.cell.scenario.fault
        if isinstance(fault, ChangesGroup):
            return role == fault.at.role
        struck = fault.evidence()
        return role in struck.paused or (
            role in struck.killed and self._stages[role].command.one_dies
        )

    def _aim(self, role: Role, pid: int | None, conn: int | None = None) -> None:
        """Remember which process of a stage the fault strikes."""
        if pid is None:
            raise StageError(
                f"the connection on which the fault fired belongs to no process of the {role}"
            )
        self._victim.pid = pid
        self._scene.history.write(
            kinds.Owner(conn=conn, role=role, pid=pid, command=command_of(pid))
        )
