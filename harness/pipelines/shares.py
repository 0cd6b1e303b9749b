"""Draw the target of a cell from the records that its stage handles: a router's reader, or a reader
of dead letters, gets only some.

The dry run shows which. A record is known by its position in the source there: other cells give
other ids. So a cell whose target is drawn so offers the records of the dry run, with the same keys.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from harness.controls import OnWire, role_of, trigger_of
from harness.faults import ChangesGroup, NoFault
from harness.model.cell import middle_of, middles_of
from harness.pipelines.dialects import Moment

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from harness.model.cell import Load
    from harness.model.record import Record
    from harness.model.scenario import Fault
    from harness.pipelines.dialects import Dialect

SENDING = frozenset(
    {Moment.SEND, Moment.SEND_ANSWER, Moment.PRODUCER_ID, Moment.COMMIT, Moment.COMMIT_ANSWER}
)
"""Moments at which a sending stage has its results in hand."""
SOON = 2
"""How many records later another one with the same key comes soon."""


@dataclass(frozen=True, slots=True)
class Share:
    """The records that one stage was given in the dry run, and those that it sent, by their
    positions in the source (from 1). ``offered``: how many there were.
    """

    given: frozenset[int] = frozenset()
    sent: frozenset[int] = frozenset()
    offered: int = 0
    of_log: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """Those given, by their partition (``topic/partition``)."""
    taken: frozenset[int] | None = None
    """Those of partitions that another member takes when it joins; ``None``: any, or unknown."""

    def some(self, *, sent: bool) -> frozenset[int] | None:
        """Return the records that the stage was given, or has ``sent``; ``None`` if it was all of
        them, or if none was seen.
        """
        found = self.sent if sent else self.given
        return found if 0 < len(found) < self.offered else None

    def with_taken(self, logs: Collection[str]) -> Share:
        """Return it with what another member takes when it joins; no ``logs``: that is unknown."""
        taken = frozenset[int]().union(*(self.of_log.get(each, ()) for each in logs))
        return replace(self, taken=taken or None)


def share_of(fault: Fault, dialect: Dialect, shares: Mapping[str, Share]) -> frozenset[int] | None:
    """Return the positions from which the target of a fault must be drawn; ``None``: any."""
    if isinstance(fault, NoFault):
        return None
    at, share = trigger_of(fault), shares.get(str(role_of(fault)), Share())
    if share.taken is not None and isinstance(fault, ChangesGroup) and fault.joins:
        return share.taken
    sends = {dialect.steps[each][0] for each in SENDING if each in dialect.steps}
    sends |= {step for each in SENDING for step in dialect.others.get(each, ())}
    return share.some(sent=isinstance(at, OnWire) and at.api in sends)


def middle_third(among: Collection[int], count: int) -> list[int]:
    """Return those of the positions that are in the middle third of so many records.

    >>> middle_third({12, 24, 36, 48}, 48)
    [24]
    """
    third, end = middle_of(count)
    return sorted(position for position in among if third < position <= end)


def half_of(among: Collection[int], count: int, *, first: bool) -> frozenset[int]:
    """Return those of the positions that are in the first, or second, half of so many records.

    >>> sorted(half_of({12, 24, 36, 48}, 48, first=True))
    [12, 24]
    """
    return frozenset(each for each in among if (each <= count // 2) is first)


def followed(records: Sequence[Record], among: frozenset[int] | None) -> frozenset[int] | None:
    """Return those of the positions (``None``: any) in the middle third that are soon followed by
    another record with the same key there: a client sends it while this one has no answer, if it
    has few requests under way.
    """
    third, end = middle_of(len(records))
    behind: dict[int, int] = {}
    coming: dict[str, int] = {}
    for record in reversed(records[third:end]):
        if record.key in coming and (among is None or record.position in among):
            behind[record.position] = coming[record.key] - record.position
        coming[record.key] = record.position
    soon = max(SOON, min(behind.values(), default=SOON))
    return frozenset(at for at, distance in behind.items() if distance <= soon) or among


def outlived(records: Sequence[Record], among: frozenset[int] | None) -> frozenset[int]:
    """Return those of the positions (``None``: any) in the middle third that have two later records
    of their key, one of them behind it; if possible the other in it.
    """
    third, end = middle_of(len(records))
    last = {record.key: record.position for record in records}
    late = Counter(record.key for record in records[end:])
    found, better = set(), set()
    seen: Counter[str] = Counter()
    for record in reversed(records[third:end]):
        if last[record.key] > end and (among is None or record.position in among):
            if seen[record.key]:
                better.add(record.position)
            elif late[record.key] > 1:
                found.add(record.position)
        seen[record.key] += 1
    return frozenset(better or found)


def with_targets(count: int, targets: int, among: Collection[int] | None) -> list[list[int]]:
    """Return for each of several targets the positions (of ``among``; ``None``: of all) from which
    it is drawn.

    >>> with_targets(20, 2, {5, 6, 13})
    [[5, 6], [13]]
    """
    return [
        [at for at in range(begin + 1, end + 1) if among is None or at in among]
        for begin, end in middles_of(count, targets)
    ]


def in_turn(load: Load, targets: int, among: Collection[int] | None, salt: str) -> Load:
    """Return the load with several targets, drawn by the salt. If possible, another record of its
    wave comes behind each, and has its key.
    """
    dice = random.Random(hashlib.sha256(salt.encode()).digest())
    keys = {record.position: record.key for record in load.records}
    found = []
    for positions in with_targets(len(load.records), targets, among):
        near = [at for at in positions if keys[at] in {keys[i] for i in positions if i > at}]
        found.append(load.records[dice.choice(near or positions[:-1] or positions) - 1])
    return replace(load, target=found[0], targets=tuple(found))


def aimed(load: Load, among: Collection[int], salt: str) -> Load:
    """Return the load with a target that is one of these positions in its middle third, drawn by
    the salt. If possible, a later record has the target's key.
    """
    positions = middle_third(among, len(load.records))
    last = {record.key: record.position for record in load.records}
    better = [at for at in positions if last[load.records[at - 1].key] > at]
    dice = random.Random(hashlib.sha256(salt.encode()).digest())
    return replace(load, target=load.records[dice.choice(better or positions) - 1])
