"""How long everything must have been still to be over: what is learnt of it from one cell to the next.

A program may go on after a silence: it waits before it sends again, it writes its results every few seconds. How long such a
silence lasts nobody can know beforehand. So the first cell of its kind is patient, and the others rest twice as long as the
longest silence after which something still came.
"""

from __future__ import annotations

import itertools
import math
import threading
from collections import defaultdict
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias

from harness.faults import NoFault
from harness.model.scenario import BROKERS
from harness.model.semantics import Anomaly, forbids

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.pipelines.cells import DeclaredCell
    from harness.pipelines.declaration import Pipeline

Pair: TypeAlias = tuple[str, str]
"""A stage, and what is done to it."""
NOBODY: Pair = ("", "none")
"""The pair of a run without a fault: what it shows holds for all others."""
TWICE = 2
PART = 3
"""The part of the patience that a cell rests with everything there, where what comes late would be news: the first without a
fault, which learns for all the others; and one in which a program died, that may not double anything and has not yet. What a
program does about its own death, by a timer perhaps, no run without a fault can have shown."""
OFTEN = 10
"""One in so many cells is patient again."""


class Why(StrEnum):
    """Why a rest is as long as it is, from what is known best to what is not known."""

    ENDED = "ended"
    """Nobody is left who could do anything."""
    SETTLED = "settled"
    """Everything is there, and nothing is known to be on its way."""
    LEARNT = "learnt"
    """How long such a silence may last is known from other cells."""
    PATIENCE = "patience"
    """Nothing is known of that."""


@dataclass(frozen=True, slots=True)
class Rest:
    """How long everything must have been still, and why so long."""

    seconds: float
    why: Why


class Silences:
    """The longest silences after which something still came, by pipeline and pair. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._longest: dict[tuple[str, Pair], float] = defaultdict(float)
        self._rested: dict[str, float] = {}
        self._patient: set[tuple[str, Pair]] = set()
        self._run: set[tuple[str, Pair]] = set()
        self._tails: set[str] = set()

    def learn(self, cell: DeclaredCell, gap: float, *, rested: float, patiently: bool) -> None:
        """Take in the longest silence of a cell, and how long it has ``rested`` in the end; ``patiently``: with patience."""
        key = (name_of(cell.declared), pair_of(cell))
        with self._lock:
            self._longest[key] = max(gap, self._longest[key])
            self._rested[cell.id] = rested
            if patiently:
                self._patient.add(key)
            if not cell.brief:
                self._run.add(key)

    def learn_tail(self, cell: DeclaredCell) -> None:
        """Take in that a pipeline saves no position behind its last records, though it has had all its time."""
        with self._lock:
            self._tails.add(name_of(cell.declared))

    def leaves_tails(self, cell: DeclaredCell) -> bool:
        """Say whether it was seen to do so."""
        with self._lock:
            return name_of(cell.declared) in self._tails

    def too_short(self, cells: Iterable[DeclaredCell]) -> set[str]:
        """Return the ids of cells that rested less long than was silent, before something still came, a run that tells of them.

        Such a run is another one of their pair, or one without a fault. Nothing hangs on the rest of a brief one.
        """
        with self._lock:
            return {
                cell.id for cell in cells
                if not cell.brief and self._rested.get(cell.id, math.inf)
                < max(self._longest[name_of(cell.declared), pair] for pair in (NOBODY, pair_of(cell)))
            }  # fmt: skip

    def rest(self, cell: DeclaredCell, *, settled: bool, gap: float = 0.0, doubled: bool = False) -> Rest:
        """Return how long a cell has to rest.

        ``settled``: everything is there, and nothing on its way is known of. ``gap``: its own longest silence so far.
        ``doubled``: something is there twice already.
        """
        pipeline, pair = cell.declared, pair_of(cell)
        key = (name_of(pipeline), pair)
        with self._lock:
            known = max(gap, *(self._longest[name_of(pipeline), each] for each in (NOBODY, pair)))
            patient, first = key in self._patient, key not in self._run
        least = max(pipeline.output.quiet_s, TWICE * known)
        if settled:
            news = (first and not cell.brief) if pair == NOBODY else _may_repair(cell) and not doubled
            return Rest(max(least, pipeline.patience_s / PART) if news else least, Why.SETTLED)
        if patient and not _again(cell):
            return Rest(least, Why.LEARNT)
        return Rest(max(least, pipeline.patience_s), Why.PATIENCE)

    def still(self, cell: DeclaredCell, least: float) -> float:
        """Return for how long nothing must have moved, ``least`` or longer, for what is awaited not to come any more."""
        with self._lock:
            known = max(self._longest[name_of(cell.declared), each] for each in (NOBODY, pair_of(cell)))
        return max(least, TWICE * known)


def longest_silence(since: int, moments: Iterable[int]) -> float:
    """Return the longest time (seconds) without anything, from a time on to the last of the moments (both monotonic ns).

    >>> longest_silence(0, [2_000_000_000, 2_500_000_000])
    2.0
    """
    times = [since, *(moment for moment in moments if moment > since)]
    return max(((later - earlier) / 1e9 for earlier, later in itertools.pairwise(times)), default=0.0)


def pair_of(cell: DeclaredCell) -> Pair:
    """Return the stage and the act of a cell's fault: cells that are alike in both wait for the same things."""
    fault: Any = cell.scenario.fault
    if isinstance(fault, NoFault):
        return NOBODY
    role = place_of(fault).role
    return str(role), " ".join((fault.id, *(str(each) for each in fault.evidence().killed if each is not role)))


def place_of(fault: Any) -> Any:
    """Return what says at which stage a fault is: its trigger, or, where that follows from what a dry run shows, itself."""
    return getattr(fault, "at", fault)


def _may_repair(cell: DeclaredCell) -> bool:
    """Whether a program may yet do something about its death that the claim forbids: double what is there."""
    need = cell.scenario.fault.evidence()
    struck = {*need.killed, *need.told, *need.paused, *need.ended} - {*BROKERS}
    return bool(struck) and forbids(cell.declared.claims, Anomaly.DUPLICATED)


def _again(cell: DeclaredCell) -> bool:
    """Whether a cell is one of those that are patient though the silences of its pair are known: always the same ones."""
    return int(cell.key, 16) % OFTEN == 0


def name_of(pipeline: Pipeline) -> str:
    """Return what a pipeline is known by from one cell to the next."""
    return f"{pipeline.directory}/{pipeline.file}/{pipeline.name}"
