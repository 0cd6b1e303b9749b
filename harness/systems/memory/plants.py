"""Planted bugs: what the in-memory system does wrong on purpose, and to which records."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.model.places import Waiting
from harness.model.prediction import AtLeast, Exactly, Some
from harness.model.scenario import Role
from harness.model.states import LastHop

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.model.plan import Plan
    from harness.model.prediction import Prediction
    from harness.model.record import Record

TAIL = 3
"""How many records, at the end of the source, a cut drain or a consumer that stops reading leaves where they are."""


class PlantError(ValueError):
    """More is planted than the cell has records for; the message says how many it has."""


@dataclass(frozen=True, slots=True)
class Plant:
    """What the system does wrong. Numbers count records, and never touch the target or what is predicted.

    ``lose`` records disappear at ``lose_at``; ``duplicate`` ones are recorded twice (stored twice, or delivered twice);
    ``resurrect`` ones are visible although their transaction was aborted; ``tear`` transactions are half visible;
    ``stall`` records stay behind an open transaction; ``phantom`` rows were never offered; ``reorder`` records are
    recorded after a later one of their key. Only of a queue: ``hide`` messages wait at the end although the drain is said to
    have completed; ``set_aside`` ones end among the dead letters.
    """

    lose: int = 0
    lose_at: LastHop = LastHop.ACKED
    duplicate: int = 0
    delivered_twice: bool = False
    """Duplicates are delivered twice instead of stored twice."""
    times: int = 2
    """How often a duplicate is recorded."""
    absorbs: bool = False
    """The sink turns away what it has: a duplicate is recorded once."""
    resurrect: int = 0
    tear: int = 0
    stall: int = 0
    phantom: int = 0
    reorder: int = 0
    hide: int = 0
    hide_as: Waiting = Waiting.READY
    """What the hidden messages wait for."""
    hide_another: bool = False
    """They are second copies of what is recorded."""
    set_aside: int = 0
    miscount: int = 0
    """How many more messages the broker counts in its queue than its observer has seen there; below 0, how many fewer."""
    disarm: bool = False
    """The fault never fires."""
    wrong_victim: bool = False
    """Another process is killed than was declared."""
    no_load: bool = False
    """Nothing moves after the fault."""
    cut_drain: bool = False
    """The drain is cut short while records are on their way."""
    stop_reading: bool = False
    """The consumer stops reading for ever."""
    unhealthy: bool = False
    """A node dies before the fault."""
    network_idle: bool = False
    """The network is made bad, and nothing changes by it."""
    hide_sign: bool = False
    """Nothing shows that the protection worked."""

    def __post_init__(self) -> None:
        numbers = (
            self.lose, self.duplicate, self.resurrect, self.tear, self.stall, self.phantom, self.reorder, self.hide,
            self.set_aside,
        )  # fmt: skip
        if min(numbers) < 0 or self.times < 2:  # noqa: PLR2004 - once is no duplicate
            raise PlantError("a plant counts from 0, and a duplicate is recorded twice or more")

    @property
    def in_queue(self) -> bool:
        """Whether anything is planted that only a queue can do, beside the hops at which it loses."""
        return bool(self.hide or self.set_aside or self.miscount)


@dataclass
class Cast:
    """Which record plays which part, by id. The parts are disjoint."""

    lost: dict[str, LastHop] = field(default_factory=dict)
    stored_twice: dict[str, int] = field(default_factory=dict)
    """How often they are."""
    delivered_twice: dict[str, int] = field(default_factory=dict)
    resurrected: set[str] = field(default_factory=set)
    torn: set[str] = field(default_factory=set)
    stalled: set[str] = field(default_factory=set)
    unread: set[str] = field(default_factory=set)
    untaken: set[str] = field(default_factory=set)
    hidden: set[str] = field(default_factory=set)
    aside: set[str] = field(default_factory=set)
    swapped: list[tuple[str, str]] = field(default_factory=list)
    """Pairs of neighbours of one key that are recorded the wrong way round."""

    def taken(self) -> set[str]:
        """Every record that has a part."""
        pairs = {record for pair in self.swapped for record in pair}
        return pairs.union(
            self.lost, self.stored_twice, self.delivered_twice, self.resurrected, self.torn, self.stalled, self.unread,
            self.untaken, self.hidden, self.aside,
        )  # fmt: skip


def cast_of(plan: Plan, plant: Plant, records: Sequence[Record]) -> Cast:
    """Hand out the parts: first what theory predicts, then what is planted.

    Raises:
        PlantError: nobody can play it.
    """
    cast = Cast()
    if not plant.disarm:  # a fault that does not fire has no effect
        _cast_prediction(cast, plan, records)
    _cast_tail(cast, plan, plant, records)
    _cast_pairs(cast, plan, plant.reorder, records)
    free = [record.id for record in records if record.id not in cast.taken() | {plan.target}]
    random.Random(plan.key).shuffle(free)
    wanted = plant.lose + plant.duplicate + plant.resurrect + plant.tear + plant.hide + plant.set_aside
    if wanted > len(free):
        raise PlantError(f"{wanted} records are planted and {len(free)} are free; give the cell more records")
    drawn = iter(free)
    cast.lost |= {next(drawn): plant.lose_at for _ in range(plant.lose)}
    twice = cast.delivered_twice if plant.delivered_twice else cast.stored_twice
    twice |= {next(drawn): plant.times for _ in range(plant.duplicate)}
    for part, count in (
        (cast.resurrected, plant.resurrect), (cast.torn, plant.tear), (cast.hidden, plant.hide), (cast.aside, plant.set_aside),
    ):  # fmt: skip
        part.update(next(drawn) for _ in range(count))
    return cast


def _cast_prediction(cast: Cast, plan: Plan, records: Sequence[Record]) -> None:
    """Play what must be lost and what must be duplicated, and nothing that is only permitted."""
    consumed = bool({Role.CONSUMER, Role.PROCESSOR} & set(plan.evidence.killed + plan.evidence.paused))
    hop = LastHop.ACKED if plan.evidence.forgotten else LastHop.DELIVERED if consumed else LastHop.SENT
    cast.lost |= dict.fromkeys(_must_show(plan.lost, plan, records), hop)
    twice = cast.delivered_twice if consumed else cast.stored_twice
    twice |= dict.fromkeys(_must_show(plan.duplicated, plan, records), 2)


def _must_show(prediction: Prediction, plan: Plan, records: Sequence[Record]) -> frozenset[str]:
    match prediction:
        case Exactly(select) | AtLeast(select):
            return plan.select[select]
        case Some(count):
            return frozenset(record.id for record in records[:count])
        case _:
            return frozenset()


def _cast_tail(cast: Cast, plan: Plan, plant: Plant, records: Sequence[Record]) -> None:
    """Parts that only the last records of a source can play: nothing is visible behind an open transaction."""
    after = [record.id for record in records if record.id not in cast.taken()]
    after = after[after.index(plan.target) + 1 :] if plan.target in after else [r.id for r in records[-TAIL:]]
    wanted = max(plant.stall, TAIL * (plant.cut_drain or plant.stop_reading))
    if wanted > len(after):
        raise PlantError(f"{wanted} records are planted behind the target and {len(after)} are there")
    if plant.stall:
        cast.stalled.update(after[-plant.stall :])
    elif plant.cut_drain:
        cast.unread.update(after[-TAIL:-1])
        cast.untaken.add(after[-1])
    elif plant.stop_reading:
        cast.unread.update(after[-TAIL:])


def _cast_pairs(cast: Cast, plan: Plan, count: int, records: Sequence[Record]) -> None:
    """Find neighbours of one key; swapping two of them puts exactly one record out of its order."""
    busy = cast.taken() | {plan.target}
    waiting: dict[str, str] = {}
    for record in records:
        if len(cast.swapped) == count:
            return
        before = waiting.pop(record.key, None)
        if record.id in busy:
            continue
        if before is None:
            waiting[record.key] = record.id
        else:
            cast.swapped.append((before, record.id))
    if len(cast.swapped) < count:
        raise PlantError(f"{count} records are planted out of order and {len(cast.swapped)} can be")
