"""The failure points at which several records are struck in one run, one after the other: for a
race that is not met at every record.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from harness.faults import InTurn
from harness.faults.in_turn import TARGETS
from harness.pipelines.inputs import InputKind
from harness.pipelines.points import POINTS, Point
from harness.pipelines.shares import with_targets

if TYPE_CHECKING:
    from collections.abc import Collection

    from harness.controls import OnWire
    from harness.model.scenario import Fault, Role
    from harness.pipelines.declaration import Pipeline
    from harness.pipelines.dialects import Dialect

OF: Final = frozenset(
    {
        "producer-crash-before-send",
        "producer-crash-before-ack",
        "commit-lost",
        "commit-ack-lost",
        "acknowledgement-lost",
        "acknowledgement-answer-lost",
    }
)
"""The points at which a mark, a position or an acknowledgement may be ahead of the work now and
then.
"""
LONGER_S: Final = 8.0
"""How much longer such a point takes, in seconds, than the same point at one record."""
LEAST: Final = 3
"""How many records each wave must have."""


def _why_not(pipeline: Pipeline, role: Role) -> str | None:
    """Say why a stage cannot be struck several times in a run."""
    if pipeline.input.kind in (InputKind.FILE, InputKind.OWN):
        return (
            f"with an input of kind {pipeline.input.kind} the producer has all records from the "
            "start: none can be kept back until the one before it has been struck"
        )
    stage = pipeline.stage(role)
    if stage is not None and stage.one_dies:
        return f"one process of the {role} is crashed, and which is the next one's is not known"
    return None


def _in_turn(point: Point) -> Point:
    def act(at: OnWire, dialect: Dialect) -> Fault:
        each: Any = point.act(at, dialect)  # a kill at a frame: it is on the wire
        return InTurn(each)

    return replace(
        point,
        id=f"{point.id}-in-turn",
        act=act,
        because=f"{point.because} Then the same at another record, {TARGETS} in all.",
        why_not=_why_not,
    )


IN_TURN: Final = tuple(_in_turn(point) for point in POINTS if point.id in OF)


def too_few(records: int, targets: int, among: Collection[int] | None) -> str | None:
    """Say that too few records are offered for so many targets, or that too few of them come there
    (``among``: the positions of those that do; ``None``: all), or return ``None``.
    """
    need = LEAST * (2 * targets + 1)
    if records < need:
        return f"{records} records are too few to strike {targets} in turn: set records = {need}"
    if all(with_targets(records, targets, among)):
        return None
    return (
        f"too few of {records} records come there to strike {targets} in turn: offer more "
        f"(records = {2 * records})"
    )
