"""The failure points of a declared pipeline, each as a scenario. A scenario that does not apply has
a reason.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from harness.controls import InProgram, OnWire
from harness.faults import (
    InBurst,
    Kill,
    NoFault,
    PartitionFilled,
    Stall,
    TopicAppears,
    TopicMadeAnew,
)
from harness.model import pipeline as core
from harness.model.prediction import Permitted, Prediction, Zero
from harness.model.scenario import Deployment, NotApplicable, Predicted, Role, Scenario
from harness.model.semantics import Anomaly, forbids
from harness.pipelines.applicability import (
    why_inapplicable,
    why_not_attached,
    why_one_process,
    why_unseen,
)
from harness.pipelines.at_services import is_spare, service_points
from harness.pipelines.bursts import BURSTS, rehearsing
from harness.pipelines.clusters import CLUSTERS, OTHER_CLUSTERS, needs_all, on_cluster
from harness.pipelines.dialects import Moment
from harness.pipelines.firsts import FIRSTS, of_readers
from harness.pipelines.in_turn import IN_TURN
from harness.pipelines.overtaking import overtaking_points
from harness.pipelines.pairs import Paired
from harness.pipelines.parting import parting_points
from harness.pipelines.points import POINTS, WRITING, Point
from harness.pipelines.rebalances import OTHER_REBALANCES, REBALANCES, joining
from harness.pipelines.refusals import Refusal
from harness.pipelines.silences import SILENCES
from harness.pipelines.traffic import NOTHING, traffic_of
from harness.pipelines.writes import AT_WRITE, write_points
from harness.wire.rules import How

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from harness.model.scenario import Fault
    from harness.pipelines.at_services import ServicePoint
    from harness.pipelines.declaration import Pipeline
    from harness.pipelines.dialects import Dialect
    from harness.pipelines.firsts import OfReader
    from harness.pipelines.overtaking import Overtaking
    from harness.pipelines.programs import Service
    from harness.pipelines.traffic import DryRun


SYSTEM = "declared"


@dataclass(frozen=True, slots=True)
class DeclaredSettings:
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


NO_FAULT = "none"
IN = "-in-"
"""What stands between the name of a point and the topic of its target."""
NO_PAIRS = Paired()
REFUSED = "refused"
"""The failure point of every request that a stage's ``refusals`` name."""


def failure_points(
    pipeline: Pipeline,
    seen: DryRun = None,
    *,
    sending: Collection[str] = (),
    attached: bool = False,
    paired: Paired = NO_PAIRS,
) -> tuple[Scenario, ...]:
    """Return every failure point as a scenario of this pipeline. A scenario that does not apply has
    a reason.

    Without a dry run, only the pipeline's roles decide what applies. ``sending``: the stages that
    sent records; a consumer among them, which sets records aside, has the points of a processor,
    too (and one that saves its positions in transactions has those of their ends). ``attached``:
    lostack did not start the broker, and so must not kill it. ``paired``: which pairs of faults are
    among them. If several topics are offered records, each point is tried with a record of each.
    """
    found = [
        _without_fault(pipeline),
        *_at_moments(pipeline, seen, sending, attached=attached, paired=paired),
        *(_of_reader(pipeline, each, seen, attached=attached) for each in of_readers(pipeline)),
        *(
            _inside(pipeline, stage.known, name)
            for stage in pipeline.stages
            for name in stage.failpoints
        ),
        *(
            _refusal(pipeline, stage.known, text, seen)
            for stage in pipeline.stages
            for text in stage.refusals
        ),
        *(each for service in pipeline.services for each in _of_service(pipeline, service, seen)),
        *(_at_service(pipeline, point) for point in service_points(pipeline, seen)),
        *(
            scenario
            for stage in pipeline.stages
            if stage.reads
            for scenario in _at_writes(pipeline, stage.known, seen)
        ),
        *(_overtaking(pipeline, point) for point in overtaking_points(pipeline, seen)),
        *(_overtaking(pipeline, point) for point in parting_points(pipeline, seen)),
    ]
    return tuple(each for point in found for each in _in_topics(pipeline, point))


