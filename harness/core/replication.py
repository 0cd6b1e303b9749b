"""Replication: which records a leader had and nobody else, and whether the broker that died had the part it should have.

What followers have is known only when they have fetched it, so the sets are read from what the wire saw pass between
the brokers, where a plan's other selections are known beforehand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.core import events as kinds
from harness.core.prediction import Select
from harness.core.scenario import Role

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.core.history import Event, History

PARTS = {Role.LEADER, Role.FOLLOWER, Role.CONTROLLER, Role.COORDINATOR}
"""Roles that a broker of a cluster has for a while: the history must say that it had them."""
TRANSACTION_LOG = ("__transaction_state", 0)
"""Topic and partition: whoever leads it coordinates the transactions (it has one partition here)."""


def replication_selections(history: History, target: str) -> dict[Select, frozenset[str]]:
    """Return the selections that depend on what followers fetched; none where they fetched nothing, or ``target`` too."""
    copied = {event["record"] for event in history.of(kinds.REPLICATED) if event.get("reached")}
    alone = frozenset(event["record"] for event in history.of(kinds.SENT)) - copied
    return {Select.UNREPLICATED: alone} if copied and target in alone else {}


def unmoved(history: History, target: str) -> str | None:
    """Say that the target's partition kept its leader, where it was to get another."""
    sent = next((e for e in history.of(kinds.SENT, kinds.UNSENT) if e.get("record") == target), None)
    place = (sent["topic"], sent["partition"]) if sent else None
    leaders = {e["leader"] for e in history.of(kinds.LEADERSHIP) if (e["topic"], e["partition"]) == place}
    return None if len(leaders) > 1 else f"the leader was to move, and stayed: {', '.join(sorted(leaders)) or 'unknown'}"


def spared(history: History, killed: Iterable[Event]) -> str | None:
    """Say what has not lost its power, where that was to be: of several brokers each one's own files must be reverted."""
    forgot = [event for event in history.of(kinds.FAULT) if event.get("phase") == "forgot"]
    if not forgot:
        return "no file was reverted to its flushed state"
    named = {event["node"] for event in forgot if "node" in event}
    struck = {str(event.get("node")) for event in killed if event.get("role") in {*PARTS, Role.BROKER}}
    whole = sorted(struck - named) if named else []
    return f"no file of {whole[0]} was reverted to its flushed state" if whole else None


def wrong_part(history: History, target: str, killed: Iterable[Event]) -> str | None:
    """Say which broker was killed in a part that it did not have, by what the cluster itself said before."""
    sent = [e for e in history.of(kinds.SENT, kinds.UNSENT) if e.get("record") == target]
    for end in killed:
        if end.get("role") not in PARTS:
            continue
        place = (sent[0].get("topic"), sent[0].get("partition")) if sent else None
        if end.get("role") == Role.COORDINATOR:
            place = TRANSACTION_LOG
        said = [e for e in history.of(kinds.LEADERSHIP) if e["t"] < end["t"] and (e["topic"], e["partition"]) == place]
        if not said:
            return f"nothing says whether {end.get('node')} was the {end.get('role')}"
        node, last = end.get("node"), said[-1]
        had = {
            Role.LEADER: last["leader"] == node,
            Role.COORDINATOR: last["leader"] == node,
            Role.FOLLOWER: last["leader"] != node and node in last["replicas"],
            Role.CONTROLLER: last["controller"] == node,
        }
        if not had[Role(end["role"])]:
            return (
                f"{node} was killed as the {end['role']}, and was not: leader {last['leader']}, controller {last['controller']}"
            )
    return None
