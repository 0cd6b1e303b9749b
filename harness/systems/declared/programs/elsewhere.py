"""Find the servers that the stages speak to past the wire. In the dry run: nothing that is said
there can be tried. In every cell: if one speaks to an attached broker past the wire, nothing is
proved.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from harness.faults import NoFault
from harness.model import events as kinds
from harness.model.failures import CellFailure
from harness.runtimes.process.peers import Peers, peers_in, peers_of, port_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from harness.model.scenario import Role
    from harness.systems.declared.programs.nodes import CommandNode
    from harness.systems.declared.scene import Scene

LOOK_S: Final = 0.25
"""How long (seconds), at least, the kernel's tables are not read again."""


class UnseenServers:
    """Remembers the servers of each stage. ``traced``: returns where the calls of a stage are
    logged, if they are; between two looks only these show a connection.
    """

    def __init__(
        self,
        scene: Scene,
        stages: Mapping[Role, CommandNode],
        traced: Callable[[CommandNode], Path | None],
    ) -> None:
        fault = scene.cell.scenario.fault
        self._scene = scene
        self._around = scene.brokers.around
        self._looked_at = stages
        self._stages = stages if isinstance(fault, NoFault) and fault.watched else {}
        self._traced = traced
        self._peers = {role: Peers() for role in self._stages}
        self._next = 0.0

    def look(self) -> None:
        """Look which servers the stages are connected to now.

        Raises:
            CellFailure: one of them is a broker, at its own address instead of the wire's.
        """
        if not (self._peers or self._around) or time.monotonic() < self._next:
            return
        for role, stage in (self._looked_at if self._around else self._stages).items():
            seen = peers_of(stage.processes.members())
            if past := sorted(seen.connected & self._around):
                raise CellFailure(
                    f"the {role} is connected to {past[0]}, the broker's own address, past the "
                    "wire: let it take the address of the broker from {bootstrap} alone"
                )
            if role in self._peers:
                self._peers[role].add(seen)
        self._next = time.monotonic() + LOOK_S

    def tell(self) -> None:
        """Write down the servers of each stage that are neither behind the wire nor stages."""
        self._next = 0.0
        self.look()
        for role, peers in self._peers.items():
            if (log := self._traced(self._stages[role])) is not None:
                peers.add(peers_in(log))
        own = set[str]().union(*(peers.own for peers in self._peers.values()))
        for role, peers in self._peers.items():
            known = self._stages[role].command.ports
            others = Peers(peers.connected, own).others()
            if servers := sorted(each for each in others if port_of(each) not in known):
                self._scene.history.write(kinds.Elsewhere(role=role, servers=tuple(servers)))
