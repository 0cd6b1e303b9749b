"""A stream in memory: records flow by themselves, a fault writes what a real one would, and harms
what it is told to.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.controls import InProgram, OnWire
from harness.faults import Kill
from harness.model import events as kinds
from harness.model.history import HISTORY
from harness.model.scenario import Predicted, Role
from harness.model.semantics import Semantic
from harness.model.writing import LedgerWriter
from harness.soak.legs import MARKS, results_name
from harness.stages.bulk.marks import Marks
from harness.stages.bulk.results import Results
from harness.wire.rules import Direction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from harness.soak.drawing import DrawnFault
    from harness.soak.flow import Stream


@dataclass(frozen=True)
class Harm:
    """What a fault does to the unit that it strikes."""

    lose: int = 0
    duplicate: int = 0
    strange: int = 0
    disarm: bool = False
    """It never fires."""
    wrong: bool = False
    """Another program is killed than was meant."""


@dataclass
class Play:
    """Implements :class:`harness.soak.flow.Flow`. ``harms``: by the fault's number, beside what
    theory says of it.
    """

    asked: Stream
    harms: dict[int, Harm] = field(default_factory=dict)
    beside: dict[int, Harm] = field(default_factory=dict)
    """Harm to the unit of partition 0 that begins at a position, whatever is struck."""
    late: dict[int, Callable[[], tuple[int, int]]] = field(default_factory=dict)
    """Before the unit of partition 0 that begins at a position: the first of the positions recorded
    once more, and how many.
    """
    ends_at: int | None = None
    """Ctrl-C is pressed when so many records were taken."""
    stops_at: int | None = None
    """Nothing is taken any more from there on."""
    struck: list[DrawnFault] = field(default_factory=list)
    harmed: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    """Fault to the partition and the positions of the unit that it struck."""
    _results: list[Results] = field(default_factory=list)
    _due: deque[tuple[DrawnFault, Harm]] = field(default_factory=deque)

    def begin(self, folder: Path, begins: Sequence[int]) -> None:
        """Open the files."""
        del begins
        self.marks = Marks(folder / MARKS)
        self._results = [
            Results(folder / results_name(partition)) for partition in range(self.asked.partitions)
        ]

    def strike(self, fault: DrawnFault, folder: Path) -> None:
        """Write its history, and harm the next unit of its partition."""
        self.struck.append(fault)
        harm = self.harms.get(fault.number, Harm())
        with LedgerWriter(folder / HISTORY / "runner.jsonl", cell="play", by="runner") as runner:
            FaultHistory(fault, harm, self.marks, self.asked.semantic).write(runner)
        if not harm.disarm:
            self._due.append((fault, harm))

    def over(self) -> None:
        """Nothing is open."""

    def results(self, partition: int, table: str, row: int) -> Iterable[tuple[int, int, int]]:
        """Let the next units flow, once for all partitions. None does while a fault is struck: it
        would find nothing left to strike if its thread got no processor for long.
        """
        if partition == 0 and table == "recorded":
            for thread in threading.enumerate():
                if thread.name.startswith("fault "):
                    thread.join()
            for each in range(self.asked.partitions):
                self._flow(each)
        yield from self._results[partition].since(table, row)

    def strange(self) -> int:
        """Return how many were none of ours."""
        return sum(results.strange() for results in self._results)

    def trouble(self) -> None:
        """Nobody ends."""

    def close(self) -> None:
        """Close the files."""
        for results in self._results:
            results.close()
        if self._results:
            self.marks.close()

    def _flow(self, partition: int) -> None:
        mark, end = self.marks.read(partition), self.asked.ends[partition]
        after = min(mark.taken + self.asked.unit, end)
        if self.ends_at is not None and mark.taken >= self.ends_at:
            self.ends_at = None
            os.kill(os.getpid(), signal.SIGINT)
        if self.stops_at is not None and mark.taken >= self.stops_at:
            return
        self.marks.put(partition, "taken", after)
        if mark.taken == end:
            self.marks.put(partition, "done", end + 1)
            return
        lose = duplicate = strange = 0
        if self._due and self._due[0][0].partition == partition:
            fault, harm = self._due.popleft()
            expected = fault.scenario.expectation(self.asked.semantic)
            assert isinstance(expected, Predicted)
            lose = harm.lose + 2 * expected.lost.must_show()
            duplicate = harm.duplicate + 2 * expected.duplicated.must_show()
            strange = harm.strange
            if self.asked.semantic is Semantic.AT_MOST_ONCE:
                self.marks.put(partition, "unheard", after)
            self.harmed[fault.number] = (partition, mark.taken, after)
        if partition == 0 and mark.taken in self.beside:
            harm = self.beside[mark.taken]
            lose = lose + harm.lose
            duplicate = duplicate + harm.duplicate
            strange = strange + harm.strange
        if partition == 0 and mark.taken in self.late:
            first, count = self.late[mark.taken]()
            self._results[0].record(np.arange(first, first + count))
        positions = np.arange(mark.taken + lose, after)
        self._results[partition].record(positions, strange)
        self._results[partition].record(positions[:duplicate])
        self.marks.put(partition, "done", after)


@dataclass
class FaultHistory:
    """The history of a fault that does what it should."""

    fault: DrawnFault
    harm: Harm
    marks: Marks
    semantic: Semantic

    def write(self, to: LedgerWriter) -> None:
        """Write it: the hit, the deaths, what shows that a protection has worked."""
        fault: Any = self.fault.scenario.fault
        to.write(kinds.FAULT, phase="armed", fault=fault.id)
        if self.harm.disarm:
            return
        at, partition = fault.at, self.fault.partition
        node = f"{at.role}-{partition}"
        victims = fault.victims if isinstance(fault, Kill) else ()
        if isinstance(at, OnWire):
            self._wire(to, at, node, dropped=not victims)
        elif isinstance(at, InProgram):
            to.write(
                kinds.FAILPOINT,
                name=at.name,
                record=f"partition-{partition}",
                hit=self.fault.hit,
                action="kill",
                pid=7,
            )
        for role in victims:
            name = (
                "broker-1"
                if role is Role.BROKER
                else f"{role}-{1 - partition if self.harm.wrong else partition}"
            )
            to.write(
                kinds.NODE,
                node=name,
                role=role,
                incarnation=1,
                phase="exited",
                pid=7,
                status=None,
                signal=9,
            )
            to.write(kinds.NODE, node=name, role=role, incarnation=2, phase="ready", pid=8)
        taken = self.marks.get(partition, "taken")
        if Role.PRODUCER in victims:
            again = self.semantic is not Semantic.AT_MOST_ONCE
            to.write(
                kinds.RESUMED,
                where="source",
                partition=partition,
                position=taken - again,
                taken=taken,
            )
        if Role.CONSUMER in victims:
            to.write(
                kinds.RESUMED,
                where="group",
                partition=partition,
                position=taken - 1,
                delivered=taken,
            )
        to.write(kinds.FAULT, phase="healed", fault=fault.id)

    @staticmethod
    def _wire(to: LedgerWriter, at: OnWire, node: str, *, dropped: bool) -> None:
        frame = {"role": at.role, "client": f"k.{node}.1", "api": at.api}
        to.write(kinds.FRAME, conn=1, corr=5, dir=Direction.REQUEST, size=2000, **frame)
        hit = {**frame, "conn": 1, "corr": 5, "dir": at.direction, "size": 2000}
        to.write(kinds.RULE, rule="fault", phase="hit", held=None, **hit)
        for phase in ("dropped", "cut") if dropped else ("held", "discarded"):
            to.write(kinds.RULE, rule="fault", phase=phase, **hit)
        to.write(kinds.FRAME, conn=2, corr=5, dir=Direction.REQUEST, size=2000, **frame)
