"""Positions that a commit which arrived late has taken back, and that nobody will save again.

A group's position is whatever was committed last: no broker asks whether that was committed before. A commit that its program has
made again meanwhile, and gone on from, takes the position back when it arrives. Where no record follows, it stays there. Nothing
is on its way then: the program was told that its position is saved, and lives. The next start reads those records again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.model.scenario import Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from harness.model.history import Event

MOVES = frozenset({"started", "exited"})
"""What becomes of a reader before records are read from where the position is."""
READERS = frozenset({Role.CONSUMER, Role.PROCESSOR})


def rewound(
    behind: Mapping[int, int], saved: Mapping[int, int], asked: Sequence[Event], answers: Sequence[Event], nodes: Iterable[Event]
) -> bool:
    """Say whether every partition whose position is behind was taken back there by a commit that arrived late.

    ``behind``: the offset of the last record, ``saved``: the position, both by partition; ``asked`` and ``answers``: what the
    wire saw committed by the group, in the order in which the broker was given it, and answered; ``nodes``: what became of
    processes. Where a reader has started or ended since one was told of the later position, records are read again from the one
    that there is, and their position will be saved.
    """
    moved = max((event["t"] for event in nodes if event["phase"] in MOVES and event["role"] in READERS), default=0)
    taken = {(answer["request"], answer["partition"]): answer for answer in answers if not answer["error"]}
    for partition, offset in behind.items():
        mine = [e for e in asked if e["partition"] == partition and (e["request"], partition) in taken]
        past = (taken[e["request"], partition] for e in mine if e["offset"] > offset)
        told = [answer["t"] for answer in past if answer["reached"] is not False]
        if not told or moved > told[0] or mine[-1]["offset"] != saved.get(partition):
            return False
    return True
