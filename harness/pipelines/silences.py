"""The failure points at which a peer falls silent on a connection that lives.

Each waits for a time-out of the client's, so they are long: ``check --all`` runs them, as it does
all that take long.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from harness.controls import OnWire
from harness.faults import Kill, Silent, TakenOver, TopicAppears, TopicMadeAnew, Twice
from harness.pipelines.dialects import Moment
from harness.pipelines.points import WRITING, Point
from harness.pipelines.stages import CONSUMING
from harness.proofs.silence import SILENCE_S
from harness.wire.rules import How

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from harness.model.scenario import Fault, Role, Scenario
    from harness.pipelines.dialects import Dialect

LONG_S: Final = 5.0
"""A point that waits for longer is run only where that is asked for."""
WAITS_S: Final = 35.0
"""How long most clients wait for an answer, with what they do then: 30 s is the usual setting."""


def _silent(at: OnWire, _: Dialect) -> Fault:
    return Silent(at)


def _silent_when_reading(at: OnWire, dialect: Dialect) -> Fault:
    """Kill the stage before it receives the record; when it starts again, this answer never
    comes.
    """
    given = OnWire(at.role, *dialect.steps[Moment.DELIVERY])
    killed: Any = Kill(given, (at.role,), held=How.DISCARD)  # at a frame: it is on the wire
    return Twice(killed, Silent(replace(at, since=given)))


def _long(
    name: str,
    roles: tuple[Role, ...],
    moment: Moment,
    because: str,
    act: Callable[[OnWire, Dialect], Fault] = _silent,
) -> Point:
    return Point(name, roles, moment, act, because, waits_s=WAITS_S, logs=True)


SILENCES: Final = (
    _long(
        "request-silent",
        WRITING,
        Moment.SEND,
        "The {role}'s request never reaches the broker, and nothing says so: the connection "
        "lives until the {role} gives it up.",
    ),
    _long(
        "ack-silent",
        WRITING,
        Moment.SEND_ANSWER,
        "The broker has stored the record, and says nothing more on a connection that lives; "
        "if the {role} keeps it open, the acknowledgement comes when nobody waits for it.",
    ),
    _long(
        "position-answer-silent",
        CONSUMING,
        Moment.SAVED_POSITIONS,
        "The {role} is killed before it is given the record, and starts again; it asks for its "
        "saved positions, and has no answer, on a connection that lives.",
        _silent_when_reading,
    ),
    _long(
        "commit-ack-silent",
        CONSUMING,
        Moment.POSITION_ANSWER,
        "The position after the record is saved, and the broker says nothing more on a "
        "connection that lives; a late answer comes when nobody waits for it.",
    ),
    _long(
        "transaction-commit-ack-silent",
        WRITING,
        Moment.COMMIT_ANSWER,
        "The record's transaction is ended, and the broker says nothing more on a connection "
        "that lives; a late answer comes when nobody waits for it.",
    ),
)


def is_long(point: Scenario) -> bool:
    """Say whether a failure point takes long, because a client's time-out or a broker does."""
    return point.waits_s > LONG_S


def priced(point: Scenario) -> str:
    """Say how long a point takes.

    >>> from types import SimpleNamespace
    >>> priced(SimpleNamespace(waits_s=35.0, fault=None))
    'about 35 s, at most 75 s'
    """
    if isinstance(point.fault, TakenOver | TopicAppears | TopicMadeAnew):
        return f"about {point.waits_s:g} s longer"
    return f"about {point.waits_s:g} s, at most {SILENCE_S:g} s"


def left_out(points: Sequence[Scenario]) -> Iterator[str]:
    """Yield a line for points that are not run because they are long, with their price."""
    stopped = [point for point in points if isinstance(point.fault, TakenOver)]
    anew = [point for point in points if isinstance(point.fault, TopicAppears | TopicMadeAnew)]
    silent = [point for point in points if point not in stopped and point not in anew]
    if silent:
        yield (
            f"not run without --all: {_names(silent)}; each waits for its client's request "
            f"time-out ({priced(silent[0])})"
        )
    if anew:
        yield (
            f"not run without --all: {_names(anew)}; in each, the topic is made anew, or late "
            f"({priced(anew[0])})"
        )
    if stopped:
        seconds = sum(point.waits_s for point in stopped)
        yield (
            f"not run without --all: {_names(stopped)}; in each, brokers end and come back "
            f"(about {seconds:g} s longer in all)"
        )


def _names(points: Sequence[Scenario]) -> str:
    return ", ".join(point.id for point in points)
