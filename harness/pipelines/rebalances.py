"""The failure points at which a group shares out its partitions anew while all its members live."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.controls import OnWire
from harness.faults import PutOutWhileJoining, Rebalanced, ToldLate
from harness.model.rebalances import Change
from harness.pipelines.dialects import Moment
from harness.pipelines.points import Point
from harness.pipelines.stages import CONSUMING
from harness.protocols.kafka.steps import Api

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.model.scenario import Fault, Role
    from harness.pipelines.declaration import Pipeline
    from harness.pipelines.dialects import Dialect

JOINS: Final = (Api.JOIN_GROUP, Api.CONSUMER_GROUP_HEARTBEAT)
"""The requests by which a member joins its group, in the two protocols."""

BEATS: Final = (Api.HEARTBEAT, Api.CONSUMER_GROUP_HEARTBEAT)
"""The requests whose answers tell a member that its group shares out anew. By an incremental
assignor a member then joins again, and is told by SyncGroup's answer what it must give up.
"""


def _changed(change: Change, *, dies: bool = False) -> Callable[[OnWire, Dialect], Fault]:
    return lambda at, _: Rebalanced(at, change, dies)


def _put_out_while_joining(at: OnWire, _: Dialect) -> Fault:
    return PutOutWhileJoining(at)


def _told_late(*, answered: bool) -> Callable[[OnWire, Dialect], Fault]:
    """Strike at the delivery of the target. The point's moment, a position, is what the stage must
    be seen to save in the dry run.
    """
    return lambda at, dialect: ToldLate(OnWire(at.role, *dialect.steps[Moment.DELIVERY]), answered)


def joining(role: Role, dialect: Dialect) -> Rebalanced:
    """Return what shows which partitions a member takes that joins."""
    return Rebalanced(OnWire(role, *dialect.steps[Moment.DELIVERY]), Change.JOINS)


def why_not(pipeline: Pipeline, role: Role) -> str | None:
    """Say why a stage's group cannot share out anything."""
    stage = pipeline.stage(role)
    if stage is None or stage.scale == 1:
        return (
            f"lostack starts one {role}; if several may run at once, say scale = 2 in its [[stage]]"
        )
    if stage.connector:
        return "a worker that joins or leaves takes tasks: which partitions go with them is unknown"
    if pipeline.partitions == 1:
        return (
            f"its topic has one partition, which one {role} has as long as it lives: set "
            "partitions = 2 or more"
        )
    return None


def _point(
    name: str,
    moment: Moment,
    act: Callable[[OnWire, Dialect], Fault],
    because: str,
    asks: tuple[Api, ...] = JOINS,
) -> Point:
    return Point(name, CONSUMING, moment, act, because, logs=True, why_not=why_not, asks=asks)


REBALANCES: Final = (
    _point(
        "member-joins-with-record-in-hand",
        Moment.DELIVERY,
        _changed(Change.JOINS),
        "Another {role} joins the group as the record reaches the one that is there, as when a "
        "deploy adds one; nothing is done to either.",
    ),
    _point(
        "member-joins-then-first-is-killed",
        Moment.DELIVERY,
        _changed(Change.JOINS, dies=True),
        "Another {role} joins as the record reaches the one that is there, which is killed as soon "
        "as its partitions are assigned anew: what it has not done by then must be done again.",
    ),
    _point(
        "member-joins-and-leaves",
        Moment.DELIVERY,
        _changed(Change.COMES_AND_GOES),
        "Another {role} joins as the record reaches the one that is there, and is told to end "
        "(SIGTERM) as soon as it has partitions.",
    ),
    _point(
        "member-leaves-with-record-in-hand",
        Moment.DELIVERY,
        _changed(Change.LEAVES),
        "Of several members of the {role}, the one that the record reaches is told to end "
        "(SIGTERM), as by a rolling deploy; another takes its partitions.",
    ),
    _point(
        "other-member-leaves-with-record-in-hand",
        Moment.DELIVERY,
        _changed(Change.OTHER_LEAVES),
        "As the record reaches one member of the {role}, the others are told to end (SIGTERM): the "
        "group shares out their partitions, and its own.",
    ),
    _point(
        "member-put-out-before-position",
        Moment.POSITION,
        _changed(Change.PUT_OUT),
        "A member of the {role} has asked to save its position after the record; the group has put "
        "it out, as when its work took longer than max.poll.interval, and another has its "
        "partition before the request arrives.",
    ),
    _point(
        "member-put-out-after-position",
        Moment.POSITION_ANSWER,
        _changed(Change.PUT_OUT),
        "The position after the record is saved; the group puts the member of the {role} out, and "
        "another has its partition, before the member learns either.",
    ),
    _point(
        "member-put-out-while-it-joins",
        Moment.DELIVERY,
        _put_out_while_joining,
        "The record is on its way to a member of the {role} when another joins; the member asks to "
        "join again, and is put out before its request arrives. The others have done all the work "
        "by then.",
        (Api.JOIN_GROUP,),
    ),
    _point(
        "member-joins-while-position-is-asked",
        Moment.POSITION,
        _told_late(answered=False),
        "Another {role} joins as the record reaches the one that is there. That one learns of it "
        "while its request to save its position is on its way, which takes 2 s longer than usual.",
        BEATS,
    ),
    _point(
        "member-joins-while-position-is-answered",
        Moment.POSITION_ANSWER,
        _told_late(answered=True),
        "Another {role} joins as the record reaches the one that is there. That one learns of it "
        "when its position is saved; the answer that says so takes 2 s longer than usual.",
        BEATS,
    ),
)
WORK_UNDERWAY: Final = "member-joins-while-work-is-underway"
OUTLASTS: Final = "work-outlasts-poll-interval"
OTHER_REBALANCES: Final = frozenset(
    (*(point.id for point in REBALANCES[1:]), WORK_UNDERWAY, OUTLASTS)
)
"""All but the first, which says for all why a stage has none."""
