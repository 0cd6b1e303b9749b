"""The cells of a declared pipeline: one for each failure point that applies to it, and the reasons
for those that do not.
"""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from harness.controls import InProgram, OnWire
from harness.faults import (
    Kill,
    NoFault,
    PartitionFilled,
    Pause,
    RetentionPasses,
    Stall,
    StartLate,
    TakenOver,
    Twice,
)
from harness.model import pipeline as core
from harness.model.cell import Cell, Load, make_load
from harness.model.identity import Identity
from harness.model.prediction import Permitted, Prediction, Zero
from harness.model.scenario import Deployment, NotApplicable, Predicted, Role, Scenario
from harness.model.secrets import masked_settings
from harness.model.semantics import Anomaly, Guarantee, forbids
from harness.model.states import Hop
from harness.pipelines.aggregates import Of, amounts, spread
from harness.pipelines.at_services import is_spare, service_points
from harness.pipelines.braces import fill
from harness.pipelines.clusters import CLUSTERS, OTHER_CLUSTERS, needs_all, on_cluster
from harness.pipelines.declaration import OutputKind, RepeatedIdError
from harness.pipelines.dialects import LINES, Moment
from harness.pipelines.firsts import FIRSTS, of_readers
from harness.pipelines.inputs import InputKind
from harness.pipelines.overtaking import learnt_of, overtaking_points
from harness.pipelines.pairs import Paired
from harness.pipelines.points import INPUT_ENDS, POINTS, WRITING, Point
from harness.pipelines.rebalances import OTHER_REBALANCES, REBALANCES
from harness.pipelines.refusals import Refusal
from harness.pipelines.refusing import DeclarationError
from harness.pipelines.shares import SENDING, aimed, at_edge, middle, share_of
from harness.pipelines.silences import SILENCES
from harness.pipelines.writes import AT_WRITE, UNWATCHED, write_points
from harness.wire.rules import Direction, How, StepName

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from harness.model.record import Record
    from harness.model.rhythm import Rhythm
    from harness.model.scenario import Fault
    from harness.pipelines.at_services import Said
    from harness.pipelines.declaration import Pipeline
    from harness.pipelines.dialects import Dialect
    from harness.pipelines.firsts import OfReader
    from harness.pipelines.overtaking import Overtaking
    from harness.pipelines.programs import Service
    from harness.pipelines.shares import Share
    from harness.pipelines.writes import Written

SYSTEM = "declared"
LAST_WORD = "z"
"""The last character of a token. A token that was cut short lacks it, and is not recognised."""
REQUEST, RESPONSE = Direction.REQUEST, Direction.RESPONSE


@dataclass(frozen=True, slots=True)
class Theirs:
    """The settings of a user's pipeline: its declaration. Implements
    :class:`harness.model.pipeline.Settings`.
    """

    unit: int = 1
    patience_s: float = 60.0
    """As long as clients try by themselves, or programs let them."""

    def logs(self, pipeline: core.Pipeline) -> Mapping[str, int]:
        """Return the partitions of each log, as the declaration gives them."""
        del pipeline
        return {}

    def check(self, pipeline: core.Pipeline, *, clustered: bool) -> None:
        """Accept everything: the settings are the user's."""


