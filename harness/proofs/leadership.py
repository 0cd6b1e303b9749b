"""Proofs about leadership, by the cluster's own word: that a leader moved, and that a broker had its role."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from harness.model import events as kinds
from harness.model.scenario import PARTS, Role

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.judge.proof import Course
    from harness.model.history import Event, History

TRANSACTION_LOG = ("__transaction_state", 0)
"""Topic and partition: whoever leads it coordinates the transactions (it has one partition here)."""


@dataclass(frozen=True, slots=True)
class LeadershipMoved:
    """The target's partition has another leader at the end than when the fault was applied."""

    name: ClassVar[str] = "leader-moved"

    def trouble(self, course: Course) -> str | None:
        """Say that it kept its leader."""
        return unmoved(course.history, course.plan.target)


@dataclass(frozen=True, slots=True)
class PreferredElected:
    """That leader was the preferred replica all along, and was elected: the order of the replicas has not changed."""

    name: ClassVar[str] = "preferred-elected"

    def trouble(self, course: Course) -> str | None:
        """Say how it was not."""
        return not_elected(course.history, course.plan.target, course.fired_at or 0)


@dataclass(frozen=True, slots=True)
class Rolled:
    """``count`` brokers were ended in order and started again, one at a time, beginning with the target's leader."""

    name: ClassVar[str] = "rolled"

    count: int

    def trouble(self, course: Course) -> str | None:
        """Say which was not, or when."""
        return not_rolled(course.history, course.plan.target, self.count)


@dataclass(frozen=True, slots=True)
class PartHad:
    """Each broker that was killed for a part that it has for a while (leader, follower, controller, coordinator) had it."""

    name: ClassVar[str] = "part-had"

    def trouble(self, course: Course) -> str | None:
        """Say which had another."""
        return wrong_part(course.history, course.plan.target, course.killed)


def unmoved(history: History, target: str) -> str | None:
    """Say that the target's partition kept its leader, where it was to get another."""
    leaders = {e["leader"] for e in _said_of(history, target)}
    return None if len(leaders) > 1 else f"the leader was to move, and stayed: {', '.join(sorted(leaders)) or 'unknown'}"


def not_elected(history: History, target: str, since: int) -> str | None:
    """Say how the target's partition did not get, after ``since``, the leader that was preferred all along."""
    said = _said_of(history, target)
    order = said[-1]["replicas"] if said else []
    waiting = [e for e in said if e["t"] >= since and e["replicas"] == order and e["leader"] != order[0]]
    if not waiting:
        return "nothing says that another than the preferred replica led"
    after = [event["leader"] for event in said if event["t"] > waiting[-1]["t"]]
    return None if after[:1] == order[:1] else f"the preferred replica {order[0]} was to be elected, and was not"


def not_rolled(history: History, target: str, count: int) -> str | None:
    """Say how the brokers were not restarted one at a time, in order, each once, beginning with the target's leader."""
    leaders = [e["leader"] for e in _said_of(history, target)]
    down: str | None = None
    rolled: list[str] = []
    for event in history.of(kinds.NODE):
        name, phase = str(event.get("node")), event.get("phase")
        if event.get("role") != Role.BROKER:
            continue
        if phase == "exited" and event.get("asked") is True:
            if down is not None:
                return f"{name} was ended while {down} was not back"
            down = name
            rolled.append(name)
        elif phase == "ready" and name == down:
            down = None
    if down is not None:
        return f"{down} was ended, and did not come back"
    if len(rolled) != count or len(set(rolled)) != count:
        return f"{count} brokers were to be restarted once each: {', '.join(rolled) or 'none was'}"
    if rolled[0] not in leaders[:1]:
        return f"{rolled[0]} was restarted first, and the target's leader was {', '.join(leaders[:1]) or 'unknown'}"
    return None if rolled == _in_turn(rolled) else f"the brokers were restarted out of order: {', '.join(rolled)}"


def _in_turn(names: list[str]) -> list[str]:
    """The order that begins with the first of them: who coordinates leads no data, and comes last.

    >>> _in_turn(["broker-2", "broker-1", "broker-3"])
    ['broker-2', 'broker-3', 'broker-1']
    """
    return [names[0], *sorted(names[1:], reverse=True)]


def _said_of(history: History, target: str) -> list[Event]:
    """What the cluster said of the target's partition, in order."""
    sent = next((e for e in history.of(kinds.SENT, kinds.UNSENT) if e.get("record") == target), None)
    place = (sent.get("topic"), sent.get("partition")) if sent else None
    return [e for e in history.of(kinds.LEADERSHIP) if (e["topic"], e["partition"]) == place]


def wrong_part(history: History, target: str, killed: Iterable[Event]) -> str | None:
    """Say which broker was killed in a part that it did not have, or in two, by what the cluster itself said before."""
    sent = [e for e in history.of(kinds.SENT, kinds.UNSENT) if e.get("record") == target]
    home = (sent[0].get("topic"), sent[0].get("partition")) if sent else None
    for end in killed:
        if end.get("role") not in PARTS:
            continue
        node, role = end.get("node"), Role(end["role"])
        coordination = _said_last(history, TRANSACTION_LOG, end["t"])
        last = coordination if role is Role.COORDINATOR else _said_last(history, home, end["t"])
        if last is None:
            return f"nothing says whether {node} was the {role}"
        had = {
            Role.LEADER: last["leader"] == node,
            Role.COORDINATOR: last["leader"] == node,
            Role.FOLLOWER: last["leader"] != node and node in last["replicas"],
            Role.CONTROLLER: last["controller"] == node,
        }
        if not had[role]:
            return f"{node} was killed as the {role}, and was not: leader {last['leader']}, controller {last['controller']}"
        if role is Role.LEADER and coordination is not None and coordination["leader"] == node:
            return f"{node} was killed as the leader, and coordinated transactions, too"
    return None


def _said_last(history: History, place: tuple[Any, Any] | None, before: int) -> Event | None:
    """What the cluster said last of a partition before a time."""
    said = [e for e in history.of(kinds.LEADERSHIP) if e["t"] < before and (e["topic"], e["partition"]) == place]
    return said[-1] if said else None
