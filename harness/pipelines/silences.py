"""The failure points at which a peer falls silent on a connection that lives.

Each waits for a time-out of the client's, so they are long: ``check --all`` runs them, as it does
all that take long.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from harness.controls import OnWire
from harness.faults import (
    Answer,
    Frozen,
    InBacklog,
    InBurst,
    InTurn,
    Kill,
    PartedFromWork,
    Silent,
    TakenOver,
    TopicAppears,
    TopicMadeAnew,
    Torn,
    Twice,
)
from harness.pipelines import in_turn
from harness.pipelines.bursts import LONGER_S, sends_again
from harness.pipelines.clusters import needs_all
from harness.pipelines.dialects import Moment
from harness.pipelines.pairs import MOVED
from harness.pipelines.points import WRITING, Point
from harness.pipelines.stages import CONSUMING
from harness.proofs.silence import SILENCE_S
from harness.wire.rules import How

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from harness.model.scenario import Fault, Role, Scenario
    from harness.pipelines.declaration import Pipeline
    from harness.pipelines.dialects import Dialect

LONG_S: Final = 5.0
"""A point that waits for longer is run only where that is asked for."""
WAITS_S: Final = 35.0
"""How long most clients wait for an answer, with what they do then: 30 s is the usual setting."""


RETURNS_S: Final = 4.0
"""How much longer a cell takes in which a broker dies and comes back (seconds)."""
LONGER: Final[dict[tuple[type, ...], str]] = {
    (TopicAppears, TopicMadeAnew): "the topic is made anew, or late",
    (InBacklog, InBurst): "requests overlap or records gather",
    (InTurn,): "several records are struck, one after the other",
    (PartedFromWork,): "work is held until its partition is another's",
    (TakenOver,): "brokers end and come back",
}
"""What happens at the points that are long for another reason than a client's time-out, by their
faults.
"""


def _silent(at: OnWire, _: Dialect) -> Fault:
    return Silent(at)


def _torn(at: OnWire, _: Dialect) -> Fault:
    return Torn(at)


def _torn_again(at: OnWire, _: Dialect) -> Fault:
    """Refuse the request, so that it is sent again, and tear that: its record has waited longer
    than its request, and may expire first.
    """
    return Twice(Answer(at, MOVED), Torn(replace(at, occurrence=2)))


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


def _frozen(at: OnWire, _: Dialect) -> Fault:
    return Frozen(at)


def _one_broker(pipeline: Pipeline, _: Role) -> str | None:
    """Say why no broker is frozen."""
    if pipeline.brokers == 1:
        return None
    return "where one of several brokers stands still another takes over, as where one is killed"


def _frozen_point(name: str, roles: tuple[Role, ...], moment: Moment, because: str) -> Point:
    return replace(_long(name, roles, moment, because, _frozen), why_not=_one_broker)


SILENCES: Final = (
    _long(
        "request-silent",
        WRITING,
        Moment.SEND,
        "The {role}'s request never reaches the broker, and nothing says so: the connection "
        "lives until the {role} gives it up.",
    ),
    _long(
        "send-torn",
        WRITING,
        Moment.SEND,
        "The broker takes half of the {role}'s request and reads nothing more of its connection. "
        "When the {role} has given the request up, the broker reads on.",
        _torn,
    ),
    replace(
        _long(
            "send-again-torn",
            WRITING,
            Moment.SEND,
            f"The {{role}}'s request is refused ({MOVED}), and it sends it again; the broker takes "
            "half of that and reads nothing more of its connection. When the {role} has given the "
            "request up, the broker reads on.",
            _torn_again,
        ),
        why_not=sends_again,
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
    _frozen_point(
        "broker-frozen-while-sending",
        WRITING,
        Moment.SEND,
        "The broker stands still (SIGSTOP) with the {role}'s request on its way, until the {role} "
        "has given it up; then it goes on (SIGCONT), and does what it was asked.",
    ),
    _frozen_point(
        "broker-frozen-before-position",
        CONSUMING,
        Moment.POSITION,
        "The broker stands still (SIGSTOP) with the {role}'s request to save its position after "
        "the record on its way, until the {role} has given it up; then it goes on (SIGCONT).",
    ),
)


def is_long(point: Scenario) -> bool:
    """Say whether a failure point is left to ``--all``: it takes long, because a client's time-out
    or a broker does, or it needs a rehearsal of its own.
    """
    return point.waits_s > LONG_S or isinstance(point.fault, InBacklog | InBurst | InTurn)


def longer_s(point: Scenario) -> float:
    """Return how many seconds longer a point takes than a cell without a fault."""
    if isinstance(point.fault, InBacklog | InBurst):
        return LONGER_S
    if isinstance(point.fault, InTurn):
        return in_turn.LONGER_S
    return max(point.waits_s, RETURNS_S if needs_all(point.fault) else 0.0)


def priced(point: Scenario) -> str:
    """Say how long a point takes."""
    about = f"about {longer_s(point):g} s"
    return f"{about}, at most {SILENCE_S:g} s" if _waits_for_client(point) else f"{about} longer"


def price(
    points: Sequence[Scenario],
    cell_s: float,
    jobs: int,
    rests_s: Callable[[Scenario], float] = lambda _: 0.0,
) -> str:
    """Say how long all points take together. ``cell_s``: how long the cell without a fault took, in
    seconds, without its rest; ``rests_s``: how long that of a point is.
    """
    more = sum(longer_s(point) + rests_s(point) for point in points)
    minutes = (len(points) * cell_s + more) / jobs / 60
    about = f"{minutes:.0f}" if minutes >= 2 else f"{minutes:.1f}"  # noqa: PLR2004 - two minutes
    longer = f", and {more:.0f} s longer in all" if more else ""
    cells = "1 cell" if len(points) == 1 else f"{len(points)} cells"
    return f"about {about} min: {cells} of {cell_s:.2g} s{longer}; {jobs} at once"


def left_out(points: Sequence[Scenario]) -> Iterator[str]:
    """Yield a line for points that are not run because they are long, with their price."""
    waiting = [point for point in points if _waits_for_client(point)]
    if waiting:
        yield (
            f"not run without --all: {_names(waiting)}; each waits for its client's request "
            f"time-out ({priced(waiting[0])})"
        )
    for faults, what in LONGER.items():
        found = [point for point in points if isinstance(point.fault, faults)]
        if found:
            each = {priced(point) for point in found}
            total = f"about {sum(map(longer_s, found)):g} s longer in all"
            cost = each.pop() if len(each) == 1 else total
            yield f"not run without --all: {_names(found)}; in each, {what} ({cost})"


def _waits_for_client(point: Scenario) -> bool:
    return not any(isinstance(point.fault, faults) for faults in LONGER)


def _names(points: Sequence[Scenario]) -> str:
    return ", ".join(point.id for point in points)
