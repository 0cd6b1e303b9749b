"""Why a failure point does not apply to a stage of a declared pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.controls import OnWire
from harness.faults import (
    Compacted,
    Kill,
    Pause,
    RetentionPasses,
    TakenOver,
    Twice,
)
from harness.model.scenario import Role
from harness.model.takeovers import Turn
from harness.pipelines.broker import CLUSTER
from harness.pipelines.clusters import needs_all
from harness.pipelines.dialects import LINES, Moment
from harness.pipelines.inputs import InputKind
from harness.pipelines.points import INPUT_ENDS, Point
from harness.pipelines.shares import SENDING
from harness.pipelines.traffic import NOTHING, traffic_of
from harness.proofs.takeover import COORDINATED
from harness.protocols.kafka.steps import Api

if TYPE_CHECKING:
    from harness.model.scenario import Fault
    from harness.pipelines.declaration import Pipeline
    from harness.pipelines.traffic import DryRun
    from harness.wire.rules import StepName


def why_inapplicable(
    point: Point,
    role: Role,
    pipeline: Pipeline,
    seen: DryRun,
) -> str | None:
    """Say why a stage cannot have a failure point, or return ``None``.

    On a queue, the moments of a record that the dry run saw of the stage decide, too.
    """
    found = None if pipeline.dialect.logs else traffic_of(role, seen)
    moments = None if found is None else found.moments
    stage = pipeline.stage(role)
    if stage is None:
        return f"the pipeline has no {' or '.join(point.roles)}"
    if pipeline.aggregate is not None and stage.role is Role.PROCESSOR and point.moment in SENDING:
        return (
            "the processor sends totals, which carry no record's id; lostack sweep tries every "
            "step of the processor"
        )
    if why := point.why_not(pipeline, role) or _why_unasked(point, role, seen):
        return why
    if point.id == INPUT_ENDS and pipeline.input.kind is not InputKind.STDIN:
        return (
            f"the input is of kind {pipeline.input.kind}; only the end of standard input can be "
            "tested"
        )
    if moments is not None and point.moment in LINES and point.moment not in moments:
        return (
            f"the dry run saw no {pipeline.dialect.label(point.moment)} frame of the {role} that "
            "is about a record"
        )
    steps, needed = pipeline.dialect.steps, (_ASKED.get(point.moment, point.moment), point.moment)
    what = "request" if pipeline.dialect.logs else "frame"
    return next(
        (
            why
            for each in needed
            if each not in (moments or {})
            and (why := why_unseen(steps[each][0], role, seen, what)) is not None
        ),
        None,
    )


def _why_unasked(point: Point, role: Role, seen: DryRun) -> str | None:
    """Say that the stage made none of the requests without which the point does not exist."""
    names = [each.label for each in point.asks]
    if not names or seen is None or not seen.get(role, NOTHING).steps.isdisjoint(names):
        return None
    return f"the dry run saw no {' or '.join(names)} of the {role}"


_ASKED = {
    Moment.ACKNOWLEDGEMENT_ANSWER: Moment.ACKNOWLEDGEMENT,
    Moment.COMMIT_ANSWER: Moment.COMMIT,
    Moment.SESSION_COMMIT_ANSWER: Moment.SESSION_COMMIT,
}
"""The request of each moment whose answer has no name of its own on some wires."""


def why_unseen(api: StepName, role: Role, seen: DryRun, what: str = "request") -> str | None:
    """Say that the dry run did not see a step of a stage, or return ``None``."""
    steps = None if seen is None else seen.get(role, NOTHING).steps
    if steps is None or api.label in steps:
        return None
    inside = api is Api.OFFSET_COMMIT and Api.TXN_OFFSET_COMMIT.label in steps
    why = ": it saves its position in its transactions" if inside else ""
    return f"the dry run saw no {api.label} {what} of the {role}{why}"


def why_not_attached(fault: Fault, pipeline: Pipeline) -> str | None:
    """Say what lostack does not do to a cluster that it has not started, or return ``None``."""
    if isinstance(fault, RetentionPasses):
        return "lostack deletes no records of an attached cluster"
    if isinstance(fault, Compacted):
        return "lostack compacts no topics of an attached cluster"
    if isinstance(fault, TakenOver):
        return _why_not_taken_over(fault, pipeline)
    if needs_all(fault):
        return KILLS_ITS_OWN
    return None


KILLS_ITS_OWN: Final = "the broker was not started by lostack, which kills only what it has started"


def _why_not_taken_over(fault: TakenOver, pipeline: Pipeline) -> str | None:
    """Say why no broker of an attached cluster takes over from another: a request of an
    administrator about the pipeline's own topics is all that lostack asks of it.
    """
    if pipeline.brokers == 1:
        return f"if the attached cluster has several brokers, say brokers = {CLUSTER}"
    if fault.turn.stops:
        return KILLS_ITS_OWN
    if fault.turn is Turn.OVERTAKEN:
        return "what followers copy does not go through the wire of an attached cluster"
    if fault.at.api.label in COORDINATED:
        return (
            f"the log of coordinators ({COORDINATED[fault.at.api.label]}) belongs to everybody on "
            "an attached cluster: lostack moves the leaders of the pipeline's own topics alone"
        )
    return None


def why_one_process(fault: Fault, role: Role, pipeline: Pipeline, seen: DryRun) -> str | None:
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
    found = traffic_of(role, seen)
    if not isinstance(fault, Pause) or found is None or found.reading(pipeline) > 1:
        return None
    return (
        f"the dry run saw one process of the {role} at work, and no other process that could "
        "take over; to try this point, let the stage start two processes"
    )