def _at_moments(
    pipeline: Pipeline,
    seen: DryRun,
    sending: Collection[str],
    *,
    attached: bool,
    paired: Paired,
) -> Iterator[Scenario]:
    """Yield the points at the moments of a record, of each stage that may have them."""
    dialect = pipeline.dialect
    several = (*SILENCES, *BURSTS, *IN_TURN, *paired.points(dialect))
    points = (*POINTS, *FIRSTS, *REBALANCES, *CLUSTERS, *several)
    for point in (each for each in points if _has(dialect, each)):
        present = [
            stage.known for role in point.roles for stage in pipeline.stages if stage.role is role
        ]
        beside = _beside(pipeline, point, seen, sending)
        for role in (*(present or point.roles[:1]), *beside):
            traffic = None if dialect.logs else traffic_of(role, seen)
            step = None if traffic is None else traffic.moments.get(point.moment)
            fault = point.fault(role, dialect, step)
            if pipeline.brokers > 1:
                fault = on_cluster(fault)
            reason = (
                (why_not_attached(fault, pipeline) if attached else None)
                or why_inapplicable(point, role, pipeline, seen)
                or why_one_process(fault, role, pipeline, seen)
                or paired.reason(point, role, pipeline)
                or (_alone(role, seen) if isinstance(fault, InBurst) else None)
            )
            name = _name(point, role, alone=len(present) <= 1 and role not in beside)
            scenario = _scenario(pipeline, name, fault, point.because.format(role=role), reason)
            yield replace(scenario, failure_point=point.id, edge=point.edge, waits_s=point.waits_s)


def _in_topics(pipeline: Pipeline, point: Scenario) -> Iterator[Scenario]:
    """Yield a point once for each topic that is offered records, if there are several."""
    if not pipeline.input.topics or point.id == NO_FAULT:
        yield point
        return
    for topic in pipeline.input.topics:
        because = f"{point.because} The record is one of the topic {topic}."
        yield replace(point, id=f"{point.id}{IN}{topic}", topic=topic, because=because)


def named_by(point: Scenario, names: Collection[str]) -> bool:
    """Return whether a point is one of those named: a name without a topic means it of each."""
    return point.id in names or (
        bool(point.topic) and point.id.removesuffix(f"{IN}{point.topic}") in names
    )


def burst_rehearsal(pipeline: Pipeline, role: Role) -> Scenario:
    """Return the scenario that shows whether requests of a sending stage overlap."""
    because = f"An answer to the {role} is a little late: does it send on meanwhile?"
    fault = rehearsing(role, pipeline.dialect)
    return _scenario(pipeline, f"{role}-sends-on", fault, because, None)


def _beside(pipeline: Pipeline, point: Point, seen: DryRun, sending: Collection[str]) -> list[Role]:
    """Return the consumers that have a sender's point, too: those that send records, and at the end
    of a transaction those that save positions in it.
    """
    ends = pipeline.dialect.logs and point.moment in (Moment.COMMIT, Moment.COMMIT_ANSWER)
    return [
        stage.known
        for stage in pipeline.stages
        if stage.role is Role.CONSUMER
        and (
            (stage.known in sending and point.roles in (WRITING, ()))
            or (ends and Moment.COMMIT in (seen or {}).get(stage.known, NOTHING).moments)
        )
    ]


def joining_rehearsal(pipeline: Pipeline, role: Role) -> Scenario:
    """Return the scenario that shows which partitions a member of a stage takes when it joins."""
    because = f"Another {role} joins: which partitions does it take?"
    return _scenario(pipeline, f"{role}-joins", joining(role, pipeline.dialect), because, None)


def _alone(role: Role, seen: DryRun) -> str | None:
    """Say why requests of a stage never overlap, if that was seen."""
    traffic = traffic_of(role, seen)
    return traffic.alone or None if traffic else None


def _has(dialect: Dialect, point: Point) -> bool:
    return point.moment in dialect.steps and (dialect.logs or not point.logs)


