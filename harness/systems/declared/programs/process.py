"""The processes of a stage, and the process that owns a connection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.model import events as kinds
from harness.model.events import NodePhase
from harness.runtimes.process.members import environment_of
from harness.runtimes.process.processes import command_of, owners_of, stranger_at
from harness.systems.declared.programs import several

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from typing import Unpack

    from harness.model.events import NodeFields
    from harness.model.history import HistoryWriter
    from harness.runtimes.interface import Member, Node, NodeSpec, Runtime
    from harness.systems.declared.programs.command import StageCommand


@dataclass
class StageProcesses:
    """The processes of a stage's present incarnation, and what the history says of them."""

    command: StageCommand
    history: HistoryWriter
    incarnation: int = 0
    supervised: int = 0
    """How many incarnations were started because the one before had ended by itself."""
    node: Node | None = None
    """The first process, which the runtime has started; ``None``: its start is still to come."""

    def start(self, runtime: Runtime, spec: NodeSpec, *, supervised: bool) -> None:
        """Start the next incarnation. ``supervised``: the previous one ended by itself."""
        self.incarnation += 1
        self.supervised += supervised
        self.node = runtime.start(spec)
        self.say(NodePhase.STARTED, pid=self.node.pid, supervised=supervised)

    def alive(self) -> Node:
        """Return the first process.

        Raises:
            RuntimeError: the stage was never started.
        """
        if self.node is None:
            raise RuntimeError(f"the {self.command.name} was never started")
        return self.node

    def members(self) -> dict[int, Member]:
        """Return the living processes of this stage, by their process ids."""
        return {} if self.node is None else {member.pid: member for member in self.node.members()}

    def owners(self, ports: Collection[int]) -> dict[int, int]:
        """Return the ids of this stage's processes that have the connections from some ports, by
        port; other connections are left out.
        """
        return owners_of(self.members(), ports, self.command.ports)

    def owner(self, port: int) -> int | None:
        """Return the id of this stage's process that has the connection from a port; ``None`` if
        none has.
        """
        return self.owners((port,)).get(port)

    def stranger(self, port: int) -> tuple[int, str] | None:
        """Return the process outside this stage that has the connection from a port; ``None`` if
        the stage itself has it.

        The result is the process id (0 if it cannot be seen) and the command. For a container it is
        always ``None``: the container is the boundary.
        """
        if self.command.stage.image:
            return None
        pid = stranger_at(port, self.command.ports, self.members)
        return None if pid is None else (pid, command_of(pid) if pid else "")

    def number_of(self, pid: int) -> int:
        """Return the number of the member that a process is of; 0 if lostack started only one."""
        for variable in environment_of(pid).split(b"\0"):
            name, _, value = variable.partition(b"=")
            if name.decode(errors="replace") == several.VARIABLE and value.isdigit():
                return int(value)
        return 0

    def by_number(self) -> dict[int, list[int]]:
        """Return the living processes of each member that lostack has started, by its number."""
        found: dict[int, list[int]] = {}
        for pid in self.members():
            if number := self.number_of(pid):
                found.setdefault(number, []).append(pid)
        return found

    def tell_member(self, number: int, line: str) -> None:
        """Tell what starts the members to ``start`` one, or that one may ``leave``."""
        self.alive().write_stdin(f"{line} {number}\n".encode())

    def name_of(self, pid: int) -> str:
        """Return the name of the member that a process is of; the stage's, if it has only one."""
        number = self.number_of(pid)
        return f"{self.command.name}#{number}" if number else self.command.name

    def claim(self, pid: int) -> None:
        """Note in the history that a process belongs to this stage, if the kernel says so."""
        if pid != self.alive().pid and pid in self.members():
            self.say(NodePhase.JOINED, pid=pid, of=self.alive().pid)

    def say(self, phase: NodePhase, pid: int | None, **fields: Unpack[NodeFields]) -> None:
        """Note in the history what happened to one of the processes."""
        name = self.command.name
        self.history.write(
            kinds.Node(
                node=name, role=name, incarnation=self.incarnation, phase=phase, pid=pid, **fields
            )
        )


def told(members: Sequence[Member]) -> tuple[tuple[int, str, str], ...]:
    """Return processes as a history line has them."""
    return tuple((one.pid, one.how, one.command) for one in members)
