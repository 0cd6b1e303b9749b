"""Replication: which records a leader had and nobody else, and whether the broker that died had the part it should have.

What followers have is known only when they have fetched it, so the sets are read from what the wire saw pass between
the brokers, where a plan's other selections are known beforehand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.core import events as kinds
from harness.core.prediction import Select
from harness.core.scenario import BROKERS, PARTS, Role

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.core.history import Event, History

NOT_LEADER = 6
"""The error of a broker that does not lead the partition (NOT_LEADER_OR_FOLLOWER)."""
TRANSACTION_LOG = ("__transaction_state", 0)
"""Topic and partition: whoever leads it coordinates the transactions (it has one partition here)."""


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


def unmoved(history: History, target: str) -> str | None:
    """Say that the target's partition kept its leader, where it was to get another."""
    leaders = {e["leader"] for e in _said_of(history, target)}
    return None if len(leaders) > 1 else f"the leader was to move, and stayed: {', '.join(sorted(leaders)) or 'unknown'}"


def lapsed(history: History) -> str | None:
    """Say that a lone broker was no leader for a while although nobody had harmed it, by the epochs of what it stored.

    A broker that is starved for longer than its registration lasts is fenced, and answers as no leader until it is back: what
    the clients make of that is no effect of the fault.
    """
    harmed = any(e.get("role") == Role.BROKER and e.get("phase") in ("exited", "paused") for e in history.of(kinds.NODE))
    if harmed or any(history.of(kinds.LEADERSHIP)):  # in a cluster leaders come and go
        return None
    epochs: dict[tuple[str, int], set[int]] = {}
    for event in history.of(kinds.STORED):
        epochs.setdefault((event["topic"], event["partition"]), set()).add(event["epoch"])
    if any(len(each) > 1 for each in epochs.values()):
        return "the broker's registration had lapsed: its leader epoch grew, and nobody had harmed it"
    refused = any(event.get("error") == NOT_LEADER for event in history.of(kinds.PRODUCE_ANSWER))
    return "the broker's registration had lapsed: it led no more, and nobody had harmed it" if refused else None


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


def spared(history: History, killed: Iterable[Event]) -> str | None:
    """Say what has not lost its power, where that was to be: of several brokers each one's own files must be reverted."""
    forgot = [event for event in history.of(kinds.FAULT) if event.get("phase") == "forgot"]
    if not forgot:
        return "no file was reverted to its flushed state"
    named = {event["node"] for event in forgot if "node" in event}
    struck = {str(event.get("node")) for event in killed if event.get("role") in BROKERS}
    whole = sorted(struck - named) if named else []
    return f"no file of {whole[0]} was reverted to its flushed state" if whole else None


def _said_of(history: History, target: str) -> list[Event]:
    """What the cluster said of the target's partition, in order."""
    sent = next((e for e in history.of(kinds.SENT, kinds.UNSENT) if e.get("record") == target), None)
    place = (sent["topic"], sent["partition"]) if sent else None
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
