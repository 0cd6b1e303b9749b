"""The failure points that only several brokers have: leaders and coordinators die, hand over, or
have no follower in sync, with a record on its way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from harness.controls import OnWire
from harness.faults import Kill, TakenOver, Twice
from harness.model.scenario import Role
from harness.model.takeovers import Turn
from harness.pipelines.broker import CLUSTER
from harness.pipelines.dialects import Moment
from harness.pipelines.points import WRITING, Point
from harness.pipelines.stages import CONSUMING

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.controls import InjectableOnWire
    from harness.model.scenario import Fault
    from harness.pipelines.declaration import Pipeline
    from harness.pipelines.dialects import Dialect

BACK_S: Final = 12.0
"""How much longer a point takes, in seconds, in which a broker must come back."""
ROLLED_S: Final = 40.0
"""How much longer, if all of them must."""


def on_cluster(fault: Fault) -> Fault:
    """Return the fault as it is on several brokers: where one is killed, the one that the frame is
    for, and it comes back when others lead.
    """
    if isinstance(fault, Twice):
        first, second = on_cluster(fault.first), on_cluster(fault.second)
        return Twice(cast("InjectableOnWire", first), cast("InjectableOnWire", second))
    if isinstance(fault, Kill) and fault.victims == (Role.BROKER,) and isinstance(fault.at, OnWire):
        return TakenOver(fault.at, Turn.DIES)
    return fault


def needs_all(fault: Fault) -> bool:
    """Whether a fault ends or stops a broker, so that no other cell may use it at that time."""
    if isinstance(fault, TakenOver):
        return fault.turn.stops
    need = fault.evidence()
    return Role.BROKER in (*need.killed, *need.may_kill, *need.paused)


def _turn(turn: Turn) -> Callable[[OnWire, Dialect], Fault]:
    return lambda at, _: TakenOver(at, turn)


def _why_not(pipeline: Pipeline, role: Role) -> str | None:
    """Say why no broker takes over from another."""
    del role
    if pipeline.brokers == 1:
        return f"lostack starts one broker; to try it with several, say brokers = {CLUSTER}"
    if pipeline.broker.copies(pipeline.brokers) == 1:
        return "one broker has each topic (replicas = 1), so no other can lead it"
    return None


def _point(
    name: str,
    roles: tuple[Role, ...],
    moment: Moment,
    turn: Turn,
    because: str,
    *,
    waits_s: float = 0.0,
) -> Point:
    return Point(
        name, roles, moment, _turn(turn), because, waits_s=waits_s, logs=True, why_not=_why_not
    )


CLUSTERS: Final = (
    _point(
        "leader-crash-before-replication",
        WRITING,
        Moment.SEND,
        Turn.DIES_AHEAD,
        "The leader has stored the {role}'s record and is killed before any follower has it. "
        "Another leads without it; the old one comes back and throws its copy away.",
    ),
    _point(
        "leader-moved-while-sending",
        WRITING,
        Moment.SEND,
        Turn.HANDS_OVER,
        "While the {role}'s record is on its way, another replica is elected leader, as when "
        "leaders are balanced; the record reaches a broker that leads no more.",
    ),
    _point(
        "leader-moved-while-reading",
        CONSUMING,
        Moment.DELIVERY,
        Turn.HANDS_OVER,
        "While the record is on its way to the {role}, another replica is elected leader; the "
        "{role} is told so at its next request.",
    ),
    _point(
        "coordinator-moved-before-position",
        CONSUMING,
        Moment.POSITION,
        Turn.HANDS_OVER,
        "While the {role} asks to save its position after the record, another broker becomes the "
        "coordinator of its group; the request reaches the old one.",
    ),
    _point(
        "transaction-coordinator-moved",
        WRITING,
        Moment.COMMIT,
        Turn.HANDS_OVER,
        "While the {role} asks to end the record's transaction, another broker becomes the "
        "coordinator of transactions; the request reaches the old one.",
    ),
    _point(
        "lagging-follower-leads",
        WRITING,
        Moment.SEND,
        Turn.OVERTAKEN,
        "The leader has stored the {role}'s record, and no follower has it yet. One of them, in "
        "sync by the clock, is elected leader; nobody dies.",
    ),
    _point(
        "insync-not-met",
        WRITING,
        Moment.SEND,
        Turn.SHORT,
        "A follower is killed, and the topics need all replicas then (min.insync.replicas): the "
        "leader refuses the {role}'s record (NOT_ENOUGH_REPLICAS), until they need fewer again "
        "and the follower is back.",
        waits_s=BACK_S,
    ),
    _point(
        "leader-crash-while-reading",
        CONSUMING,
        Moment.DELIVERY,
        Turn.DIES,
        "The leader is killed with the record on its way to the {role}; another one leads, and "
        "the old one comes back.",
        waits_s=BACK_S,
    ),
    _point(
        "coordinator-crash-after-position",
        CONSUMING,
        Moment.POSITION_ANSWER,
        Turn.DIES,
        "The coordinator has saved the {role}'s position after the record, and is killed before "
        "it answers; another one takes its group over, and the old one comes back.",
        waits_s=BACK_S,
    ),
    _point(
        "transaction-coordinator-crash-before-commit",
        WRITING,
        Moment.COMMIT,
        Turn.DIES,
        "The coordinator of transactions is killed before it sees that the {role} ends the "
        "record's transaction; another one takes over, and the old one comes back.",
        waits_s=BACK_S,
    ),
    _point(
        "transaction-coordinator-crash-before-commit-answer",
        WRITING,
        Moment.COMMIT_ANSWER,
        Turn.DIES,
        "The coordinator of transactions has ended the record's transaction, and is killed before "
        "it answers the {role}; another one takes over, and the old one comes back.",
        waits_s=BACK_S,
    ),
    _point(
        "rolling-restart-while-sending",
        WRITING,
        Moment.SEND,
        Turn.ROLLS,
        "Each broker is shut down (SIGTERM) and started again, one after the other, the leader of "
        "the record first, while the {role}'s record is on its way to it.",
        waits_s=ROLLED_S,
    ),
    _point(
        "rolling-restart-while-reading",
        CONSUMING,
        Moment.DELIVERY,
        Turn.ROLLS,
        "Each broker is shut down (SIGTERM) and started again, one after the other, the leader of "
        "the record first, while the record is on its way to the {role}.",
        waits_s=ROLLED_S,
    ),
)
OTHER_CLUSTERS: Final = frozenset(point.id for point in CLUSTERS[1:])
"""All but the first, which says for all why a pipeline has none."""
