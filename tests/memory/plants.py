"""Planted bugs: what the in-memory system does wrong on purpose, and with which records."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from enum import StrEnum
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


class Lie(StrEnum):
    """What a queue's authority says that is not so, of one record that is recorded."""

    TWICE = "a second copy, which was acknowledged"
    NEITHER = "a copy that waits for nothing and was not removed"
    UNSTORED = "the removal of a copy that no queue has had"


TAIL = 3
"""How many records at the end of the source a cut drain, or a consumer that stops reading, leaves
unread.
"""


class PlantError(ValueError):
    """A plant does not fit the cell, for example because the cell has too few records."""


@dataclass(frozen=True, slots=True)
class Plant:
    """What the system does wrong. The numbers count records; the target and predicted records are
    never among them.

    ``lose`` records disappear at ``lose_at``; ``duplicate`` records are recorded twice (stored
    twice, or delivered twice); ``resurrect`` records are visible although their transaction was
    aborted; ``tear`` transactions are half visible; ``stall`` records stay behind an open
    transaction; ``phantom`` rows were never offered; ``reorder`` records are recorded after a later
    one of their key. Only for a queue: ``hide`` messages wait at the end although the drain is
    reported as completed; ``set_aside`` messages end among the dead letters.
    """

    lose: int = 0
    lose_at: LastHop = LastHop.ACKED
    duplicate: int = 0
    delivered_twice: bool = False
    """Whether duplicates are delivered twice instead of stored twice."""
    times: int = 2
    """How many times a duplicate is recorded."""
    absorbs: bool = False
    """Whether the sink absorbs duplicates, so that they are recorded once."""
    resurrect: int = 0
    tear: int = 0
    stall: int = 0
    phantom: int = 0
    reorder: int = 0
    hide: int = 0
    hide_as: Waiting = Waiting.READY
    """The state of the hidden messages."""
    hide_another: bool = False
    """Whether the hidden messages are second copies of recorded ones."""
    set_aside: int = 0
    miscount: int = 0
    """How many more messages the broker counts than the observer has seen; negative: how many
    fewer.
    """
    lie: Lie | None = None
    """What the queue's authority says that is not so."""
    disarm: bool = False
    """The fault never fires."""
    wrong_victim: bool = False
    """Another process than the declared one is killed."""
    no_load: bool = False
    """Nothing moves after the fault."""
    cut_drain: bool = False
    """The drain ends while records are on their way."""
    stop_reading: bool = False
    """The consumer stops reading for ever."""
    unhealthy: bool = False
    """A node dies before the fault."""
    network_idle: bool = False
    """The bad network has no effect."""
    hide_sign: bool = False
    """Nothing shows that the protection worked."""

    def __post_init__(self) -> None:
        numbers = (
            self.lose,
            self.duplicate,
            self.resurrect,
            self.tear,
            self.stall,
            self.phantom,
            self.reorder,
            self.hide,
            self.set_aside,
        )
        if min(numbers) < 0 or self.times < 2:
            raise PlantError("a plant counts from 0, and a duplicate is recorded at least twice")

    @property
    def in_queue(self) -> bool:
        """Whether something is planted that only a queue can do, apart from ``lose_at``."""
        return bool(self.hide or self.set_aside or self.miscount or self.lie)


@dataclass
class Cast:
    """Which record has which part in a simulated run, by id. Each record has at most one part."""

    lost: dict[str, LastHop] = field(default_factory=dict)
    stored_twice: dict[str, int] = field(default_factory=dict)
    """Record → how many times it is stored."""
    delivered_twice: dict[str, int] = field(default_factory=dict)
    resurrected: set[str] = field(default_factory=set)
    torn: set[str] = field(default_factory=set)
    stalled: set[str] = field(default_factory=set)
    unread: set[str] = field(default_factory=set)
    untaken: set[str] = field(default_factory=set)
    hidden: set[str] = field(default_factory=set)
    aside: set[str] = field(default_factory=set)
    swapped: list[tuple[str, str]] = field(default_factory=list)
    """Pairs of neighbours with the same key that are recorded in the wrong order."""

    def taken(self) -> set[str]:
        """Return every record that has a part."""
        pairs = {record for pair in self.swapped for record in pair}
        return pairs.union(
            self.lost,
            self.stored_twice,
            self.delivered_twice,
            self.resurrected,
            self.torn,
            self.stalled,
            self.unread,
            self.untaken,
            self.hidden,
            self.aside,
        )


def cast_of(plan: Plan, plant: Plant, records: Sequence[Record]) -> Cast:
    """Choose the records for each part: first for what theory predicts, then for what is planted.

    Raises:
        PlantError: the cell has too few records.
    """
    cast = Cast()
    if not plant.disarm:  # a fault that never fires has no effect
        _cast_prediction(cast, plan, records)
    _cast_tail(cast, plan, plant, records)
    _cast_pairs(cast, plan, plant.reorder, records)
    free = [record.id for record in records if record.id not in cast.taken() | {plan.target}]
    random.Random(plan.key).shuffle(free)
    wanted = (
        plant.lose + plant.duplicate + plant.resurrect + plant.tear + plant.hide + plant.set_aside
    )
    if wanted > len(free):
        raise PlantError(
            f"{wanted} records are planted and {len(free)} are free; give the cell more records"
        )
    drawn = iter(free)
    cast.lost |= {next(drawn): plant.lose_at for _ in range(plant.lose)}
    twice = cast.delivered_twice if plant.delivered_twice else cast.stored_twice
    twice |= {next(drawn): plant.times for _ in range(plant.duplicate)}
    for part, count in (
        (cast.resurrected, plant.resurrect),
        (cast.torn, plant.tear),
        (cast.hidden, plant.hide),
        (cast.aside, plant.set_aside),
    ):
        part.update(next(drawn) for _ in range(count))
    return cast


def _cast_prediction(cast: Cast, plan: Plan, records: Sequence[Record]) -> None:
    """Choose the records that must be lost or duplicated; nothing for what is only permitted."""
    consumed = bool(
        {Role.CONSUMER, Role.PROCESSOR} & set(plan.evidence.killed + plan.evidence.paused)
    )
    hop = (
        LastHop.ACKED
        if plan.evidence.forgotten
        else LastHop.DELIVERED
        if consumed
        else LastHop.SENT
    )
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
    """Choose the parts of the last records: nothing is visible after an open transaction, so only
    they can have them.
    """
    after = [record.id for record in records if record.id not in cast.taken()]
    after = (
        after[after.index(plan.target) + 1 :]
        if plan.target in after
        else [r.id for r in records[-TAIL:]]
    )
    wanted = max(plant.stall, TAIL * (plant.cut_drain or plant.stop_reading))
    if wanted > len(after):
        raise PlantError(
            f"{wanted} records are planted after the target and {len(after)} are there; give the "
            "cell more records"
        )
    if plant.stall:
        cast.stalled.update(after[-plant.stall :])
    elif plant.cut_drain:
        cast.unread.update(after[-TAIL:-1])
        cast.untaken.add(after[-1])
    elif plant.stop_reading:
        cast.unread.update(after[-TAIL:])


def _cast_pairs(cast: Cast, plan: Plan, count: int, records: Sequence[Record]) -> None:
    """Choose neighbours with the same key: swapping two of them puts exactly one record out of
    order.
    """
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
        raise PlantError(
            f"{count} records are planted out of order and {len(cast.swapped)} can be; give the "
            "cell more records"
        )
