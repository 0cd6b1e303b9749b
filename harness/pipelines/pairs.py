"""Pairs of faults that belong together: the second one strikes the same stage while it recovers
from the first.

Each pair costs a cell, so ``check`` tries only the few that show most: :class:`Pairs`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final, cast

from harness.controls import OnWire
from harness.faults import Answer, Drop, Kill, Terminate, Twice
from harness.model.semantics import Anomaly, forbids
from harness.pipelines.dialects import Moment
from harness.pipelines.points import WRITING, Point
from harness.pipelines.stages import CONSUMING
from harness.protocols.kafka.steps import Api
from harness.wire.rules import Direction, How

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from harness.controls import InjectableOnWire
    from harness.model.scenario import Fault, Role
    from harness.pipelines.declaration import Pipeline
    from harness.pipelines.dialects import Dialect

TOO_LARGE: Final = "MESSAGE_TOO_LARGE"
"""The refusal that clients answer by sending the records again in smaller requests."""
MOVED: Final = "NOT_LEADER_OR_FOLLOWER"
"""A refusal that clients answer by sending the request again as it is."""


class Pairs(StrEnum):
    """Which pairs of faults are tried."""

    NONE = "none"
    FEW = "few"
    ALL = "all"


def _refused(error: str) -> Callable[[OnWire, Dialect], Fault]:
    """Refuse the request with the record; kill the stage at its next such request."""
    return lambda at, _: _then_killed(Answer(at, error), at)


def _answer_lost(at: OnWire, _: Dialect) -> Fault:
    """Lose the answer and its connection; kill the stage at its next such request."""
    return _then_killed(Drop(replace(at, direction=Direction.RESPONSE)), at)


def _then_killed(first: Answer | Drop, again: OnWire) -> Twice:
    return Twice(first, _kill(replace(again, since=first.at)))


def _kill(at: OnWire) -> InjectableOnWire:
    """Return a death at a step on the wire: its class has other triggers, too."""
    return cast("InjectableOnWire", Kill(at, (at.role,), held=How.DISCARD))


def _killed_twice(at: OnWire, _: Dialect) -> Fault:
    """Kill the stage at a request about the record, and its successor at the next one about it."""
    return Twice(_kill(at), _kill(replace(at, occurrence=2)))


def _told_while_sending(at: OnWire, _: Dialect) -> Fault:
    """Tell the stage to end with the record on its way; kill it at its next such request."""
    return Terminate(at, replace(at, since=at))


def _told_while_reading(at: OnWire, dialect: Dialect) -> Fault:
    """Tell the stage to end as the record reaches it; kill it when it saves how far it is."""
    given = OnWire(at.role, *dialect.steps[Moment.DELIVERY])
    return Terminate(given, replace(at, since=given))


_REFUSED = "The {role}'s request with the record is refused by "
_NEXT = ", in the broker's name; the {role} is killed at its next such request."
_ENDS = "if it comes to one before it has ended."
SPLIT: Final = "refused-too-large-then-killed"
AGAIN: Final = "killed-twice-while-sending"
FEW: Final = (
    Point(SPLIT, WRITING, Moment.SEND, _refused(TOO_LARGE), f"{_REFUSED}{TOO_LARGE}{_NEXT}"),
    Point(
        "told-to-end-while-sending-then-killed",
        WRITING,
        Moment.SEND,
        _told_while_sending,
        "The {role} is told to end (SIGTERM) with the record on its way, and is killed at its "
        f"next request with records, {_ENDS}",
    ),
    Point(
        AGAIN,
        WRITING,
        Moment.SEND,
        _killed_twice,
        "The {role} is killed with the record in hand, starts again, and is killed with the same "
        "record in hand.",
    ),
    Point(
        "ack-lost-then-killed",
        WRITING,
        Moment.SEND,
        _answer_lost,
        "The broker has stored the record; its acknowledgement never reaches the {role}, and the "
        "connection is cut. The {role} is killed at its next request with records.",
    ),
    Point(
        "told-to-end-while-reading-then-killed",
        CONSUMING,
        Moment.POSITION,
        _told_while_reading,
        "The {role} is told to end (SIGTERM) as the record reaches it, and is killed when it next "
        f"asks to save its position, {_ENDS} The request never arrives.",
    ),
    Point(
        "killed-twice-behind-work",
        CONSUMING,
        Moment.POSITION,
        _killed_twice,
        "The {role} has asked to save its position after the record and is killed; the request "
        "never arrives. It starts again, and the same happens at the same record.",
    ),
    Point(
        "commit-answer-lost-then-killed",
        CONSUMING,
        Moment.POSITION,
        _answer_lost,
        "The position after the record is saved; the answer never reaches the {role}, and the "
        "connection is cut. The {role} is killed when it next asks to save its position.",
    ),
)
"""The pairs that show most."""
MORE: Final = (
    Point(
        "refused-as-moved-then-killed",
        WRITING,
        Moment.SEND,
        _refused(MOVED),
        f"{_REFUSED}{MOVED}{_NEXT}",
    ),
    Point(
        "killed-twice-before-ack",
        WRITING,
        Moment.SEND_ANSWER,
        _killed_twice,
        "The broker has stored the record; the {role} is killed before it reads the "
        "acknowledgement. It starts again, and the same happens at the same record.",
    ),
    Point(
        "told-to-end-while-reading-then-killed-when-saved",
        CONSUMING,
        Moment.POSITION_ANSWER,
        _told_while_reading,
        "The {role} is told to end (SIGTERM) as the record reaches it, and is killed when its next "
        f"position is saved, before it learns that, {_ENDS}",
    ),
    Point(
        "killed-twice-before-delivery",
        CONSUMING,
        Moment.DELIVERY,
        _killed_twice,
        "The record is on its way to the {role}, which is killed. It starts again, and the same "
        "happens at the same record.",
    ),
    Point(
        "commit-refused-then-killed",
        CONSUMING,
        Moment.POSITION,
        _refused("NOT_COORDINATOR"),
        "The {role} asks to save its position after the record, and is refused by NOT_COORDINATOR, "
        "in the broker's name; it is killed when it next asks to save its position.",
    ),
)
"""The other pairs."""
SENDS_AGAIN: Final = frozenset({AGAIN, "killed-twice-before-ack"})
"""Pairs whose second fault strikes only if the stage sends the record again after its death."""


@dataclass(frozen=True, slots=True)
class Paired:
    """The pairs that are asked for. ``units``: the most records in one request of each stage, as
    the dry run saw it; ``None``: there was no dry run yet.
    """

    which: Pairs = Pairs.NONE
    units: Mapping[str, int] | None = field(default=None)

    def points(self, dialect: Dialect) -> tuple[Point, ...]:
        """Return the pairs as failure points; none of a queue, whose errors are not known."""
        of = {Pairs.NONE: (), Pairs.FEW: FEW, Pairs.ALL: FEW + MORE}[self.which]
        return of if dialect.steps[Moment.SEND][0] is Api.PRODUCE else ()

    def reason(self, point: Point, role: Role, pipeline: Pipeline) -> str | None:
        """Say why the second fault of a pair could not strike, or return ``None``."""
        if point.id in SENDS_AGAIN and not forbids(pipeline.claims, Anomaly.LOST):
            return f"under {pipeline.claims} the {role} need not send the record again"
        if point.id == SPLIT and self.units is not None and self.units.get(role, 0) < 2:  # noqa: PLR2004
            return f"the {role} sent each record in a request of its own, which cannot be split"
        return None