def _of_reader(
    pipeline: Pipeline,
    point: OfReader,
    seen: DryRun,
    *,
    attached: bool,
) -> Scenario:
    """Return the scenario of records that are there before their reader."""
    why, fault = point.why, point.fault
    if fault is not None:
        why = why or why_unseen(fault.at.api, fault.at.role, seen)
    saves = isinstance(fault, TopicMadeAnew) and fault.longer is None
    if saves or isinstance(fault, PartitionFilled):
        position = pipeline.dialect.steps[Moment.POSITION][0]
        why = why or why_unseen(position, point.role, seen)
        if attached and isinstance(fault, PartitionFilled):
            why = "lostack adds no partitions to the topics of an attached cluster"
    if isinstance(fault, TopicAppears | TopicMadeAnew) and attached:
        why = "lostack makes no topics of an attached cluster anew, or late"
    name = f"{point.role}-{point.id}"
    scenario = _scenario(pipeline, name, fault or NoFault(), point.because, why)
    return replace(scenario, failure_point=point.id, waits_s=point.waits_s)


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


def _inside(pipeline: Pipeline, role: Role, name: str) -> Scenario:
    """Return the scenario of a failpoint in the user's own program."""
    because = f"The {role} has the record in hand at its failpoint {name}, and is killed there."
    return _scenario(
        pipeline, f"{role}-at-{name}", Kill(InProgram(role, name), (role,)), because, None
    )


def _refusal(pipeline: Pipeline, role: Role, text: str, seen: DryRun) -> Scenario:
    """Return the scenario of a refusal that a stage names."""
    refusal = Refusal.read(text)
    reason = why_unseen(refusal.step, role, seen)
    scenario = _scenario(
        pipeline, f"{role}-{refusal.name}", refusal.fault(role), refusal.because(role), reason
    )
    return replace(scenario, failure_point=REFUSED)


def _of_service(pipeline: Pipeline, service: Service, seen: DryRun) -> Iterator[Scenario]:
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
            _scenario(pipeline, name, fault, because, why_unseen(at.api, role, seen)),
            failure_point=f"service-{act}",
        )


def _at_service(pipeline: Pipeline, point: ServicePoint) -> Scenario:
    """Return the scenario in which a stage dies, or loses an answer, as it speaks to a service."""
    scenario = _scenario(pipeline, point.name, point.fault, point.because, point.reason)
    return replace(scenario, failure_point=point.point)


def _kill_service(at: OnWire, service: Service) -> Fault:
    return Kill(at, (service.known,), held=How.RELEASE)


def _at_writes(pipeline: Pipeline, role: Role, seen: DryRun) -> Iterator[Scenario]:
    """Yield a stage's scenarios at its durable writes."""
    found = traffic_of(role, seen)
    for point in write_points(role, None if found is None else found.written, pipeline.dialect):
        yield replace(
            _scenario(pipeline, point.name, point.fault, point.because, point.reason),
            failure_point=AT_WRITE,
        )


def _overtaking(pipeline: Pipeline, point: Overtaking) -> Scenario:
    """Return a stage's scenario in which its work is held."""
    scenario = _scenario(pipeline, point.name, point.fault, point.because, point.reason)
    return replace(scenario, failure_point=point.point or point.fault.id, waits_s=point.waits_s)


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


def _without_fault(pipeline: Pipeline) -> Scenario:
    """Return the scenario of the dry run. Without a fault nothing may be lost or duplicated, except
    what ``expects`` names.
    """

    def predicted(name: Anomaly) -> Prediction:
        # what the claim forbids, the claim judges
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
        pipeline=core.Pipeline(pipeline.name, SYSTEM, {pipeline.claims: DeclaredSettings()}),
        expect={pipeline.claims: NotApplicable(reason) if reason else anything},
        deployment=Deployment.OWN if broker or not pipeline.dialect.logs else Deployment.SHARED,
        dead_letters=bool(pipeline.dead_letters),
    )
