"""The classes of points that should behave alike, and which points are run: first and last of each
class, and a sample.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from harness.sweep.acts import KILL, base_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from harness.sweep.points import Point

K = TypeVar("K")
SAMPLED = 0.05
"""The share of the other points that is run as well, to test whether the points of a class do
behave alike.
"""
KILLS = 3
"""How many kills come for one point of every other act."""


@dataclass(frozen=True, slots=True)
class ProtocolState:
    """The state of a stage and the frame that passes then: where a fault can strike."""

    role: str
    api: str
    direction: str
    phase: str

    def __str__(self) -> str:
        """Return the state as a report shows it."""
        return f"{self.role} {self.api} {self.direction} · {self.phase}"

    @staticmethod
    def name_in(text: str) -> str:
        """Return the name of the state in the name of a class.

        >>> ProtocolState.name_in("producer Produce request · kill · calm")
        'producer Produce request · calm'
        """
        step, _, rest = text.partition(" · ")
        return f"{step} · {rest.rpartition(' · ')[2]}"


@dataclass(frozen=True, slots=True)
class Class:
    """The properties of points that should behave alike. Partitions and single consumers are left
    out, because they are symmetric.
    """

    role: str
    api: str
    direction: str
    act: str
    phase: str

    def __str__(self) -> str:
        """Return the class as a report shows it."""
        return f"{self.role} {self.api} {self.direction} · {self.act} · {self.phase}"

    @property
    def state(self) -> ProtocolState:
        """The state in which its points strike, whatever the act."""
        return ProtocolState(self.role, self.api, self.direction, self.phase)


class RunReason(StrEnum):
    """Why a point is run."""

    FIRST = "first"
    LAST = "last"
    SAMPLE = "sample"
    SPLIT = "split"
    """It is between two points of its class with different outcomes."""


Chosen: TypeAlias = "tuple[Point, RunReason]"


def class_of(point: Point, phase: str) -> Class:
    """Return the class of a point whose step is in ``phase``."""
    if point.second is None:
        step, act = point.step, point.act
    else:
        one = point.step
        step = point.second[0]
        act = f"{one.role} {point.act} at {one.api} {one.direction}, then {point.second[1].act}"
    return Class(step.role, step.api, str(step.direction), act, phase)


def grouped(points: Iterable[Point], phases: Mapping[int, str]) -> dict[Class, tuple[Point, ...]]:
    """Return the points of each class, in the order of the run. ``phases``: the phase of each step,
    by the step's place.
    """
    found: dict[Class, list[Point]] = {}
    for point in points:
        found.setdefault(class_of(point, phases[point.place]), []).append(point)
    return {
        each: tuple(sorted(inside, key=lambda point: point.place)) for each, inside in found.items()
    }


@dataclass(frozen=True, slots=True)
class Earlier:
    """What earlier sweeps of the same pipeline have run, by the names of classes and states."""

    classes: frozenset[str] = frozenset()
    states: frozenset[str] = frozenset()
    broken: frozenset[str] = frozenset()
    """The states in which a fault broke the promise, or the pipeline was stuck."""

    def rank(self, each: Class) -> int:
        """Return the sort key of a class by how much it can still teach: first a state that no
        fault has struck, then a state of an earlier finding, then another class that was never run,
        then the rest.
        """
        state = str(each.state)
        if state not in self.states:
            return 0
        return 1 if state in self.broken else 2 if str(each) not in self.classes else 3


def chosen(
    classes: Mapping[Class, Sequence[Point]], seed: int, earlier: Earlier | None = None
) -> tuple[Chosen, ...]:
    """Return the points to run at first, and why: the first of every class, then the last of every
    class, then a sample.

    So an interrupted sweep has soon tried every class. Within each of the three parts, the classes
    come first that can teach most after what ``earlier`` sweeps have run (:meth:`Earlier.rank`); of
    those in the order of :func:`turns`. Points of a recovery stay in the order that they have.
    """
    before = earlier or Earlier()
    turn = {
        point.id: (before.rank(each), turn)
        for each, turn in turns(classes).items()
        for point in classes[each]
        if point.second is None
    }
    dice = random.Random(f"sweep {seed}")
    first = [(points[0], RunReason.FIRST) for points in classes.values()]
    last = [(points[-1], RunReason.LAST) for points in classes.values() if len(points) > 1]
    rest = [point for points in classes.values() for point in points[1:-1]]
    drawn = sorted(dice.sample(range(len(rest)), k=-(-len(rest) * int(100 * SAMPLED) // 100)))
    sample = [(rest[at], RunReason.SAMPLE) for at in drawn]

    def order(one: Chosen) -> tuple[int, int]:
        return turn.get(one[0].id, (0, 0))

    return tuple(one for some in (first, last, sample) for one in sorted(some, key=order))


def turns(classes: Iterable[Class]) -> dict[Class, int]:
    """Return the place of each class in the order in which they are run.

    One class of each kind comes before the second one of any kind: those of one kind differ only by
    their phase, or by the error of a refusal. Of equals, one comes first whose state nothing
    before it has struck; then three kills come for one of every other act, each from all programs
    in turn. So all states, acts and programs have soon been tried.
    """
    kinds: Counter[tuple[str, str, str, str]] = Counter()
    struck: Counter[ProtocolState] = Counter()
    acts: Counter[str] = Counter()
    programs: Counter[tuple[str, str]] = Counter()

    def first(each: Class) -> tuple[int, bool, float, int]:
        act = base_of(each.act)
        return (
            kinds[each.role, each.api, each.direction, act],
            struck[each.state] > 0,
            acts[act] / (KILLS if act == KILL else 1),
            programs[act, each.role],
        )

    left = list(classes)
    order: dict[Class, int] = {}
    while left:
        each = min(left, key=first)
        left.remove(each)
        order[each] = len(order)
        act = base_of(each.act)
        kinds[each.role, each.api, each.direction, act] += 1
        struck[each.state] += 1
        acts[act] += 1
        programs[act, each.role] += 1
    return order


def splits(points: Sequence[Point], outcome: Mapping[str, K]) -> Iterator[Point]:
    """Yield the points of a class to run next: between two neighbours with different outcomes, the
    middle one.

    ``outcome``: the outcomes of the points that were run, by the point's id. If all neighbours
    agree, nothing is yielded.
    """
    at = [place for place, point in enumerate(points) if point.id in outcome]
    for before, after in itertools.pairwise(at):
        if after - before > 1 and outcome[points[before].id] != outcome[points[after].id]:
            yield points[(before + after) // 2]


def deviations(
    classes: Mapping[Class, Sequence[Point]], outcome: Mapping[str, K]
) -> dict[Class, tuple[Point, ...]]:
    """Return, by class, the points whose outcome differs from that of the first point of their
    class that was run.
    """
    found = {}
    for each, points in classes.items():
        ran = [point for point in points if point.id in outcome]
        if other := tuple(point for point in ran if outcome[point.id] != outcome[ran[0].id]):
            found[each] = other
    return found