@dataclass(frozen=True, slots=True)
class DeclaredCell(Cell):
    """A cell: one failure point of one declared pipeline."""

    declared: Pipeline
    brief: bool = dataclasses.field(default=False, compare=False)
    """Whether this run need not wait for late results, because another run without a fault does."""
    among: frozenset[int] | None = dataclasses.field(default=None, compare=False)
    """The positions of the records from which the target is drawn; ``None``: any."""

    @property
    def pipeline(self) -> str:
        """The pipeline's declared name."""
        return self.declared.name

    @property
    def identity(self) -> Identity:
        """Where lostack finds a record's id in a message or a result."""
        return self.declared.id or Identity(rf"{self.key}\.(k\d+-\d+)\.{LAST_WORD}")

    def saved_settings(self) -> dict[str, Any]:
        """Return the declaration, without its secrets."""
        plain: dict[str, Any] = masked_settings(dataclasses.asdict(self.declared))
        return plain | {
            "directory": str(self.declared.directory),
            "id": dataclasses.asdict(self.identity),
        }

    def logs(self) -> dict[str, int]:
        """Return the number of partitions of each log that is read at the end. All topics have the
        same.
        """
        if not self.declared.dialect.logs:
            return {}
        hops = {
            Hop.TOPIC: True,
            Hop.SINK: self.declared.output.kind is OutputKind.TOPIC,
            Hop.ASIDE: bool(self.declared.dead_letters),
        }
        return {str(hop): self.declared.partitions for hop, there in hops.items() if there}

    def line(self, record: Record) -> str:
        """Return the line that offers a record. The record's id is afterwards found in
        this line.
        """
        values = {"id": self._token(record), "key": record.key, "position": record.position}
        if self.sums:
            values["amount"] = self._amounts()[record.id]
        return fill(self.declared.input.line, values)

    @property
    def sums(self) -> bool:
        """Whether the pipeline's totals show how often each record was counted."""
        return self.declared.aggregate is not None and "{amount}" in self.declared.input.line

    @property
    def ordered(self) -> bool:
        """Whether the pipeline claims that the records of a key are recorded in their order."""
        return bool(self.declared.order)

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """The session guarantees that the pipeline claims."""
        return tuple(map(Guarantee, self.declared.guarantees))

    def totals(self) -> dict[str, dict[str, int]]:
        """Return what each record adds to a total, by key and record id. The key of a total of all
        records is ``""``.

        Raises:
            TypeError: the pipeline has no ``[aggregate]``.
        """
        aggregate, found = self.declared.aggregate, defaultdict[str, dict[str, int]](dict)
        if aggregate is None:
            raise TypeError(f"{self.declared.name} has no [aggregate]")
        own = self._amounts() if self.sums else {}
        for record in self._drawn().records:
            adds = own.get(record.id, record.position) if aggregate.of is Of.SUM else 1
            found[record.key if aggregate.keyed else ""][self._found(record)] = adds
        return dict(found)

    def _amounts(self) -> dict[str, int]:
        return amounts(self._drawn().records)

    def lines(self) -> dict[str, str]:
        """Return the line of each record by its id, in the order of the source."""
        return {self._found(record): self.line(record) for record in self._drawn().records}

    def load(self) -> Load:
        """Return the records, named by the id that is found in their lines, and the target.

        Raises:
            DeclarationError: no id is found in a line.
            RepeatedIdError: several lines have the same id.
        """
        drawn = self._drawn()
        records = tuple(
            replace(record, id=self._found(record), key=self._key(record))
            for record in drawn.records
        )
        [(found, count)] = Counter(record.id for record in records).most_common(1)
        if count > 1:
            lines = " and ".join(
                [self.line(record) for record in drawn.records if self._found(record) == found][:2]
            )
            raise RepeatedIdError(
                f"void: the input has the id {found!r} {count} times, as in {lines}: put a "
                "text that differs from record to record ({id} or {position}) into line, and let [id] find it"  # noqa: E501
            )
        return replace(drawn, records=records, target=records[drawn.target.position - 1])

    def _drawn(self) -> Load:
        drawn = self._made(self.scenario.id if self.among is None else NO_FAULT)
        if self.scenario.edge is not None:
            drawn = at_edge(drawn, self.scenario.edge, self.among)
        elif self.among is not None:
            drawn = aimed(drawn, self.among, f"{self.seed}/{self.scenario.id}")
        if not self.sums:
            return drawn
        keys = spread(drawn.records)
        records = tuple(replace(record, key=keys[record.id]) for record in drawn.records)
        return replace(drawn, records=records, target=records[drawn.target.position - 1])

    def _made(self, scenario: str) -> Load:
        salt = f"{scenario}/{self.semantic}"
        return make_load(seed=self.seed, salt=salt, count=self.records, unit=1)

    def in_hand(self, record: Record) -> str:
        """Return the id by which the user's programs know a record: the whole token, of which
        lostack looks for a part.
        """
        return record.id if self.declared.id else self._token(record)

    def _key(self, record: Record) -> str:
        """Return the record's key. If the producer makes the records itself, keys are unknown and
        order is not checked.
        """
        return self._found(record) if self.declared.input.kind is InputKind.OWN else record.key

    def _token(self, record: Record) -> str:
        return f"{self.key}.{record.id}.{LAST_WORD}"

    def _found(self, record: Record) -> str:
        line = self.line(record)
        found = self.identity.in_text(line) or replace(self.identity, json="").in_text(
            self._token(record)
        )
        if found is None:
            raise DeclarationError(f"id: no id is found in the offered line: {line}")
        return found


