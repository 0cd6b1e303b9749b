"""The processes of consuming stages that fetch, and which of them end by themselves while their stage lives on."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.runtimes.process.processes import command_of, is_alive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from harness.model.scenario import Role
    from harness.systems.declared.nodes import CommandNode

REPLACED_S = 10.0
"""How long whoever started it may take to start another one in its place."""


@dataclass
class Worker:
    """One process that has fetched; ``of`` is the incarnation of its stage, times are monotonic seconds."""

    role: Role
    pid: int
    command: str
    of: int
    since: float
    ended: float | None = None


class Workers:
    """Nobody but its parent is told how such a process ended: only that it is gone can be seen.

    One that the fault has killed is ``spared``: that it is gone is no news. Nor is it where its stage has ended, or was told to.
    """

    def __init__(self, stages: Mapping[Role, CommandNode], spared: Callable[[int], bool]) -> None:
        self._stages = stages
        self._spared = spared
        self._known: dict[int, Worker] = {}

    def note(self, role: Role, pid: int, life: int) -> None:
        """Remember a process that has fetched in this incarnation of its stage; earlier incarnations do not count."""
        stage = self._stages[role]
        if pid not in self._known and life == stage.incarnation and stage.node is not None and pid != stage.node.pid:
            self._known[pid] = Worker(role, pid, command_of(pid), stage.incarnation, time.monotonic())

    def gone(self) -> Iterator[Worker]:
        """Yield those that have ended by themselves; each once."""
        for worker in [*self._known.values()]:
            if worker.ended is not None or is_alive(worker.pid):
                continue
            stage = self._stages[worker.role]
            if worker.of != stage.incarnation or stage.ended() is not None or stage.asked or self._spared(worker.pid):
                del self._known[worker.pid]
                continue
            worker.ended = time.monotonic()
            yield worker

    def missed(self) -> Worker | None:
        """Return one that ended a while ago, and in whose place no other process has begun to fetch."""
        fresh = sorted(worker.since for worker in self._known.values())
        for worker in sorted((w for w in self._known.values() if w.ended), key=lambda w: w.ended or 0):
            ended = worker.ended or 0
            other = next((since for since in fresh if since > ended), None)
            if other is not None:
                fresh.remove(other)
            elif time.monotonic() - ended > REPLACED_S and self._stages[worker.role].ended() is None:
                return worker
        return None
