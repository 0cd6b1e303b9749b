"""The failure points that pipelines can have on any system: what happens to a stage, and at which
moment of a record.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from harness.controls import OnWire
from harness.faults import Drop, EndInput, Kill, Pause, Terminate, Unanswered
from harness.model.scenario import Role
from harness.pipelines.dialects import Moment
from harness.pipelines.stages import CONSUMING
from harness.wire.rules import Direction, How

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.model.scenario import Edge, Fault
    from harness.pipelines.declaration import Pipeline
    from harness.pipelines.dialects import Dialect
    from harness.wire.rules import StepName

RESPONSE = Direction.RESPONSE


@dataclass(frozen=True, slots=True)
class Point:
    """A failure point: a fault and its moment. ``{role}`` in ``because`` stands for the stage's
    role.
    """

    id: str
    roles: tuple[Role, ...]
    """Whose point it is. A consumer has a sender's, too, if it sends records or ends transactions;
    empty: only such a consumer.
    """
    moment: Moment
    act: Callable[[OnWire, Dialect], Fault]
    because: str
    edge: Edge | None = None
    """Whether it strikes the first or the last record of the run."""
    waits_s: float = 0.0
    """How long its fault usually waits for a time-out of a client's, or for brokers that come back,
    in seconds.
    """
    logs: bool = False
    """Whether only a log has it, and no queue."""
    why_not: Callable[[Pipeline, Role], str | None] = lambda _pipeline, _role: None
    """Says why a pipeline's stage does not have it; ``None``: it has."""
    asks: tuple[StepName, ...] = ()
    """Requests of which the dry run must have seen one, besides its moment's."""

    def fault(self, role: Role, dialect: Dialect, step: str | None = None) -> Fault:
        """Return the fault for a stage of this role. ``step``: the label at which the dry run saw
        the moment, if the protocol has several steps for it.
        """
        return self.act(OnWire(role, *dialect.at(self.moment, step)), dialect)


def _kill(at: OnWire, _: Dialect) -> Fault:
    return Kill(at, (at.role,), held=How.DISCARD)


def _kill_at_the_next(at: OnWire, _: Dialect) -> Fault:
    """Kill the stage at its next such request after an answer carried the record."""
    return Kill(replace(at, since=replace(at, direction=RESPONSE)), (at.role,), held=How.DISCARD)


def _kill_broker(at: OnWire, _: Dialect) -> Fault:
    return Kill(at, (Role.BROKER,), held=How.DISCARD)


def _drop(at: OnWire, _: Dialect) -> Fault:
    return Drop(at)


def _terminate(at: OnWire, _: Dialect) -> Fault:
    return Terminate(at)


def _end_input(at: OnWire, _: Dialect) -> Fault:
    return EndInput(at)


def _lose_when_reading(at: OnWire, dialect: Dialect) -> Fault:
    """Kill the stage before it receives the record; when it starts again, lose this answer."""
    return Unanswered(OnWire(at.role, *dialect.steps[Moment.DELIVERY]), at.api)


def _lose_when_sending(at: OnWire, dialect: Dialect) -> Fault:
    """Kill the stage while it works on the record; when it starts again, lose this answer."""
    return Unanswered(OnWire(at.role, *dialect.steps[Moment.SEND]), at.api)


def _pause(at: OnWire, _: Dialect) -> Fault:
    return Pause(at, told=True)