NO_FAULT = "none"
NO_PAIRS = Paired()
REFUSED = "refused"
"""The failure point of every request that a stage's ``refusals`` name."""


def failure_points(
    pipeline: Pipeline,
    requests: Mapping[str, Collection[str]] | None = None,
    processes: Mapping[str, int] | None = None,
    writes: Mapping[str, Written] | None = None,
    *,
    moments: Mapping[str, Mapping[Moment, str]] | None = None,
    said: Mapping[str, Mapping[str, Said]] | None = None,
    sending: Collection[str] = (),
    rhythms: Mapping[str, Rhythm] | None = None,
    elsewhere: Mapping[str, tuple[str, ...]] | None = None,
    attached: bool = False,
    paired: Paired = NO_PAIRS,
) -> tuple[Scenario, ...]:
    """Return every failure point as a scenario of this pipeline. A scenario that does not apply has
    a reason.

    The dry run gives, for each role: ``requests``, the steps seen on its connections;
    ``processes``, how many of its processes fetched; ``writes``, its durable writes; ``moments``,
    at which step each moment of a record was seen; ``said``, what it said to each service. Without
    them, only the pipeline's roles decide what applies. ``sending``: the stages that sent records;
    a consumer among them, which sets records aside, has the points of a processor, too.
    ``rhythms``: how they saved their positions. ``elsewhere``: the servers that each stage spoke to
    past the wire.
    ``attached``: lostack did not start the broker, and so must not kill it. ``paired``: which pairs
    of faults are among them.
    """
    found, dialect = [_without_fault(pipeline)], pipeline.dialect
    points = (*POINTS, *FIRSTS, *REBALANCES, *CLUSTERS, *SILENCES, *paired.points(dialect))
    for point in (each for each in points if _has(dialect, each)):
        present = [
            stage.known for role in point.roles for stage in pipeline.stages if stage.role is role
        ]
        beside = [
            stage.known
            for stage in pipeline.stages
            if point.roles == WRITING and stage.role is Role.CONSUMER and stage.known in sending
        ]
        for role in (*(present or point.roles[:1]), *beside):
            seen = None if moments is None or dialect.logs else moments.get(role, {})
            fault = point.fault(role, dialect, (seen or {}).get(point.moment))
            if pipeline.brokers > 1:
                fault = on_cluster(fault)
            reason = (
                _reason(point, role, pipeline, requests, seen)
                or _alone(fault, role, pipeline, processes)
                or paired.reason(point, role, pipeline)
            )
            if attached and isinstance(fault, RetentionPasses):
                reason = reason or "lostack deletes no records of an attached cluster"
            if attached and needs_all(fault):
                reason = (
                    "the broker was not started by lostack, which kills only what it has started"
                )
            elif attached and isinstance(fault, TakenOver):
                reason = "lostack moves no leaders of an attached cluster"
            scenario = _scenario(
                pipeline,
                _name(point, role, alone=len(present) < 2 and role not in beside),  # noqa: PLR2004
                fault,
                point.because.format(role=role),
                reason,
            )
            found.append(
                replace(scenario, failure_point=point.id, edge=point.edge, waits_s=point.waits_s)
            )
    found += [
        _of_reader(pipeline, each, requests, attached=attached) for each in of_readers(pipeline)
    ]
    found += [
        _inside(pipeline, stage.known, name)
        for stage in pipeline.stages
        for name in stage.failpoints
    ]
    found += [
        _refusal(pipeline, stage.known, text, requests)
        for stage in pipeline.stages
        for text in stage.refusals
    ]
    found += [
        each for service in pipeline.services for each in _of_service(pipeline, service, requests)
    ]
    found += [
        replace(
            _scenario(pipeline, each.name, each.fault, each.because, each.reason),
            failure_point=each.point,
        )
        for each in service_points(pipeline, said)
    ]
    reading = [stage.known for stage in pipeline.stages if stage.reads]
    learnt = (
        None
        if rhythms is None
        else learnt_of(
            requests, moments, writes, rhythms, said=said or {}, elsewhere=elsewhere or {}
        )
    )
    return (
        *found,
        *(scenario for role in reading for scenario in _at_writes(pipeline, role, writes)),
        *(_overtaking(pipeline, point) for point in overtaking_points(pipeline, learnt)),
    )


