"""The failure points at which more than one record is in hand: two requests of a client under way
to one partition, or a backlog before its reader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.controls import OnWire
from harness.faults import InBacklog, InBurst
from harness.faults.burst import REFUSAL
from harness.model.bursts import Strike
from harness.model.semantics import Anomaly, forbids
from harness.pipelines.dialects import Moment
from harness.pipelines.points import WRITING, Point
from harness.pipelines.stages import AT_END, CONSUMING

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.model.scenario import Fault, Role
    from harness.pipelines.declaration import Pipeline
    from harness.pipelines.dialects import Dialect

LONGER_S: Final = 3.0
"""How much longer a point takes, in seconds, in which requests overlap or records gather."""


def _struck(strike: Strike) -> Callable[[OnWire, Dialect], Fault]:
    return lambda at, _: InBurst(at, strike)


def _in_backlog(at: OnWire, _: Dialect) -> Fault:
    return InBacklog(at)


def _one_broker(pipeline: Pipeline, role: Role) -> str | None:
    del role
    if pipeline.brokers > 1:
        return "with several brokers, another takes over: see the points of leaders that die"
    return None


def sends_again(pipeline: Pipeline, role: Role) -> str | None:
    """Say why a stage may not send again what was refused."""
    if forbids(pipeline.claims, Anomaly.LOST):
        return None
    return f"under {pipeline.claims} the {role} need not send the record again"


def _reads_first(pipeline: Pipeline, role: Role) -> str | None:
    """Say why no backlog can be made for a stage."""
    stage = pipeline.stage(role)
    if stage is not None and stage.begins == AT_END:
        return f'the {role} declares begins = "{AT_END}": what was there before is not its own'
    if role != next((each.known for each in pipeline.stages if each.reads), None):
        return f"another stage reads {pipeline.topic} before the {role}"
    return None


BURSTS: Final = (
    Point(
        "producer-crash-in-a-burst",
        WRITING,
        Moment.SEND_ANSWER,
        _struck(Strike.SENDER_DIES),
        "The {role} has two requests under way to one partition, and the broker was sent both; "
        "the {role} is killed before it reads an answer.",
        logs=True,
    ),
    Point(
        "ack-lost-in-a-burst",
        WRITING,
        Moment.SEND_ANSWER,
        _struck(Strike.ANSWERS_LOST),
        "The {role} has two requests under way to one partition, and the broker was sent both; "
        "no answer reaches the {role}, and the connection is cut.",
        logs=True,
    ),
    Point(
        "requests-lost-in-a-burst",
        WRITING,
        Moment.SEND,
        _struck(Strike.REQUESTS_LOST),
        "The {role} has two requests under way to one partition; neither reaches the broker, and "
        "the connection is cut.",
        logs=True,
    ),
    Point(
        "request-refused-in-a-burst",
        WRITING,
        Moment.SEND,
        _struck(Strike.FIRST_REFUSED),
        "The {role} has two requests under way to one partition; the first is refused by "
        f"{REFUSAL}, in the broker's name, and the broker has the second.",
        logs=True,
    ),
    Point(
        "requests-lost-then-refused-in-a-burst",
        WRITING,
        Moment.SEND,
        _struck(Strike.LOST_THEN_REFUSED),
        "The {role} has two requests under way to one partition; neither reaches the broker, and "
        "the connection is cut. The {role} sends both again; the first is refused by "
        f"{REFUSAL}, in the broker's name.",
        logs=True,
        why_not=sends_again,
    ),
    Point(
        "broker-crash-in-a-burst",
        WRITING,
        Moment.SEND_ANSWER,
        _struck(Strike.BROKER_DIES),
        "The {role} has two requests under way to one partition; the broker has stored the first "
        "and is killed before it answers; it comes back.",
        logs=True,
        why_not=_one_broker,
    ),
    Point(
        "commit-lost-in-a-backlog",
        CONSUMING,
        Moment.POSITION,
        _in_backlog,
        "The {role} is started when many records are there, and is given the record in the middle "
        "of a batch; it has asked to save its position behind the record and is killed; the "
        "request never arrives.",
        logs=True,
        why_not=_reads_first,
    ),
    Point(
        "commit-ack-lost-in-a-backlog",
        CONSUMING,
        Moment.POSITION_ANSWER,
        _in_backlog,
        "The {role} is started when many records are there, and is given the record in the middle "
        "of a batch; the position behind the record is saved, and the {role} is killed before it "
        "learns that.",
        logs=True,
        why_not=_reads_first,
    ),
)


def rehearsing(role: Role, dialect: Dialect) -> InBurst:
    """Return what shows whether the requests of a stage overlap: an answer is late."""
    return InBurst(OnWire(role, *dialect.steps[Moment.SEND_ANSWER]), Strike.NOTHING)
