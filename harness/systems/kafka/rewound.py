"""Recognise a position that a late commit moved backwards and that no later commit will correct.

A broker keeps whatever position was committed last, even if it is lower than before. A commit
request that was held, and that the program repeated meanwhile, moves the position backwards when it
arrives. If no record follows, the position stays there. Nothing is on its way then: the living
program was told that the later position is saved. The next start reads those records again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.model.events import NodePhase
from harness.model.scenario import Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from harness.model import events as kinds

MOVES = frozenset({NodePhase.STARTED, NodePhase.EXITED})
"""The events of a reader after which records are read again from the saved position."""
READERS = frozenset({Role.CONSUMER, Role.PROCESSOR})


def rewound(
    behind: Mapping[int, int],
    saved: Mapping[int, int],
    asked: Sequence[kinds.Committed],
    answers: Iterable[kinds.CommitAnswer],
    nodes: Iterable[kinds.Node],
) -> bool:
    """Say whether a late commit moved the position of every partition in ``behind`` backwards.

    ``behind``: the offset of the last record, ``saved``: the position, both by partition. ``asked``
    and ``answers``: the group's commits, in the order in which the broker got them, and their
    answers, as the wire saw them. ``nodes``: the events of processes. If a reader started or ended
    after it was told of the later position, this is false: records are then read again from the
    saved position, and a new position will be saved.
    """
    moved = max(
        (event.t for event in nodes if event.phase in MOVES and event.role in READERS),
        default=0,
    )
    taken = {(answer.request, answer.partition): answer for answer in answers if not answer.error}
    for partition, offset in behind.items():
        mine = [e for e in asked if e.partition == partition and (e.request, partition) in taken]
        past = (taken[e.request, partition] for e in mine if e.offset > offset)
        told = [answer.t for answer in past if answer.reached is not False]
        if not told or moved > told[0] or mine[-1].offset != saved.get(partition):
            return False
    return True