INPUT_ENDS = "input-ends-while-sending"
WRITING = (Role.PRODUCER, Role.PROCESSOR)
POINTS = (
    Point(
        "producer-crash-before-send",
        WRITING,
        Moment.SEND,
        _kill,
        "The {role} has the record in hand; its request has not left when it is killed.",
    ),
    Point(
        "producer-crash-before-ack",
        WRITING,
        Moment.SEND_ANSWER,
        _kill,
        (
            "The broker has stored the record; the {role} is killed before it reads the "
            "acknowledgement."
        ),
    ),
    Point(
        "request-lost",
        WRITING,
        Moment.SEND,
        _drop,
        "The {role}'s request never reaches the broker, and the connection is cut.",
    ),
    Point(
        "ack-lost",
        WRITING,
        Moment.SEND_ANSWER,
        _drop,
        (
            "The broker has stored the record; its acknowledgement never reaches the {role}, and "
            "the connection is cut."
        ),
    ),
    Point(
        "broker-crash-before-append",
        WRITING,
        Moment.SEND,
        _kill_broker,
        "The broker is killed before it sees the {role}'s request, and is started again.",
    ),
    Point(
        "broker-crash-before-ack",
        WRITING,
        Moment.SEND_ANSWER,
        _kill_broker,
        (
            "The broker has stored the record and is killed before it answers the {role}; it comes "
            "back."
        ),
    ),
    Point(
        "delivery-lost",
        CONSUMING,
        Moment.DELIVERY,
        _drop,
        "The record is on its way to the {role} and never arrives: the connection is cut.",
    ),
    Point(
        "consumer-crash-before-delivery",
        CONSUMING,
        Moment.DELIVERY,
        _kill,
        (
            "The record is on its way to the {role}, which is killed with all records that it is "
            "working on."
        ),
    ),
    Point(
        "consumer-crash-at-next-fetch",
        CONSUMING,
        Moment.NEXT_FETCH,
        _kill_at_the_next,
        "The {role} has been given the record, and is killed when it asks for more. (Some "
        "clients ask before the record is worked on, some after it.)",
    ),
    Point(
        "position-answer-lost",
        CONSUMING,
        Moment.SAVED_POSITIONS,
        _lose_when_reading,
        "The {role} is killed before it is given the record, and starts again; it asks for its "
        "saved positions, and the answer is lost with its connection.",
    ),
    Point(
        "join-answer-lost",
        CONSUMING,
        Moment.JOINED,
        _lose_when_reading,
        "The {role} is killed before it is given the record, and starts again; it joins its "
        "group, and the answer is lost with its connection.",
    ),
    Point(
        "producer-id-answer-lost",
        WRITING,
        Moment.PRODUCER_ID,
        _lose_when_sending,
        "The {role} is killed with the record in hand, and starts again; it asks for its "
        "producer id, and the answer is lost with its connection.",
    ),
    Point(
        "commit-lost",
        CONSUMING,
        Moment.POSITION,
        _kill,
        (
            "The {role} has asked to save its position after the record and is killed; the request "
            "never arrives."
        ),
    ),
    Point(
        "commit-ack-lost",
        CONSUMING,
        Moment.POSITION_ANSWER,
        _kill,
        "The position after the record is saved, and the {role} is killed before it learns that.",
    ),
    Point(
        "broker-crash-before-position",
        CONSUMING,
        Moment.POSITION,
        _kill_broker,
        "The broker is killed before it has stored the {role}'s position, and comes back.",
    ),
    Point(
        "acknowledgement-lost",
        CONSUMING,
        Moment.ACKNOWLEDGEMENT,
        _kill,
        "The {role} has acknowledged the record and is killed; the acknowledgement never arrives.",
    ),
    Point(
        "acknowledgement-answer-lost",
        CONSUMING,
        Moment.ACKNOWLEDGEMENT_ANSWER,
        _kill,
        "The record is acknowledged, and the {role} is killed before it learns that.",
    ),
    Point(
        "broker-crash-before-acknowledgement",
        CONSUMING,
        Moment.ACKNOWLEDGEMENT,
        _kill_broker,
        "The broker is killed before it has seen the {role}'s acknowledgement, and comes back.",
    ),
    Point(
        "told-to-end-while-sending",
        WRITING,
        Moment.SEND,
        _terminate,
        "The {role} is told to end (SIGTERM) with the record on its way, as by a rolling deploy; "
        "nothing else is done to it. It shuts down in its own way, and is started again.",
    ),
    Point(
        "told-to-end-while-reading",
        CONSUMING,
        Moment.DELIVERY,
        _terminate,
        "The {role} is told to end (SIGTERM) as the record reaches it, as by a rolling deploy; "
        "it shuts down in its own way, and is started again.",
    ),
    Point(
        INPUT_ENDS,
        (Role.PRODUCER,),
        Moment.SEND,
        _end_input,
        "The {role}'s request is lost and the connection cut, while all other records and the "
        "end of the input reach its standard input: it still has unsent records when it ends.",
    ),
    Point(
        "transaction-crash-before-commit",
        WRITING,
        Moment.COMMIT,
        _kill,
        (
            "The {role} has asked to end the record's transaction and is killed; the request never "
            "arrives."
        ),
    ),
    Point(
        "transaction-crash-before-commit-ack",
        WRITING,
        Moment.COMMIT_ANSWER,
        _kill,
        "The record's transaction is ended, and the {role} is killed before it learns that.",
    ),
    Point(
        "session-commit-lost",
        CONSUMING,
        Moment.SESSION_COMMIT,
        _kill,
        "The {role} has acknowledged the record in a transaction, has asked to commit it, and is "
        "killed; the request never arrives.",
    ),
    Point(
        "session-commit-answer-lost",
        CONSUMING,
        Moment.SESSION_COMMIT_ANSWER,
        _kill,
        "The transaction in which the {role} acknowledged the record is committed, and the {role} "
        "is killed before it learns that.",
    ),
    Point(
        "session-commit-in-doubt",
        CONSUMING,
        Moment.SESSION_COMMIT_ANSWER,
        _drop,
        "The transaction in which the {role} acknowledged the record is committed; the answer "
        "never reaches the {role}, and the connection is cut.",
    ),
    Point(
        "broker-crash-before-session-commit",
        CONSUMING,
        Moment.SESSION_COMMIT,
        _kill_broker,
        "The broker is killed before it has seen that the {role} commits the transaction in which "
        "it acknowledged the record, and comes back.",
    ),
    Point(
        "broker-crash-before-session-commit-answer",
        CONSUMING,
        Moment.SESSION_COMMIT_ANSWER,
        _kill_broker,
        "The broker has committed the transaction in which the {role} acknowledged the record, "
        "and is killed before it answers; it comes back.",
    ),
    Point(
        "zombie-processor",
        (Role.PROCESSOR,),
        Moment.SEND_ANSWER,
        _pause,
        "A process of the {role} is stopped with the record's result sent; the group removes it "
        "and another one takes over; then it is woken, learns that, and goes on.",
    ),
    Point(
        "zombie-consumer",
        (Role.CONSUMER,),
        Moment.POSITION,
        _pause,
        "A process of the {role} is stopped when it has asked to save its position after the "
        "record; the group removes it and another one takes over; then it is woken, learns that, "
        "and goes on.",
    ),
)
