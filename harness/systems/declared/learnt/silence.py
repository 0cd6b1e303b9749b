"""Learn from cell to cell how long a pipeline must be silent before a run counts as over.

A program may go on after a silence: it waits before it sends again, or writes its results every few
seconds. The length of such silences is not known beforehand. So the first cell of each kind waits
for the declaration's ``patience_s``, and later cells wait twice as long as the longest silence
after which something still came.
"""

from __future__ import annotations

import itertools
import math
import threading
from collections import defaultdict
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from harness.controls import role_of
from harness.faults import NoFault
from harness.model.scenario import BROKERS
from harness.model.semantics import Anomaly, forbids

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.model.scenario import Role, Scenario
    from harness.pipelines.cells import DeclaredCell
    from harness.pipelines.declaration import Pipeline

Pair: TypeAlias = tuple[str, str]
"""A stage, and what the fault does to it."""
NOBODY: Pair = ("", "none")
"""The pair of a run without a fault: the silences in it count for all other pairs, too."""
TWICE = 2
PART = 3
"""Some cells rest for a third of the patience (1/PART) although every record is in the output,
because a late change would matter: the first run without a fault, from which the others learn; and
a run in which a program died, duplicates are forbidden, and none has been seen. No run without a
fault shows what a program does, perhaps by a timer, after its death.
"""
OFTEN = 10
"""One in OFTEN cells waits for the full patience although the silences of its pair are known."""


class QuietReason(StrEnum):
    """The reason for the length of a rest, the best known first."""

    ENDED = "ended"
    """All programs have ended."""
    SETTLED = "settled"
    """All records are in the output, and nothing is known to be on its way."""
    LEARNT = "learnt"
    """Other cells have shown how long such a silence may last."""
    PATIENCE = "patience"
    """No other cell has shown how long such a silence may last."""


@dataclass(frozen=True, slots=True)
class QuietPeriod:
    """How long everything must be silent, and the reason for that length."""

    seconds: float
    why: QuietReason


