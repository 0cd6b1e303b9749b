"""What only the history of a Kafka tells: which records a leader had and nobody else, which went into partitions that were added.

What followers have is known only when they have fetched it, so these sets are read from what the wire saw pass between the
brokers, where a plan's other selections are known beforehand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.model import events as kinds
from harness.model.prediction import Select
from harness.model.scenario import Role
from harness.proofs.growth import added

if TYPE_CHECKING:
    from harness.model.history import Event, History

NOT_LEADER = 6
"""The error of a broker that does not lead the partition (NOT_LEADER_OR_FOLLOWER)."""


def growth_selections(history: History, _target: str) -> dict[Select, frozenset[str]]:
    """Return the records that stand in partitions that were added; nothing where none was."""
    when = added(history)
    there = (e["record"] for e in history.of(kinds.STORED) if (e.get("topic"), e.get("partition")) in when and e["visible"])
    return {Select.ADDED: frozenset(record for record in there if record is not None)} if when else {}


def replication_selections(history: History, target: str) -> dict[Select, frozenset[str]]:
    """Return the selections that depend on what followers fetched; none where they fetched nothing, or ``target`` too.

    Of two followers one may have fetched a record and the other not. Where the partition got another leader, that one's log is
    the truth: a copy counts that it fetched, or that others fetched of it.
    """
    successions = _successions(history)
    copied = set()
    for copy in history.of(kinds.REPLICATED):
        old_epoch, successor = successions.get((copy["topic"], copy["partition"]), (-1, None))
        if copy.get("reached") and (copy["follower"] == successor or copy["epoch"] > old_epoch):
            copied.add(copy["record"])
    alone = frozenset(event["record"] for event in history.of(kinds.SENT)) - copied
    return {Select.UNREPLICATED: alone} if copied and target in alone else {}


def _successions(history: History) -> dict[tuple[str, int], tuple[int, int]]:
    """By topic and partition that got another leader: the last epoch of the first one, and the number of the next."""
    first: dict[tuple[str, int], Event] = {}
    found: dict[tuple[str, int], tuple[int, int]] = {}
    for said in history.of(kinds.LEADERSHIP):
        place = (said["topic"], said["partition"])
        if said["leader"] == first.setdefault(place, said)["leader"]:
            first[place] = first[place] if place in found else said
        elif said.get("number", -1) >= 0:
            found.setdefault(place, (first[place]["epoch"], said["number"]))
    return found


def lapsed(history: History) -> str | None:
    """Say that an unharmed lone broker was no leader for a while, by the leader epochs of its records.

    A broker that is starved for longer than its registration lasts is fenced, and answers as no leader until it is back: what
    the clients make of that is no effect of the fault.
    """
    harmed = any(e.get("role") == Role.BROKER and e.get("phase") in ("exited", "paused") for e in history.of(kinds.NODE))
    if harmed or any(history.of(kinds.LEADERSHIP)):  # in a cluster leaders come and go
        return None
    epochs: dict[tuple[str, int], set[int]] = {}
    for event in history.of(kinds.STORED):
        if event.get("partition") is not None:  # a queue has no leader
            epochs.setdefault((event["topic"], event["partition"]), set()).add(event["epoch"])
    if any(len(each) > 1 for each in epochs.values()):
        return "the broker's registration had lapsed: its leader epoch grew, and nobody had harmed it"
    refused = any(event.get("error") == NOT_LEADER for event in history.of(kinds.PRODUCE_ANSWER))
    return "the broker's registration had lapsed: it led no more, and nobody had harmed it" if refused else None
