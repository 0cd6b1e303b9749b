"""Proof that another broker led what a record's frame was about, while the record was in a certain
state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from harness.model import events as kinds
from harness.model.events import FaultPhase, NodePhase
from harness.model.requests import OF_GROUP, OF_TRANSACTION
from harness.model.scenario import Role
from harness.model.struck import first_at, hits_of
from harness.model.takeovers import Turn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from harness.judge.proof import ProofContext
    from harness.model.history import History
    from harness.model.tail import SoFar

GROUPS: Final = "__consumer_offsets"
TRANSACTIONS: Final = "__transaction_state"
COORDINATED: Final[Mapping[str, str]] = {
    **dict.fromkeys(OF_GROUP, GROUPS),
    **dict.fromkeys(OF_TRANSACTION, TRANSACTIONS),
}
"""The log whose leader such a request is for; all others are for leaders of the pipeline's topics.
"""
COPIES: Final = "copies"
"""The rule that holds what followers fetch."""
FEW: Final = (19, 20)
"""NOT_ENOUGH_REPLICAS, and NOT_ENOUGH_REPLICAS_AFTER_APPEND."""
EVERYBODY: Final = -1
"""``acks`` of a producer that waits for all replicas in sync."""


@dataclass(frozen=True, slots=True)
class OtherLeads:
    """The broker that the frame was for led what the frame is about; then ``turn`` came, and it led
    that no more. With the turn ``short`` it refused the record, if all replicas were asked for.
    """

    name: ClassVar[str] = "other-leads"

    turn: str

    def trouble(self, course: ProofContext) -> str | None:
        """Say what of this the history does not show."""
        history, turn = course.history, Turn(self.turn)
        hit = _hit(history)
        if hit is None or hit.node is None:
            return "not tried: nobody saw which broker the frame was for"
        applied = first_at(history, FaultPhase.APPLIED)
        if applied is None:
            return "not tried: nothing was done to a broker"
        killed = [e.node for e in course.killed if e.role == Role.BROKER]
        place = place_of(history, course.plan.target, hit) or _any_of(history, hit)
        if place is None:
            return f"not tried: nobody saw which partition the {hit.api} was about"
        said = [e for e in history.of(kinds.Leadership) if (e.topic, e.partition) == place]
        log = f"{place[0]}/{place[1]}"
        before = [e for e in said if e.t <= applied and e.leader == hit.node]
        why = None
        if turn.kills and killed != [hit.node]:
            why = f"{', '.join(killed) or 'nobody'} was killed, and the frame was for {hit.node}"
        elif not before:
            why = f"the frame was for {hit.node}, which did not lead {log}"
        elif turn is Turn.SHORT:
            why = _not_short(history, course.plan.target, said, hit.node)
        elif not any(e.number >= 0 and e.leader != hit.node for e in said if e.t > before[-1].t):
            why = f"nobody else was seen to lead {log} after {hit.node}"
        elif turn.ahead:
            why = _copied(history, course.plan.target, place, applied)
        elif turn is Turn.ROLLS:
            why = _not_rolled(history, hit.node)
        return None if why is None else f"not tried: {why}"


READERS: Final = "/readers"


def readers_of(queue: str) -> str:
    """Return the name of the log in which several servers keep what a queue's readers have
    acknowledged. Its leader may be another one than the queue's.
    """
    return queue + READERS


def place_of(history: History, target: str, hit: kinds.Rule) -> tuple[str, int] | None:
    """Return topic and partition that a frame with the target is about; ``None``: nobody has seen
    it. Of a coordinator, that of its log, which has one partition on brokers of lostack.
    """
    if (log := COORDINATED.get(hit.api or "")) is not None:
        return log, 0
    for copy in history.of(kinds.Fetched):
        if (copy.record, copy.conn) == (target, hit.conn) and copy.topic:
            return (readers_of(copy.topic), 0) if copy.at is None else (copy.topic, copy.at[0])
    conns = {e.conn for e in history.of(kinds.Conn) if e.role == hit.role}
    for sent in history.of(kinds.Sent, kinds.Unsent):
        if (
            sent.record == target
            and sent.topic is not None
            and int(sent.request.partition(":")[0]) in conns
        ):
            return sent.topic, sent.partition or 0
    return None


def _any_of(history: History, hit: kinds.Rule) -> tuple[str, int] | None:
    """Return a partition that the broker led, if the frame is about no record: any broker answers
    such a request. ``None``: it is about one, or the broker led none.
    """
    if hit.record is not None or hit.api in COORDINATED:
        return None
    led = (e for e in history.of(kinds.Leadership) if e.leader == hit.node)
    return next(((e.topic, e.partition) for e in led), None)


def requested_acks(history: History | SoFar, hit: kinds.Rule) -> int | None:
    """Return the ``acks`` that the Produce request of a hit asked for."""
    if hit.acks is not None:
        return hit.acks
    found = (
        e.acks
        for e in history.of(kinds.Frame)
        if (e.conn, e.corr, e.api) == (hit.conn, hit.corr, hit.api) and e.acks is not None
    )
    return next(found, None)


def _hit(history: History) -> kinds.Rule | None:
    return next(iter(hits_of(history)), None)


def _copied(history: History, target: str, place: tuple[str, int], applied: int) -> str | None:
    """Say that a follower had the target, or that its leader was not seen to have it."""
    copies = [
        e
        for e in history.of(kinds.Replicated)
        if (e.record, e.topic, e.partition) == (target, *place)
    ]
    if any(e.reached and e.t <= applied for e in copies):
        return f"a follower had {target} before"
    held = any(e.t <= applied for e in hits_of(history, (COPIES,)))
    alone = any(e.record == target and e.t <= applied for e in history.of(kinds.Alone))
    return None if held or alone else f"nobody saw that its leader had stored {target}"


def _not_short(
    history: History, target: str, said: Sequence[kinds.Leadership], node: str
) -> str | None:
    """Say that no follower was out of sync, or that a record for all of them was not refused."""
    dead = {e.node for e in history.of(kinds.Node) if e.phase == NodePhase.EXITED}
    dead &= {e.node for e in history.of(kinds.Node) if e.role == Role.FOLLOWER}
    short = [e for e in said if e.leader == node and set(e.replicas) - set(e.isr) == dead]
    if not short or not dead or node in dead:
        return f"{node} was not seen to lead while a follower was out of sync"
    answers = [e for e in history.of(kinds.ProduceAnswer) if e.record == target]
    hit = _hit(history)
    requested = None if hit is None else requested_acks(history, hit)
    everybody = hit is None or requested == EVERYBODY
    if everybody and not any(e.error in FEW for e in answers):
        return f"{node} did not refuse {target}"
    back = min((e.t for e in history.of(kinds.Node) if e.node in dead and _is_up(e)), default=None)
    first = min(e.t for e in short)
    if requested is None and any(
        not e.error and first < e.t and (back is None or e.t < back) for e in answers
    ):
        return f"{node} took {target} alone"
    return None


def _is_up(event: kinds.Node) -> bool:
    return event.phase == NodePhase.STARTED


def _not_rolled(history: History, first: str) -> str | None:
    """Say which broker was not shut down and back in its turn, the first one first."""
    down: str | None = None
    rolled: list[str] = []
    for event in history.of(kinds.Node):
        if event.role != Role.BROKER:
            continue
        if event.phase == NodePhase.EXITED:
            if down is not None:
                return f"{event.node} was stopped while {down} was not back"
            if not event.asked:
                return f"{event.node} was not shut down in order"
            down = event.node
            rolled.append(event.node)
        elif event.phase == NodePhase.READY and event.node == down:
            down = None
    if down is not None:
        return f"{down} was stopped and did not come back"
    every = {name for e in history.of(kinds.Leadership) for name in e.replicas}
    if rolled[:1] != [first] or len(rolled) != len(set(rolled)) or set(rolled) != every:
        return f"not each broker was restarted once: {', '.join(rolled) or 'none was'}"
    return None
