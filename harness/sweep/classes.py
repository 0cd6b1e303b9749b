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

from harness.sweep.points import ACTS, KILL, base_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from harness.sweep.points import Point

K = TypeVar("K")
SAMPLED = 0.05
"""The share of the other points that is run as well, to test whether the points of a class do
behave alike.
"""
KILLS, OTHERS = 6, 2
"""How many kills, and how many points of every other act, come in one turn."""


@dataclass(frozen=True, slots=True)
class Class:
    """What points have in common that should behave alike. Partitions and single consumers are left
    out: they are symmetric.
    """

    role: str
    api: str
    direction: str
    act: str
    phase: str

    def __str__(self) -> str:
        """Return the class as a report shows it."""
        return f"{self.role} {self.api} {self.direction} · {self.act} · {self.phase}"


class Why(StrEnum):
    """Why a point is run."""

    FIRST = "first"
    LAST = "last"
    SAMPLE = "sample"
    SPLIT = "split"
    """It is between two points of its class with different outcomes."""


Chosen: TypeAlias = "tuple[Point, Why]"


def class_of(point: Point, phase: str) -> Class:
    """Return the class of a point whose step is in ``phase``."""
    if point.second is None:
        step, act = point.step, point.act
    else:
        one = point.step
        step, act = (
            point.second[0],
            f"{one.role} {point.act} at {one.api} {one.direction}, then {point.second[1].act}",
        )
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


def chosen(
    classes: Mapping[Class, Sequence[Point]], seed: int, known: Collection[str] = ()
) -> tuple[Chosen, ...]:
    """Return the points to run at first, and why: the first of every class, then the last of every
    class, then a sample.

    So an interrupted sweep has soon tried every class. Within each of the three parts, classes that
    are not ``known`` from earlier sweeps come first; of those in the order of :func:`turns`. Points
    of a recovery stay in the order that they have.
    """
    old = {point.id for each, points in classes.items() if str(each) in known for point in points}
    turn = {
        point.id: turn
        for each, turn in turns(classes).items()
        for point in classes[each]
        if point.second is None
    }
    dice = random.Random(f"sweep {seed}")
    first = [(points[0], Why.FIRST) for points in classes.values()]
    last = [(points[-1], Why.LAST) for points in classes.values() if len(points) > 1]
    rest = [point for points in classes.values() for point in points[1:-1]]
    drawn = sorted(dice.sample(range(len(rest)), k=-(-len(rest) * int(100 * SAMPLED) // 100)))
    sample = [(rest[at], Why.SAMPLE) for at in drawn]

    def order(one: Chosen) -> tuple[bool, tuple[int, int, int]]:
        return one[0].id in old, turn.get(one[0].id, (0, 0, 0))

    return tuple(one for some in (first, last, sample) for one in sorted(some, key=order))


def turns(classes: Iterable[Class]) -> dict[Class, tuple[int, int, int]]:
    """Return for each class when it comes: the lowest first.

    The first class of each kind comes before the second one of any kind: those of one kind differ
    only by their phase, or by the error of a refusal. Of equals, six kills and two of every other
    act come in turn, each from all roles in turn. So all acts and all programs have soon been
    tried.
    """
    kinds: Counter[tuple[str, str, str, str]] = Counter()
    alike: dict[tuple[int, str], dict[str, list[Class]]] = {}
    for each in classes:
        act = base_of(each.act)
        kind = each.role, each.api, each.direction, act
        alike.setdefault((kinds[kind], act), {}).setdefault(each.role, []).append(each)
        kinds[kind] += 1
    found = {}
    for (number, act), by_role in alike.items():
        mixed = (
            each
            for some in itertools.zip_longest(*by_role.values())
            for each in some
            if each is not None
        )
        for place, each in enumerate(mixed):
            found[each] = (
                number,
                place // (KILLS if act == KILL else OTHERS),
                ACTS.index(act) if act in ACTS else len(ACTS),
            )
    return found


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