def _has(dialect: Dialect, point: Point) -> bool:
    return point.moment in dialect.steps and (dialect.logs or not point.logs)


def _of_reader(
    pipeline: Pipeline,
    point: OfReader,
    requests: Mapping[str, Collection[str]] | None,
    *,
    attached: bool,
) -> Scenario:
    """Return the scenario of records that are there before their reader."""
    why, fault = point.why, point.fault
    if fault is not None:
        why = why or _unseen(fault.at.api, fault.at.role, requests)
    if isinstance(fault, PartitionFilled):
        position = pipeline.dialect.steps[Moment.POSITION][0]
        why = why or _unseen(position, point.role, requests)
        if attached:
            why = "lostack adds no partitions to the topics of an attached cluster"
    name = f"{point.role}-{point.id}"
    scenario = _scenario(pipeline, name, fault or NoFault(), point.because, why)
    return replace(scenario, failure_point=point.id)


def left_over(pipeline: Pipeline, point: Scenario) -> bool:
    """Return whether a point is a spare name, for durable writes or for what is said to services,
    that the dry run did not need, or for the rebalances of stages with one member, or for what one
    broker has not. A stage's first is no spare.
    """
    spare = point.failure_point == AT_WRITE and not point.id.endswith("-1")
    lone = all(stage.scale == 1 for stage in pipeline.stages)
    spare |= lone and point.failure_point in OTHER_REBALANCES
    spare |= pipeline.brokers == 1 and point.failure_point in OTHER_CLUSTERS
    return isinstance(point.expect[pipeline.claims], NotApplicable) and (
        spare or is_spare(point.failure_point, point.id)
    )


def cells_of(
    pipeline: Pipeline, scenarios: Iterable[Scenario], *, seed: int = 1, records: int | None = None
) -> tuple[DeclaredCell, ...]:
    """Return the cells of scenarios made by :func:`failure_points`."""
    return tuple(
        DeclaredCell(
            scenario=scenario,
            semantic=pipeline.claims,
            system=SYSTEM,
            client=pipeline.name,
            runtime="process",
            seed=seed,
            records=records or pipeline.records,
            declared=pipeline,
        )
        for scenario in scenarios
    )


def aim(cell: DeclaredCell, shares: Mapping[str, Share]) -> DeclaredCell:
    """Return the cell with a target that its stage handles. If none of those records is in the
    middle third, the cell does not apply.

    ``shares``: what each stage handled in the dry run.
    """
    pipeline, fault = cell.declared, cell.scenario.fault
    if isinstance(cell.expectation, NotApplicable):
        return cell
    if isinstance(fault, PartitionFilled | StartLate):
        reader = shares.get(str(fault.reader))
        some = None if reader is None else reader.some(sent=False)
        if some is not None:
            return _never(
                cell,
                f"only {len(some)} of {pipeline.records} records came to the {fault.reader} in "
                "the dry run: nothing shows when one is there for it",
            )
    among = share_of(fault, pipeline.dialect, shares)
    if among is None:
        return cell
    if cell.scenario.edge is not None or middle(among, cell.records):
        return replace(cell, among=among)
    reason = (
        f"only {len(among)} of {pipeline.records} records came there in the dry run, and none of "
        f"the middle third, where faults strike: offer more (records = {2 * pipeline.records})"
    )
    return _never(cell, reason)


def _never(cell: DeclaredCell, because: str) -> DeclaredCell:
    never = NotApplicable(because)
    return replace(cell, scenario=replace(cell.scenario, expect={cell.semantic: never}))


def _inside(pipeline: Pipeline, role: Role, name: str) -> Scenario:
    """Return the scenario of a failpoint in the user's own program."""
    because = f"The {role} has the record in hand at its failpoint {name}, and is killed there."
    return _scenario(
        pipeline, f"{role}-at-{name}", Kill(InProgram(role, name), (role,)), because, None
    )


