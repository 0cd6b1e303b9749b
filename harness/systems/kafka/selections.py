"""Sets of records that only a history of Kafka tells: those that only a leader had, and those in
added partitions.

What followers have depends on what they fetched, so these sets are read from the wire's lines of
traffic between brokers. The other selections of a plan are known before the run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.model import events as kinds
from harness.model.events import NodePhase
from harness.model.prediction import Select
from harness.model.scenario import Role
from harness.proofs.growth import added

if TYPE_CHECKING:
    from harness.model.history import History

NOT_LEADER = 6
"""The error of a broker that does not lead the partition (NOT_LEADER_OR_FOLLOWER)."""


def growth_selections(history: History, _target: str) -> dict[Select, frozenset[str]]:
    """Return the records in added partitions; nothing if no partition was added."""
    when = added(history)
    there = (
        e.record for e in history.of(kinds.Stored) if (e.topic, e.partition) in when and e.visible
    )
    return (
        {Select.ADDED: frozenset(record for record in there if record is not None)} if when else {}
    )


def replication_selections(history: History, target: str) -> dict[Select, frozenset[str]]:
    """Return the records that no follower had; nothing if followers fetched nothing, or fetched
    ``target``.

    One of two followers may have fetched a record and the other not. If the partition got a new
    leader, the new leader's log decides: a copy counts if the new leader fetched it, or if others
    fetched it from the new leader.
    """
    successions = _successions(history)
    copied = set()
    for copy in history.of(kinds.Replicated):
        old_epoch, successor = successions.get((copy.topic, copy.partition), (-1, None))
        later = copy.epoch is not None and copy.epoch > old_epoch
        if copy.reached and (copy.follower == successor or later):
            copied.add(copy.record)
    alone = frozenset(event.record for event in history.of(kinds.Sent)) - copied
    return {Select.UNREPLICATED: alone} if copied and target in alone else {}


def _successions(history: History) -> dict[tuple[str, int], tuple[int, int]]:
    """Return, for each (topic, partition) with a new leader: the old leader's last epoch, and the
    new leader's number.
    """
    first: dict[tuple[str, int], kinds.Leadership] = {}
    found: dict[tuple[str, int], tuple[int, int]] = {}
    for said in history.of(kinds.Leadership):
        place = (said.topic, said.partition)
        if said.leader == first.setdefault(place, said).leader:
            first[place] = first[place] if place in found else said
        elif said.number >= 0:
            found.setdefault(place, (first[place].epoch, said.number))
    return found


def lapsed(history: History) -> str | None:
    """Say that a single broker was fenced for a while although no fault touched it, or return
    ``None``.

    A busy machine may delay a broker's heartbeats beyond its registration's time-out. The broker is
    then fenced and refuses requests until it is back. What clients make of that is not an effect of
    the fault.
    """
    harmed = any(
        e.role == Role.BROKER and e.phase in (NodePhase.EXITED, NodePhase.PAUSED)
        for e in history.of(kinds.Node)
    )
    if harmed or any(history.of(kinds.Leadership)):  # in a cluster leaders come and go
        return None
    epochs: dict[tuple[str | None, int], set[int | None]] = {}
    for event in history.of(kinds.Stored):
        if event.partition is not None:  # a queue has no leader
            epochs.setdefault((event.topic, event.partition), set()).add(event.epoch)
    if any(len(each) > 1 for each in epochs.values()):
        return (
            "the broker's registration lapsed (busy machine?): its leader epoch grew although no "
            "fault touched it"
        )
    refused = any(event.error == NOT_LEADER for event in history.of(kinds.ProduceAnswer))
    return (
        (
            "the broker's registration lapsed (busy machine?): it led no more although no fault "
            "touched it"
        )
        if refused
        else None
    )
