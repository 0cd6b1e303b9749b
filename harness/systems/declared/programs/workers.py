"""Watch the worker processes of consuming stages: which of them end by themselves while their stage
lives on.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.runtimes.process.processes import command_of, is_alive

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from harness.model.scenario import Role
    from harness.systems.declared.programs.nodes import CommandNode

REPLACED_S = 10.0
"""How long (seconds) a stage may take to replace a worker that ended."""


@dataclass
class Worker:
    """One process that has fetched. ``of``: the incarnation of its stage; times are monotonic
    seconds.
    """

    role: Role
    pid: int
    command: str
    of: int
    since: float
    ended: float | None = None


@dataclass
class Victim:
    """The process that the fault strikes alone. ``pid`` is ``None`` until it is known, and if the
    fault strikes a whole stage.
    """

    pid: int | None = None
    told: set[int] = field(default_factory=set)
    """The processes that the fault tells to end."""


class Workers:
    """Remembers the processes that have fetched. It sees that one is gone, but not how it ended:
    only its parent is told that.

    A process does not count if the fault killed it (``victim``), or if its stage has ended or was
    told to end.
    """

    def __init__(self, stages: Mapping[Role, CommandNode], victim: Victim) -> None:
        self._stages = stages
        self._victim = victim
        self._known: dict[int, Worker] = {}

    def note(self, role: Role, pid: int, life: int) -> None:
        """Remember a process that has fetched, if it belongs to the present incarnation of its
        stage.
        """
        stage = self._stages[role]
        if (
            pid not in self._known
            and life == stage.processes.incarnation
            and stage.processes.node is not None
            and pid != stage.processes.node.pid
        ):
            self._known[pid] = Worker(
                role, pid, command_of(pid), stage.processes.incarnation, time.monotonic()
            )

    def gone(self) -> Iterator[Worker]:
        """Yield the processes that have ended by themselves, each once."""
        for worker in [*self._known.values()]:
            if worker.ended is not None or is_alive(worker.pid):
                continue
            stage = self._stages[worker.role]
            if (
                worker.of != stage.processes.incarnation
                or stage.ended() is not None
                or stage.asked
                or worker.pid == self._victim.pid
                or worker.pid in self._victim.told
            ):
                del self._known[worker.pid]
                continue
            worker.ended = time.monotonic()
            yield worker

    def missed(self) -> Worker | None:
        """Return a process that ended more than REPLACED_S ago without another one that began to
        fetch; ``None`` if none did.
        """
        fresh = sorted(worker.since for worker in self._known.values())
        for worker in sorted(
            (w for w in self._known.values() if w.ended), key=lambda w: w.ended or 0
        ):
            ended = worker.ended or 0
            other = next((since for since in fresh if since > ended), None)
            if other is not None:
                fresh.remove(other)
            elif (
                time.monotonic() - ended > REPLACED_S and self._stages[worker.role].ended() is None
            ):
                return worker
        return None
