"""The failure points of firsts: readers that have no position yet, and the first and last record of
a run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from harness.controls import OnWire
from harness.faults import (
    Compacted,
    Drop,
    Forget,
    Kill,
    PartitionFilled,
    RetentionPasses,
    StartLate,
    TopicAppears,
    TopicMadeAnew,
)
from harness.model.scenario import Edge, Role
from harness.model.semantics import Anomaly, Semantic, forbids
from harness.pipelines.dialects import Moment
from harness.pipelines.inputs import InputKind
from harness.pipelines.points import WRITING, Point
from harness.pipelines.stages import AT_END, CONSUMING
from harness.wire.rules import How

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.model.scenario import Fault
    from harness.pipelines.declaration import Pipeline
    from harness.pipelines.dialects import Dialect
    from harness.pipelines.stages import Stage

STARTS_LATE: Final = "started-late"
FILLED: Final = "partition-filled"
MADE_ANEW: Final = "topic-made-anew"
MADE_ANEW_S: Final = 8.0
"""How much longer a point takes, in seconds, in which the topic is made anew while everybody is
away, or late.
"""
APPEARS: Final = "topic-appears"
COMPACTED: Final = "compacted-while-down"
COMPACTED_S: Final = 4.0
"""How much longer a point takes, in seconds, in which the topic is compacted."""


def _kill(at: OnWire, _: Dialect) -> Fault:
    return Kill(at, (at.role,), held=How.DISCARD)


def _drop(at: OnWire, _: Dialect) -> Fault:
    return Drop(at)


def _expire(at: OnWire, _: Dialect) -> Fault:
    return Kill(at, (at.role,), held=How.DISCARD, forget=Forget.POSITIONS)


def _pass_by(at: OnWire, _: Dialect) -> Fault:
    return RetentionPasses(at)


def _compact(at: OnWire, _: Dialect) -> Fault:
    return Compacted(at)


def _no_compaction(pipeline: Pipeline, role: Role) -> str | None:
    """Say why nothing is compacted before a reader."""
    first = next((stage.known for stage in pipeline.stages if stage.reads), role)
    if role is not first:
        return f"lostack compacts what the {first} reads"
    if not pipeline.topic_settings.compacts(pipeline.between):
        return (
            'nothing that it reads is compacted: topic_settings has no "cleanup.policy" = "compact"'
        )
    if pipeline.input.kind is InputKind.OWN:
        return "the producer makes its records itself, so their keys are not known"
    if pipeline.aggregate is not None:
        return "the output has totals, which do not show which records compaction took"
    stage = pipeline.stage(role)
    if stage is not None and (stage.scale > 1 or stage.one_dies):
        return "while one process is dead the others read on: one could be given what then goes"
    return _begins_at_end(pipeline, role)


def _no_retention(pipeline: Pipeline, role: Role) -> str | None:
    """Say why retention does not pass a reader."""
    if pipeline.claims is Semantic.AT_MOST_ONCE:
        return "its position is saved before the work, and is never behind what is done"
    return _begins_at_end(pipeline, role)


def _no_expiry(pipeline: Pipeline, role: Role) -> str | None:
    """Say why a reader's positions are not deleted."""
    if why := _begins_at_end(pipeline, role):
        return why
    if forbids(pipeline.claims, Anomaly.DUPLICATED):
        return (
            f"without its positions a reader must read again or skip, and {pipeline.claims} "
            "forbids one of the two"
        )
    return None


def _begins_at_end(pipeline: Pipeline, role: Role) -> str | None:
    stage = pipeline.stage(role)
    if stage is not None and stage.begins == AT_END:
        return f'the {role} declares begins = "{AT_END}": what was there before is not its own'
    return None


FIRSTS: Final = (
    Point(
        "consumer-crash-at-first-delivery",
        CONSUMING,
        Moment.DELIVERY,
        _kill,
        "The first record of the run is on its way to the {role}, whose group has saved no "
        "position yet; the {role} is killed, and starts again.",
        edge=Edge.FIRST,
    ),
    Point(
        "consumer-crash-at-last-delivery",
        CONSUMING,
        Moment.DELIVERY,
        _kill,
        "The last record of the run is on its way to the {role}, which is killed, and starts "
        "again; no further record comes.",
        edge=Edge.LAST,
    ),
    Point(
        "producer-crash-before-first-ack",
        WRITING,
        Moment.SEND_ANSWER,
        _kill,
        "The broker has stored the first record of the run; the {role} is killed before it reads "
        "the acknowledgement.",
        edge=Edge.FIRST,
    ),
    Point(
        "first-commit-answer-lost",
        (),  # a consumer that saves its positions in transactions
        Moment.COMMIT_ANSWER,
        _kill,
        "The transaction with the position behind the first record of the run is ended; the "
        "{role} is killed before it learns that, with what it has yet to do.",
        edge=Edge.FIRST,
        logs=True,
    ),
    Point(
        "last-request-lost",
        WRITING,
        Moment.SEND,
        _drop,
        "The {role}'s request with the last record of the run never reaches the broker, and the "
        "connection is cut; no further record comes.",
        edge=Edge.LAST,
    ),
    Point(
        "positions-expired",
        CONSUMING,
        Moment.POSITION,
        _expire,
        "The {role} is killed when it asks to save its position after the record, and stays away "
        "for so long that the broker has deleted all positions of its group.",
        why_not=_no_expiry,
        logs=True,
    ),
    Point(
        "retention-passes-position",
        CONSUMING,
        Moment.POSITION,
        _pass_by,
        "The {role} is killed when it asks to save its position after the record, and stays away "
        "for so long that retention has deleted that record; newer ones are there when it comes "
        "back.",
        why_not=_no_retention,
        logs=True,
    ),
    Point(
        COMPACTED,
        CONSUMING,
        Moment.DELIVERY,
        _compact,
        "The {role} is killed before it is given the record, and stays away for so long that the "
        "topic is compacted: later records of the key are there when it comes back, and this one "
        "is not.",
        waits_s=COMPACTED_S,
        why_not=_no_compaction,
        logs=True,
    ),
)


