"""Proofs about leadership, as the cluster reported it: that a leader moved, and that a killed
broker had its role.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.model import events as kinds
from harness.model.events import NodePhase
from harness.model.scenario import PARTS, Role

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.judge.proof import ProofContext
    from harness.model.history import History

TRANSACTION_LOG = ("__transaction_state", 0)
"""Topic and partition of the transactions' log: its leader is the coordinator of all transactions
(it has one partition here).
"""


@dataclass(frozen=True, slots=True)
class LeadershipMoved:
    """The target's partition got another leader after the fault was applied."""

    name: ClassVar[str] = "leader-moved"

    def trouble(self, course: ProofContext) -> str | None:
        """Say that the target's partition kept its leader."""
        return unmoved(course.history, course.plan.target)


@dataclass(frozen=True, slots=True)
class PreferredElected:
    """The new leader is the preferred replica, and the order of the replicas (the first is
    preferred) did not change.
    """

    name: ClassVar[str] = "preferred-elected"

    def trouble(self, course: ProofContext) -> str | None:
        """Say why the history does not show that the preferred replica was elected."""
        return not_elected(course.history, course.plan.target, course.fired_at or 0)


@dataclass(frozen=True, slots=True)
class Rolled:
    """``count`` brokers were stopped by SIGTERM and restarted, one at a time, beginning with the
    target's leader.
    """

    name: ClassVar[str] = "rolled"

    count: int

    def trouble(self, course: ProofContext) -> str | None:
        """Say which broker was not restarted, or not in its turn."""
        return not_rolled(course.history, course.plan.target, self.count)


@dataclass(frozen=True, slots=True)
class PartHad:
    """Each broker that was killed as leader, follower, controller or coordinator had that role at
    the time.
    """

    name: ClassVar[str] = "part-had"

    def trouble(self, course: ProofContext) -> str | None:
        """Name a broker that was killed and did not have the role that it was killed for."""
        return wrong_part(course.history, course.plan.target, course.killed)


def unmoved(history: History, target: str) -> str | None:
    """Say that the target's partition kept its leader; ``None`` if the leader moved."""
    leaders = {e.leader for e in _said_of(history, target)}
    return (
        None
        if len(leaders) > 1
        else f"the leader did not move: {', '.join(sorted(leaders)) or 'unknown'}"
    )


def not_elected(history: History, target: str, since: int) -> str | None:
    """Say why the history does not show that the preferred replica became leader after ``since``
    (monotonic ns).
    """
    said = _said_of(history, target)
    order = list(said[-1].replicas) if said else []
    waiting = [
        e for e in said if e.t >= since and list(e.replicas) == order and e.leader != order[0]
    ]
    if not waiting:
        return (
            "the history does not show that a broker other than the preferred replica was the "
            "leader before"
        )
    after = [event.leader for event in said if event.t > waiting[-1].t]
    return None if after[:1] == order[:1] else f"the preferred replica {order[0]} was not elected"


def not_rolled(history: History, target: str, count: int) -> str | None:
    """Say which broker was not restarted once, in its turn, after the one before was back; the
    target's leader is the first.
    """
    leaders = [e.leader for e in _said_of(history, target)]
    down: str | None = None
    rolled: list[str] = []
    for event in history.of(kinds.Node):
        name, phase = event.node, event.phase
        if event.role != Role.BROKER:
            continue
        if phase == NodePhase.EXITED and event.asked is True:
            if down is not None:
                return f"{name} was stopped while {down} was not back"
            down = name
            rolled.append(name)
        elif phase == NodePhase.READY and name == down:
            down = None
    if down is not None:
        return f"{down} was stopped and did not come back"
    if len(rolled) != count or len(set(rolled)) != count:
        return (
            f"not each of {count} brokers was restarted once; these were: "
            f"{', '.join(rolled) or 'none'}"
        )
    if rolled[0] not in leaders[:1]:
        return (
            f"{rolled[0]} was restarted first, but the target's leader was "
            f"{', '.join(leaders[:1]) or 'unknown'}"
        )
    return (
        None
        if rolled == _in_turn(rolled)
        else f"the brokers were restarted out of order: {', '.join(rolled)}"
    )


def _in_turn(names: list[str]) -> list[str]:
    """Return the order of restarts that begins with the first of them. A broker that coordinates
    leads no data and comes last.

    >>> _in_turn(["broker-2", "broker-1", "broker-3"])
    ['broker-2', 'broker-3', 'broker-1']
    """
    return [names[0], *sorted(names[1:], reverse=True)]


def _said_of(history: History, target: str) -> list[kinds.Leadership]:
    """What the cluster said of the target's partition, in order."""
    place = _home(history, target)
    return [e for e in history.of(kinds.Leadership) if (e.topic, e.partition) == place]


def _home(history: History, target: str) -> tuple[str | None, int | None] | None:
    """Return the topic and the partition to which the target was sent."""
    sent = (e for e in history.of(kinds.Sent, kinds.Unsent) if e.record == target)
    return next(((e.topic, e.partition or 0) for e in sent), None)


def wrong_part(history: History, target: str, killed: Iterable[kinds.Node]) -> str | None:
    """Name a broker that was killed for a role that it did not have, or that had two; the cluster
    itself reported the roles.
    """
    home = _home(history, target)
    for end in killed:
        if end.role not in PARTS:
            continue
        node, role = end.node, Role(end.role)
        coordination = _said_last(history, TRANSACTION_LOG, end.t)
        last = coordination if role is Role.COORDINATOR else _said_last(history, home, end.t)
        if last is None:
            return f"the cluster did not report whether {node} was the {role}"
        had = {
            Role.LEADER: last.leader == node,
            Role.COORDINATOR: last.leader == node,
            Role.FOLLOWER: last.leader != node and node in last.replicas,
            Role.CONTROLLER: last.controller == node,
        }
        if not had[role]:
            return (
                f"{node} was killed as the {role} but was not: leader {last.leader}, "
                f"controller {last.controller}"
            )
        if role is Role.LEADER and coordination is not None and coordination.leader == node:
            return (
                f"{node} was killed as the leader but was the coordinator of transactions as well"
            )
    return None


def _said_last(
    history: History, place: tuple[str | None, int | None] | None, before: int
) -> kinds.Leadership | None:
    """What the cluster said last of a partition before a time."""
    said = [
        e for e in history.of(kinds.Leadership) if e.t < before and (e.topic, e.partition) == place
    ]
    return said[-1] if said else None