def _refusal(
    pipeline: Pipeline, role: Role, text: str, requests: Mapping[str, Collection[str]] | None
) -> Scenario:
    """Return the scenario of a refusal that a stage names."""
    refusal = Refusal.read(text)
    reason = _unseen(refusal.step, role, requests)
    scenario = _scenario(
        pipeline, f"{role}-{refusal.name}", refusal.fault(role), refusal.because(role), reason
    )
    return replace(scenario, failure_point=REFUSED)


def _of_service(
    pipeline: Pipeline, service: Service, requests: Mapping[str, Collection[str]] | None
) -> Iterator[Scenario]:
    """Yield the scenarios of a service: it is killed or paused when a stage receives the record, or
    after that.
    """
    steps = pipeline.dialect.steps
    role = next((stage.known for stage in pipeline.stages if stage.reads), Role.PRODUCER)
    given = OnWire(role, *steps[Moment.SEND if role is Role.PRODUCER else Moment.DELIVERY])
    where = f"as the {role} {'sends' if role is Role.PRODUCER else 'is given'} the record"
    acts: list[tuple[str, OnWire, Fault, str]] = [
        (
            "crash",
            given,
            _kill_service(given, service),
            f"The {service.name} is killed {where}, and comes back.",
        ),
        (
            "pause",
            given,
            Stall(given, service.known, service.pause_s),
            (
                f"The {service.name} stands still for {service.pause_s:g} s, {where}, and goes "
                "on as if nothing had happened."
            ),
        ),
    ]
    if role is not Role.PRODUCER:
        saves = OnWire(
            role, *steps[Moment.POSITION if pipeline.dialect.logs else Moment.ACKNOWLEDGEMENT]
        )
        behind = (
            f"The {role} is done with the record, and asks to save that; the {service.name} is "
            "killed, and comes back."
        )
        acts.append(("crash-behind-work", saves, _kill_service(saves, service), behind))
    for act, at, fault, because in acts:
        name = f"service-{act}" if len(pipeline.services) == 1 else f"{service.name}-service-{act}"
        yield replace(
            _scenario(pipeline, name, fault, because, _unseen(at.api, role, requests)),
            failure_point=f"service-{act}",
        )


def _kill_service(at: OnWire, service: Service) -> Fault:
    return Kill(at, (service.known,), held=How.RELEASE)


def _at_writes(
    pipeline: Pipeline, role: Role, writes: Mapping[str, Written] | None
) -> Iterator[Scenario]:
    """Yield a stage's scenarios at its durable writes."""
    for point in write_points(
        role, None if writes is None else writes.get(role, UNWATCHED), pipeline.dialect
    ):
        yield replace(
            _scenario(pipeline, point.name, point.fault, point.because, point.reason),
            failure_point=AT_WRITE,
        )


def _overtaking(pipeline: Pipeline, point: Overtaking) -> Scenario:
    """Return a stage's scenario in which a commit, or a mark, may overtake its work."""
    scenario = _scenario(pipeline, point.name, point.fault, point.because, point.reason)
    return replace(scenario, failure_point=point.fault.id)


def _reason(
    point: Point,
    role: Role,
    pipeline: Pipeline,
    requests: Mapping[str, Collection[str]] | None,
    seen: Mapping[Moment, str] | None,
) -> str | None:
    stage = pipeline.stage(role)
    if stage is None:
        return f"the pipeline has no {' or '.join(point.roles)}"
    if pipeline.aggregate is not None and stage.role is Role.PROCESSOR and point.moment in SENDING:
        return (
            "the processor sends totals, which carry no record's id; lostack sweep tries every "
            "step of the processor"
        )
    if why := point.why_not(pipeline, role) or _unasked(point, role, requests):
        return why
    if point.id == INPUT_ENDS and pipeline.input.kind is not InputKind.STDIN:
        return (
            f"the input is of kind {pipeline.input.kind}; only the end of standard input can be "
            "tested"
        )
    if seen is not None and point.moment in LINES and point.moment not in seen:
        return (
            f"the dry run saw no {pipeline.dialect.label(point.moment)} frame of the {role} that "
            "is about a record"
        )
    steps, moments = pipeline.dialect.steps, (_ASKED.get(point.moment, point.moment), point.moment)
    what = "request" if pipeline.dialect.logs else "frame"
    return next(
        (
            why
            for each in moments
            if each not in (seen or {})
            and (why := _unseen(steps[each][0], role, requests, what)) is not None
        ),
        None,
    )


