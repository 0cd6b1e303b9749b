"""The cells of a sweep: one pipeline, one load, and a fault at any record of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from harness.controls import OnWire
from harness.faults import Kill
from harness.model.cell import Cell, client_name, make_load
from harness.model.prediction import Permitted
from harness.model.scenario import Deployment, Predicted, Role, Scenario
from harness.pipelines.cells import DeclaredCell
from harness.pipelines.clusters import needs_all, on_cluster
from harness.protocols.kafka.steps import Api
from harness.report.summary import SWEEP
from harness.stages.clients import JAVA
from harness.stages.consumer_settings import GroupProtocol
from harness.stages.settings import Settings
from harness.sweep.silence import Silence

if TYPE_CHECKING:
    from harness.controls import Trigger
    from harness.model.cell import Load
    from harness.model.scenario import Fault
    from harness.sweep.points import Point

GROUP = SWEEP
STANDS_S = 3.0
"""How long (seconds) a point waits at its frame for those that share its broker's death. At a load
of 25 on two cores the longest such wait was 1 s.
"""
LONGER = 1.25
"""A cell rests at least this many times the longest time-out of its clients, so that what follows a
time-out is finished too.
"""


@dataclass(frozen=True, slots=True)
class SweepCell(Cell):
    """A cell of one of lostack's own pipelines. ``position``: the target's (from 1); null: the seed
    draws the target.

    The load does not depend on the scenario, so the steps of one cell have the same names in all
    cells of the sweep. ``patient``: the drain waits until its deadline, even if nothing moves.
    """

    position: int | None = None
    patient: bool = False
    silence: Silence = field(default_factory=Silence, compare=False, repr=False)
    """The silences seen so far, shared by all cells of a sweep."""

    @property
    def dies_with(self) -> tuple[object, ...] | None:
        """Points of one sweep may share a death: each waits at its step, with all its connections
        to the broker frozen. Those in one quarter of the records come there at about one time.
        """
        quarter = 4 * ((self.position or 1) - 1) // self.records
        return (GROUP, self.pipeline, self.semantic, quarter) if self.scenario.together else None

    @property
    def stands_s(self) -> float:
        """Short, because a cell that comes too late runs again alone, and a long wait changes what
        clients do behind the fault.
        """
        return STANDS_S

    @property
    def supervised(self) -> bool:
        """As in a user's pipeline: a refusal that ends a program proves nothing if nobody restarts
        it.
        """
        return True

    @property
    def still_s(self) -> float | None:
        """Longer than any time-out of its clients, and at least twice the longest silence after
        which something moved again.
        """
        if self.patient:
            return math.inf
        settings = Settings.of(self.settings)
        timeouts = settings.producer.request_timeout_ms, settings.consumer.patience_ms
        return self.silence.rest_s(LONGER * max(timeouts) / 1000)

    def stood(self, still_s: float, *, moved: bool) -> None:
        """Record one silence of the drain for the later cells of the sweep."""
        self.silence.learn(self, still_s, moved=moved)

    def load(self) -> Load:
        """Return the records of the sweep, and this cell's target."""
        return _aimed(
            make_load(seed=self.seed, salt=GROUP, count=self.records, unit=self.settings.unit),
            self.position,
        )


@dataclass(frozen=True, slots=True)
class DeclaredSweepCell(DeclaredCell):
    """A cell of a declared pipeline. ``position``: the target's (from 1); null: the seed draws the
    target.
    """

    position: int | None = None

    def _drawn(self) -> Load:
        return _aimed(
            make_load(seed=self.seed, salt=GROUP, count=self.records, unit=1), self.position
        )


def _aimed(load: Load, position: int | None) -> Load:
    return load if position is None else replace(load, target=load.records[position - 1])


def brokers_of(cell: Cell) -> int:
    """Return how many brokers a cell has."""
    return cell.declared.brokers if isinstance(cell, DeclaredCell) else 1


def shares_death(point: Cell) -> bool:
    """Say whether other points can share the broker's death in a point's cell. A cell with two
    faults needs its broker for itself. So does one in which brokers ask each other something at
    that frame: alone it claims their frames, which do not name their cell, and they stand still
    until the broker dies.
    """
    fault = point.scenario.fault
    return (
        isinstance(fault, Kill)
        and fault.victims == (Role.BROKER,)
        and fault.at.role is not Role.BROKER
        and point.scenario.pipeline.shares_death
        and isinstance(point.settings, Settings)
        and not _asks_brokers(fault.at, point.settings, client_name(point.client))
    )


def _asks_brokers(at: Trigger, settings: Settings, client: str) -> bool:
    """Say whether brokers ask each other something while a frame is on its way: about share groups,
    or about a transaction. What is lost between its answer and its marker (KAFKA-20734) shows at
    the frames of whoever has transactions, but not at a Produce: with EndTxn below version 5 it
    follows an AddPartitionsToTxn, which brokers refuse until the last marker is written. The Java
    client speaks version 5, and may send while markers are on their way.
    """
    transactional = settings.producer.transactional and at.role is not Role.CONSUMER
    waits = isinstance(at, OnWire) and at.api == Api.PRODUCE and client != JAVA
    return settings.consumer.protocol is GroupProtocol.SHARE or (transactional and not waits)


def sharing(point: Cell) -> Cell:
    """Return the cell of a point, which shares the death of its broker if it can."""
    if not shares_death(point):
        return point
    return replace(point, scenario=replace(point.scenario, together=GROUP))


def with_fault(
    base: Cell, name: str, fault: Fault, because: str, position: int | None = None
) -> Cell:
    """Return the cell of a sweep's point. It predicts nothing, so only the semantic's promise is
    judged.

    ``base``: a :class:`SweepCell` or a :class:`DeclaredSweepCell` of the same pipeline and seed.
    """
    if brokers_of(base) > 1:
        fault = on_cluster(fault)
    settings = base.settings
    scenario = Scenario(
        id=name,
        failure_point=fault.id,
        fault=fault,
        because=because,
        group=GROUP,
        pipeline=base.scenario.pipeline,
        expect={
            base.semantic: Predicted(lost=Permitted(), duplicated=Permitted(), settings=settings)
        },
        deployment=Deployment.OWN if needs_all(fault) else Deployment.SHARED,
        dead_letters=base.scenario.dead_letters,
    )
    return replace(base, scenario=scenario, position=position)  # type: ignore[call-arg]  # both kinds have one


def at_point(base: Cell, point: Point, suffix: str = "", *, patient: bool = False) -> Cell:
    """Return the cell of a point, its name followed by ``suffix``. ``patient``: its drain waits
    until the deadline.
    """
    position = next(record.position for record in base.load().records if record.id == point.step.at)
    cell = with_fault(base, point.id + suffix, point.fault, point.because, position)
    return replace(cell, patient=True) if patient and isinstance(cell, SweepCell) else cell
