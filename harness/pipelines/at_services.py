"""The failure points of what a stage says to a service: its commits to PostgreSQL, or its turns to
any other server.

The dry run shows how many of them one record takes. Consecutive ones are tried, from the first one
after the target's delivery, which the wire holds until the stage has said what it has to say about
earlier records. The names must be there before the dry run, so each stage has :data:`MOST` names at
each service whose port it is given, and the dry run decides what each of them stands for.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Final

from harness.controls import OnWire
from harness.faults import Drop, Kill
from harness.model import events as kinds
from harness.model.writes import MOST, thinned
from harness.pipelines.braces import places
from harness.pipelines.dialects import Moment
from harness.pipelines.traffic import STEPS, ServiceTraffic, traffic_of
from harness.protocols.postgres.steps import Database
from harness.protocols.tcp.steps import Exchange
from harness.wire.rules import Direction, How

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from harness.model.history import History
    from harness.model.scenario import Fault, Role
    from harness.pipelines.declaration import Pipeline
    from harness.pipelines.traffic import DryRun
    from harness.wire.rules import StepName

AT_SERVICE: Final = "crash-at-service"
"""The common failure point of all kills before or behind what a stage says to a service."""
ANSWER_LOST: Final = "service-answer-lost"
MOST_LOST: Final = 2
"""How many answers of one service are lost to one stage, each in a cell of its own."""
_WORDS: Final = {
    Database.COMMIT: "COMMIT",
    Database.CONFIRMATION: "confirmation",
    Exchange.TURN: "turn",
}
_ORDINALS: Final = {1: "first", 2: "second", 3: "third"}


@dataclass(frozen=True, slots=True)
class ServicePoint:
    """A failure point of a stage at a service. ``reason``: why it does not apply, if so."""

    name: str
    point: str
    """:data:`AT_SERVICE` or :data:`ANSWER_LOST`."""
    fault: Fault
    because: str
    reason: str | None = None


def pairs_of(pipeline: Pipeline) -> tuple[tuple[Role, str], ...]:
    """Return each stage with each service whose port it is given. lostack puts the wire between
    these.
    """
    return tuple(
        (stage.known, service.name)
        for stage in pipeline.stages
        for service in pipeline.services
        if any(f"{service.name}.port" in places(word) for word in stage.words)
    )


def service_points(pipeline: Pipeline, seen: DryRun) -> Iterator[ServicePoint]:
    """Yield the failure points of all stages at all services. Before the dry run, every name may
    apply.
    """
    for role, service in pairs_of(pipeline):
        found = traffic_of(role, seen)
        reads = pipeline.reads(role)
        given = pipeline.dialect.steps[Moment.DELIVERY if reads else Moment.SEND]
        talk = _Talk(
            role,
            service,
            OnWire(role, *given),
            f"after it {'was given' if reads else 'has sent'} the record",
            None if found is None else found.said.get(service, ServiceTraffic()),
        )
        yield from talk.crashes()
        yield from talk.lost_answers()


def ways(step: StepName) -> tuple[Direction, ...]:
    """Return which frames a step has: nobody answers a confirmation."""
    return (Direction.REQUEST,) if step is Database.CONFIRMATION else tuple(Direction)


def is_spare(point: str, name: str) -> bool:
    """Return whether a name that stands for nothing is only left over. The first name of a stage at
    a service is not: it says why nothing is tried there.
    """
    return point == ANSWER_LOST or (point == AT_SERVICE and not name.endswith("-1"))


def service_traffic(history: History, target: str) -> dict[str, dict[str, ServiceTraffic]]:
    """Return what each stage said to each service since it was given (or sent) the target, or the
    first record behind it that came to it.
    """
    positions = {e.record: e.position for e in history.of(kinds.Offered)}
    frames = list(history.of(kinds.Frame))
    came = _came(history, {e.conn: str(e.role) for e in frames}, positions, target)
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for frame in frames:
        step = STEPS.get(str(frame.api))
        way = None if step is None else ways(step)[-1]
        answers = frame.dir == way and not frame.error
        if answers and (times := came.get(str(frame.role))):
            since = times.get(target, min(times.values()))
            counts[str(frame.role), str(frame.node)][str(frame.api)] += frame.t > since
    found: dict[str, dict[str, ServiceTraffic]] = defaultdict(dict)
    for (role, service), each in counts.items():
        found[role][service] = ServiceTraffic(dict(+each), len(came[role]))
    return dict(found)


def unseen(role: str, servers: Sequence[str]) -> str:
    """Say that nothing is tried of what a stage says to servers past the wire.

    >>> unseen("consumer", ["127.0.0.1:3306", "unix:/run/redis.sock"])
    'What the consumer says to 127.0.0.1:3306 and unix:/run/redis.sock is not tried: lostack tries
    only servers that it starts ([[service]]) and whose port it gives to the stage ({NAME.port}).'
    """
    *others, last = servers
    names = f"{', '.join(others)} and {last}" if others else last
    return (
        f"What the {role} says to {names} is not tried: lostack tries only servers that it starts "
        "([[service]]) and whose port it gives to the stage ({NAME.port})."
    )


def _came(
    history: History,
    roles: Mapping[int | None, str],
    positions: Mapping[str, int],
    target: str,
) -> Mapping[str, Mapping[str, int]]:
    """Return when each record from the target on was first given to a stage, or sent by a stage
    that is given none. ``roles``: by connection.
    """
    given, sent = defaultdict[str, dict[str, int]](dict), defaultdict[str, dict[str, int]](dict)
    for event in history.of(kinds.Fetched, kinds.Sent):
        if positions.get(event.record, 0) < positions.get(target, 0):
            continue
        if isinstance(event, kinds.Sent):
            conn = int(event.request.partition(":")[0])
            sent[roles.get(conn, "")].setdefault(event.record, event.t)
        elif event.reached:
            given[roles.get(event.conn, "")].setdefault(event.record, event.t)
    return {**sent, **given}


@dataclass(frozen=True, slots=True)
class _Talk:
    """A stage and a service. ``since``: the frame from which steps count, and ``behind`` in words;
    ``said``: what the dry run has shown.
    """

    role: Role
    service: str
    since: OnWire
    behind: str
    said: ServiceTraffic | None

    def crashes(self) -> Iterator[ServicePoint]:
        """Yield the points at which the stage is killed."""
        role, service, said = self.role, self.service, self.said
        step, tried = self._known
        sides = thinned(list(product(range(1, tried + 1), ways(step))), MOST)
        for number in range(1, MOST + 1):
            if known := number <= len(sides):
                nth, way = sides[number - 1]
                words = self._killed(step, nth, way)
            else:
                nth, way = 1, Direction.REQUEST
                words = (
                    f"The {role} is killed before or behind something that it says to the "
                    f"{service} {self.behind}."
                )
            yield ServicePoint(
                f"{role}-crash-at-{service}-{number}",
                AT_SERVICE,
                Kill(self._at(step, nth, way), (role,), held=How.DISCARD),
                words,
                None if said is None or known else self._why_not(said, len(sides)),
            )

    def lost_answers(self) -> Iterator[ServicePoint]:
        """Yield the points at which an answer never reaches the stage, which lives on."""
        role, service, said = self.role, self.service, self.said
        step, tried = self._known
        for number in range(1, MOST_LOST + 1):
            known = number <= tried and Direction.RESPONSE in ways(step)
            what = f"its {_nth(number)} {_WORDS[step]}" if known else "something that it says"
            yield ServicePoint(
                f"{role}-{service}-answer-lost-{number}",
                ANSWER_LOST,
                Drop(self._at(step, number, Direction.RESPONSE)),
                f"The {service} has answered {what} {self.behind}; the answer never reaches the "
                f"{role}, and the connection is cut.",
                None if said is None or known else self._why_not(said, tried),
            )

    @property
    def _known(self) -> tuple[StepName, int]:
        """What is tried, and how many of it."""
        said = self.said or ServiceTraffic()
        return said.step or Exchange.TURN, said.tried

    def _at(self, step: StepName, nth: int, way: Direction) -> OnWire:
        return OnWire(self.role, step, way, occurrence=nth, since=self.since, node=self.service)

    def _killed(self, step: StepName, nth: int, way: Direction) -> str:
        """Say what happens at a point."""
        place = f"its {_nth(nth)} {_WORDS[step]} to the {self.service} {self.behind}"
        if way is Direction.REQUEST:
            return f"The {self.role} is killed right before {place}: nothing of it arrives."
        return (
            f"The {self.role} is killed right behind {place}: that is answered, and the "
            f"{self.role} does not learn it."
        )

    def _why_not(self, said: ServiceTraffic, found: int) -> str:
        role, service = self.role, self.service
        if found:
            return f"the dry run found only {found} points at what the {role} says to the {service}"
        if said.step is not None:
            count = said.counts[said.step.label]
            return (
                f"the dry run saw too few {_WORDS[said.step]}s of the {role} to the {service} to "
                f"choose one ({count})"
            )
        return f"the dry run saw nothing that the {role} says to the {service} {self.behind}"


def _nth(number: int) -> str:
    return _ORDINALS.get(number, f"{number}th")