def _unasked(
    point: Point, role: Role, requests: Mapping[str, Collection[str]] | None
) -> str | None:
    """Say that the stage made none of the requests without which the point does not exist."""
    names = [each.label for each in point.asks]
    if not names or requests is None or not {*names}.isdisjoint(requests.get(role, ())):
        return None
    return f"the dry run saw no {' or '.join(names)} of the {role}"


_ASKED = {
    Moment.ACKNOWLEDGEMENT_ANSWER: Moment.ACKNOWLEDGEMENT,
    Moment.COMMIT_ANSWER: Moment.COMMIT,
    Moment.SESSION_COMMIT_ANSWER: Moment.SESSION_COMMIT,
}
"""The request of each moment whose answer has no name of its own on some wires."""


def _unseen(
    api: StepName, role: Role, requests: Mapping[str, Collection[str]] | None, what: str = "request"
) -> str | None:
    if requests is not None and api.label not in requests.get(role, ()):
        return f"the dry run saw no {api.label} {what} of the {role}"
    return None


_FIRST = frozenset({Role.PRODUCER, Role.CONSUMER, Role.PROCESSOR})
"""Roles at the beginning of a point's name that the stage's name replaces. In front of other names,
the stage's name is added.
"""


def _name(point: Point, role: Role, *, alone: bool) -> str:
    """Return the point's name. Unless the stage is ``alone`` in having it, the stage's name comes
    first and replaces a role's.
    """
    if alone:
        return point.id
    first, _, rest = point.id.partition("-")
    return f"{role}-{rest if first in _FIRST else point.id}"


def _alone(
    fault: Fault, role: Role, pipeline: Pipeline, processes: Mapping[str, int] | None
) -> str | None:
    """Say why no process could replace a paused one, or why the wire cannot tell whose the next
    request is; else ``None``.
    """
    stage = pipeline.stage(role)
    second = fault.second if isinstance(fault, Twice) else fault
    follows = isinstance(second, Kill) and isinstance(second.at, OnWire) and second.at.since
    if (follows or isinstance(fault, Twice)) and stage and stage.one_dies:
        return (
            f"one process of the {role} is crashed, and the wire cannot tell whether a next "
            "request comes from that process"
        )
    if not isinstance(fault, Pause) or processes is None or processes.get(role, 0) > 1:
        return None
    return (
        f"the dry run saw one process of the {role} at work, and no other process that could "
        "take over; to try this point, let the stage start two processes"
    )


def _without_fault(pipeline: Pipeline) -> Scenario:
    """Return the scenario of the dry run. Without a fault nothing may be lost or duplicated, except
    what ``expects`` names.
    """

    def predicted(name: Anomaly) -> Prediction:
        # what is forbidden, the promise judges
        return Permitted() if name in pipeline.expects or forbids(pipeline.claims, name) else Zero()

    expectation = Predicted(lost=predicted(Anomaly.LOST), duplicated=predicted(Anomaly.DUPLICATED))
    scenario = _scenario(
        pipeline, NO_FAULT, NoFault(), "Without a fault nothing may be lost or duplicated.", None
    )
    return replace(scenario, expect={pipeline.claims: expectation})


def _scenario(
    pipeline: Pipeline, name: str, fault: Fault, because: str, reason: str | None
) -> Scenario:
    anything = Predicted(lost=Permitted(), duplicated=Permitted())
    broker = needs_all(fault)
    return Scenario(
        id=name,
        failure_point=name,
        fault=fault,
        because=because,
        group=pipeline.name,
        pipeline=core.Pipeline(pipeline.name, SYSTEM, {pipeline.claims: Theirs()}),
        expect={pipeline.claims: NotApplicable(reason) if reason else anything},
        deployment=Deployment.OWN if broker or not pipeline.dialect.logs else Deployment.SHARED,
        dead_letters=bool(pipeline.dead_letters),
    )