@dataclass(frozen=True, slots=True)
class OfReader:
    """A failure point of a reading stage that begins with a frame of the stage that sends to it.

    ``fault``: ``None`` if there is no such stage; ``why``: why it is not tried, or ``None``.
    """

    id: str
    role: Role
    fault: PartitionFilled | StartLate | TopicAppears | TopicMadeAnew | None
    because: str
    why: str | None
    waits_s: float = 0.0


def of_readers(pipeline: Pipeline) -> Iterator[OfReader]:
    """Yield the points at which records are there before their reader."""
    sender: Role | None = None
    for stage in pipeline.stages:
        if stage.reads:
            yield _starts_late(pipeline, stage.known, sender)
            if stage.role is Role.CONSUMER and pipeline.dialect.logs:
                yield _filled(pipeline, stage.known, sender)
                yield from _made_anew(pipeline, stage, sender)
                yield _appears(pipeline, stage.known, sender)
        if stage.role in WRITING:
            sender = stage.known


def _starts_late(pipeline: Pipeline, role: Role, sender: Role | None) -> OfReader:
    steps, why = pipeline.dialect.steps, _begins_at_end(pipeline, role)
    at = sender and OnWire(sender, *steps[Moment.SEND_ANSWER])
    return OfReader(
        STARTS_LATE,
        role,
        StartLate(at, role) if at else None,
        f"The {role} is started for the first time when records are there already: as after a "
        "deploy in another order, or with a new group.",
        why or (None if at else "no stage sends what it reads: nothing shows that it is there"),
    )


def _filled(pipeline: Pipeline, role: Role, sender: Role | None) -> OfReader:
    steps, why = pipeline.dialect.steps, _begins_at_end(pipeline, role)
    at = OnWire(sender, *steps[Moment.SEND]) if sender == Role.PRODUCER else None
    if at is None:
        why = why or "no producer sends what it reads, so no new partition gets a record"
    if pipeline.order:
        why = why or "in a topic with more partitions no key keeps its order"
    return OfReader(
        FILLED,
        role,
        PartitionFilled(at, role) if at else None,
        f"The topic gets more partitions while the {role} is away, and records in them before "
        "they are assigned to it.",
        why,
    )


def _appears(pipeline: Pipeline, role: Role, sender: Role | None) -> OfReader:
    steps = pipeline.dialect.steps
    at = OnWire(sender, *steps[Moment.SEND_ANSWER]) if sender == Role.PRODUCER else None
    why = None if at else "no producer sends what it reads, so nothing shows that it is there"
    return OfReader(
        APPEARS,
        role,
        TopicAppears(at, role) if at else None,
        f"The {role} is started before its topic exists, and is told so; the topic is created, and "
        f"has records before the {role} hears of it.",
        why or _begins_at_end(pipeline, role),
        MADE_ANEW_S,
    )


def _made_anew(pipeline: Pipeline, stage: Stage, sender: Role | None) -> Iterator[OfReader]:
    """Yield the points at which the topic is made anew: one for a reader whose position goes with
    it, two for one that keeps its position elsewhere.
    """
    at = OnWire(sender, *pipeline.dialect.steps[Moment.SEND]) if sender == Role.PRODUCER else None
    why = None if at else "no producer sends what it reads, so a new topic gets no record"
    if pipeline.aggregate is not None:
        why = why or "the output has totals, which do not show that all of a topic is done"
    why = why or _begins_at_end(pipeline, stage.known)
    about = (
        f"Everything is recorded when producer and {stage.known} are killed; the topic is deleted, "
        "and made anew with the same name. The producer goes on, then the "
        f"{stage.known}"
    )
    kept = {
        None: ", whose group's positions went with the topic.",
        True: ": the position that it has kept is one in the new topic, too.",
        False: ": the position that it has kept is past the end of the new topic.",
    }
    for longer in (None,) if stage.position == "group" else (True, False):
        size = {None: "", True: "-longer", False: "-shorter"}[longer]
        yield OfReader(
            f"{MADE_ANEW}{size}",
            stage.known,
            TopicMadeAnew(at, stage.known, longer) if at else None,
            about + kept[longer],
            why,
            0.0 if longer is None else MADE_ANEW_S,
        )
