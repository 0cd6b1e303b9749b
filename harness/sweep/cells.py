"""The cells of a sweep: one pipeline, one load, and a fault at any record of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from harness.model.cell import Cell, make_load
from harness.model.prediction import Permitted
from harness.model.scenario import Deployment, Predicted, Role, Scenario
from harness.pipelines.cells import DeclaredCell
from harness.report.summary import SWEEP

if TYPE_CHECKING:
    from harness.model.cell import Load
    from harness.model.scenario import Fault

GROUP = SWEEP
STILL_S = 20.0


@dataclass(frozen=True, slots=True)
class SweepCell(Cell):
    """A cell of one of our own pipelines. ``position`` is the target's (from 1); null: wherever the seed puts it.

    Nothing of its load depends on its scenario: the steps of one cell have the same names in all others of the sweep.
    ``patient``: a drain in which nothing moves has all its time all the same.
    """

    position: int | None = None
    patient: bool = False

    @property
    def still_s(self) -> float | None:
        """Longer than what a coordinator needs to abort what somebody has left open."""
        return None if self.patient else STILL_S

    def load(self) -> Load:
        """Return the records of the sweep, and this cell's target."""
        return _aimed(make_load(seed=self.seed, salt=GROUP, count=self.records, unit=self.settings.unit), self.position)


@dataclass(frozen=True, slots=True)
class DeclaredSweepCell(DeclaredCell):
    """The same of a declared pipeline."""

    position: int | None = None
    patient: bool = False
    """It learns how long a silence may last by itself."""

    def _drawn(self) -> Load:
        return _aimed(make_load(seed=self.seed, salt=GROUP, count=self.records, unit=1), self.position)


def _aimed(load: Load, position: int | None) -> Load:
    return load if position is None else replace(load, target=load.records[position - 1])


def with_fault(base: Cell, name: str, fault: Fault, because: str, position: int | None = None) -> Cell:
    """Return the cell of a sweep's point: whatever comes of it is permitted, so that the claim alone is judged.

    ``base``: a :class:`SweepCell` or a :class:`DeclaredSweepCell` of the same pipeline and seed.
    """
    broker = Role.BROKER in fault.evidence().killed
    settings = base.settings
    scenario = Scenario(
        id=name, failure_point=fault.id, fault=fault, because=because, group=GROUP, pipeline=base.scenario.pipeline,
        expect={base.semantic: Predicted(lost=Permitted(), duplicated=Permitted(), settings=settings)},
        deployment=Deployment.OWN if broker else Deployment.SHARED,
    )  # fmt: skip
    return replace(base, scenario=scenario, position=position)  # type: ignore[call-arg]  # both kinds have one


__all__ = ["GROUP", "DeclaredSweepCell", "SweepCell", "with_fault"]
