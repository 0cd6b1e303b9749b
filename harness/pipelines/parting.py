"""The failure points at which a partition is parted from the work on a record of it: the work is
held, as the dry run shows that it can be, while the group shares out anew.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from harness.controls import InHand, OnWire
from harness.faults import PartedFromWork
from harness.model.rebalances import Change
from harness.pipelines.dialects import Moment
from harness.pipelines.outputs import OutputKind
from harness.pipelines.overtaking import Overtaking, held_work
from harness.pipelines.rebalances import BEATS, JOINS, OUTLASTS, WORK_UNDERWAY, why_not

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.model.writes import FirstWrites
    from harness.pipelines.declaration import Pipeline
    from harness.pipelines.stages import Stage
    from harness.pipelines.traffic import DryRun, StageTraffic

BECAUSE: Final = {
    WORK_UNDERWAY: "The {role} has only this record in hand, and its result is held on its way "
    "out, when another {role} joins; the answer that tells the first one is held until then. The "
    "result goes on when the partition is another's, or 7 s later.",
    OUTLASTS: "The {role} has only this record in hand, and its result is held on its way out for "
    "longer than max.poll.interval: its client leaves the group, and another {role} has the "
    "partition before the result goes on.",
}
TOLD_S: Final = 12.0
"""How much longer (seconds) a cell takes in which a member is told, and does not give up."""
LEFT_S: Final = 6.0
"""How much longer than ``max.poll.interval`` it takes until another has the partition, in
seconds.
"""
OF_SQLITE: Final = ("-journal", "-wal")
"""How files end that SQLite keeps beside a database."""
MOST_S: Final = 60.0
"""A ``max.poll.interval`` of so many seconds, or more, is not awaited. Clients that never leave by
themselves (kafkajs, franz-go, sarama) name so much, or what their program sets.
"""


def parting_points(pipeline: Pipeline, seen: DryRun) -> Iterator[Overtaking]:
    """Yield these points of each reading stage of a log."""
    if not pipeline.dialect.logs:
        return
    reading = [stage for stage in pipeline.stages if stage.reads]
    for stage in reading:
        role = stage.known
        at = OnWire(role, *pipeline.dialect.steps[Moment.DELIVERY])
        found = (seen or {}).get(role)
        for point, change in ((WORK_UNDERWAY, Change.JOINS), (OUTLASTS, Change.OVERDUE)):
            name = point if len(reading) == 1 else f"{role}-{point}"
            work = held_work(pipeline, stage, at, found) if found is not None else None
            if isinstance(work, InHand) and work.writes is not None:
                work = replace(work, writes=_before_locks(pipeline, work.writes))
            why = why_not(pipeline, role) or _why_unseen(stage, found, seen, change)
            poll_s = (found.rhythm.poll_s if found else None) or 0.0
            yield Overtaking(
                name,
                PartedFromWork(at, None if isinstance(work, str) else work, change),
                BECAUSE[point].format(role=role),
                why or (work if isinstance(work, str) else None),
                point,
                TOLD_S if change is Change.JOINS else poll_s + LEFT_S,
            )


def _before_locks(pipeline: Pipeline, writes: FirstWrites) -> FirstWrites:
    """Return where the work of one member is held if others write into the same files: before it
    locks a database of SQLite's, which no other could use until it goes on.
    """
    result = bool(writes.within) and pipeline.output.kind is OutputKind.SQLITE
    locks = result or any(file.endswith(OF_SQLITE) for file in writes.files)
    return replace(writes, locks=locks)


def _why_unseen(
    stage: Stage, found: StageTraffic | None, seen: DryRun, change: Change
) -> str | None:
    """Say why the dry run shows that a stage does not have a point."""
    role = stage.known
    if not seen:
        return None
    if found is None:
        return f"the dry run did not see the {role}"
    asks = BEATS if change is Change.JOINS else JOINS
    if found.steps.isdisjoint(each.label for each in asks):
        return f"the dry run saw no {' or '.join(each.label for each in asks)} of the {role}"
    poll_s = found.rhythm.poll_s
    if change is not Change.OVERDUE or (poll_s is not None and poll_s < MOST_S):
        return None
    return (
        f"the max.poll.interval of the {role} is {poll_s or 0:g} s, and this point waits for it "
        f"only where that is less than {MOST_S:g} s: set max.poll.interval.ms "
        "(max_poll_interval_ms in Python) in the run that you check"
    )