class Silences:
    """Remembers the longest silences after which something still came, by pipeline and pair. Safe
    to use from several threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._longest: dict[tuple[str, Pair], float] = defaultdict(float)
        self._steps: dict[tuple[str, bool], float] = defaultdict(float)
        """By pipeline, and whether its programs were traced: the longest silence while records
        came, without a fault.
        """
        self._rested: dict[str, float] = {}
        self._patient: set[tuple[str, Pair]] = set()
        self._run: set[tuple[str, Pair]] = set()
        self._tails: set[str] = set()

    def learn(
        self, cell: DeclaredCell, gap: float, *, rested: float, patiently: bool, step: float = 0.0
    ) -> None:
        """Learn from a cell. All times are in seconds.

        ``gap``: its longest silence at rest; ``rested``: how long it rested at the end;
        ``patiently``: whether that was the full patience; ``step``: without a fault, its longest
        silence while records came.
        """
        key = (name_of(cell.declared), pair_of(cell))
        with self._lock:
            self._longest[key] = max(gap, self._longest[key])
            if step:
                fault = cell.scenario.fault
                slowed = key[0], isinstance(fault, NoFault) and fault.watched
                self._steps[slowed] = max(step, self._steps[slowed])
            self._rested[cell.id] = rested
            if patiently:
                self._patient.add(key)
            if not cell.brief:
                self._run.add(key)

    def learn_tail(self, cell: DeclaredCell) -> None:
        """Learn that a pipeline saves no position past its last records, however long the drain
        waits.
        """
        with self._lock:
            self._tails.add(name_of(cell.declared))

    def leaves_tails(self, cell: DeclaredCell) -> bool:
        """Say whether an earlier cell of this pipeline left its last records without a saved
        position.
        """
        with self._lock:
            return name_of(cell.declared) in self._tails

    def too_short(self, cells: Iterable[DeclaredCell]) -> set[str]:
        """Return the ids of cells that rested for less time than a comparable run was silent before
        something still came.

        A run is comparable if it is of the same pair, or without a fault. Brief cells do not count.
        """
        with self._lock:
            return {
                cell.id
                for cell in cells
                if not cell.brief
                and self._rested.get(cell.id, math.inf)
                < self._known(name_of(cell.declared), pair_of(cell))
            }

    def rest(
        self,
        cell: DeclaredCell,
        *,
        settled: bool,
        gap: float = 0.0,
        doubled: bool = False,
        away: bool = False,
    ) -> QuietPeriod:
        """Return how long a cell has to rest.

        ``settled``: all records are in the output, and nothing is known to be on its way. ``gap``:
        the cell's own longest silence so far (seconds). ``doubled``: some record is in the output
        twice already. ``away``: something may still come on which the verdict depends, and who was
        struck has not moved since the fault was healed. How long that takes is not known from
        others of the pair, which may have come back in another way.
        """
        pipeline, pair = cell.declared, pair_of(cell)
        key = (name_of(pipeline), pair)
        with self._lock:
            known = max(gap, self._known(*key))
            patient, first = key in self._patient, key not in self._run
        least = max(pipeline.output.quiet_s, TWICE * known)
        if settled:
            news = (
                (first and not cell.brief)
                if pair == NOBODY
                else _may_repair(pipeline, cell.scenario) and not doubled
            )
            return QuietPeriod(
                max(least, pipeline.patience_s / PART) if news else least, QuietReason.SETTLED
            )
        if patient and not away and not _again(cell):
            return QuietPeriod(least, QuietReason.LEARNT)
        return QuietPeriod(max(least, pipeline.patience_s), QuietReason.PATIENCE)

    def still(self, cell: DeclaredCell, least: float) -> float:
        """Return how long (seconds, at least ``least``) nothing must move before an awaited event
        counts as not coming.
        """
        with self._lock:
            known = self._known(name_of(cell.declared), pair_of(cell))
        return max(least, TWICE * known)

    def _known(self, name: str, pair: Pair) -> float:
        """Return the longest silence of comparable runs. A tracer makes the first steps of a
        program slow: what it shows counts only if no run without one has shown anything.
        """
        step = self._steps[name, False] or self._steps[name, True]
        return max(step, self._longest[name, NOBODY], self._longest[name, pair])


def longest_silence(since: int, moments: Iterable[int]) -> float:
    """Return the longest time (seconds) between two moments, from ``since`` to the last moment (all
    monotonic ns).

    >>> longest_silence(0, [2_000_000_000, 2_500_000_000])
    2.0
    """
    times = [since, *(moment for moment in moments if moment > since)]
    return max(
        ((later - earlier) / 1e9 for earlier, later in itertools.pairwise(times)), default=0.0
    )


def pair_of(cell: DeclaredCell) -> Pair:
    """Return the stage and the act of a cell's fault. Cells with the same pair wait for the same
    things.
    """
    fault = cell.scenario.fault
    if isinstance(fault, NoFault):
        return NOBODY
    role = role_of(fault)
    return str(role), " ".join(
        (fault.id, *(str(each) for each in fault.evidence().killed if each is not role))
    )


def struck_by(cell: DeclaredCell) -> frozenset[Role]:
    """Return the stages that a cell's fault strikes: all of them where it strikes none, or also
    something that is no stage, as a broker.
    """
    stages = frozenset(stage.known for stage in cell.declared.stages)
    if isinstance(cell.scenario.fault, NoFault):
        return stages
    struck = _struck(cell.scenario) | {role_of(cell.scenario.fault)}
    return struck if struck.issubset(stages) else stages


def rests_s(pipeline: Pipeline, point: Scenario) -> float:
    """Return how much longer (seconds) a cell rests than ``quiet_s`` although all is settled."""
    if not isinstance(point.fault, NoFault) and not _may_repair(pipeline, point):
        return 0.0
    return max(0.0, pipeline.patience_s / PART - pipeline.output.quiet_s)


def _may_repair(pipeline: Pipeline, point: Scenario) -> bool:
    """Whether a struck program may still duplicate a record although the claim forbids
    duplicates.
    """
    return bool(_struck(point) - BROKERS) and forbids(pipeline.claims, Anomaly.DUPLICATED)


def _struck(point: Scenario) -> frozenset[Role]:
    """Return whose processes a fault ends or stops."""
    need = point.fault.evidence()
    return frozenset((*need.killed, *need.may_kill, *need.told, *need.paused, *need.ended))


def _again(cell: DeclaredCell) -> bool:
    """Whether a cell waits for the full patience although its pair's silences are known; the same
    cells in each run.
    """
    return int(cell.key, 16) % OFTEN == 0


def name_of(pipeline: Pipeline) -> str:
    """Return the key of a pipeline, the same in all its cells."""
    return f"{pipeline.directory}/{pipeline.file}/{pipeline.name}"
