"""What is planned with an in-memory system, and one thing of it wrong each. The suite must be red
with every one of them.
"""

from __future__ import annotations

import itertools
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from harness.contract.systems import Subject, of_registry
from harness.model.cell import Cell
from harness.model.scenario import NotApplicable
from harness.model.semantics import Semantic
from tests.contract.wrong_systems import HasVersionsLater

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from harness.model.cell import Load

_NUMBERS = itertools.count(1)


def changed(change: Callable[[Sequence[Cell]], Sequence[Cell]]) -> Subject:
    """Return a subject whose cells are changed."""
    right = of_registry("memory")
    return replace(right, cells=lambda seed: change(right.cells(seed)))


def as_cells(cls: type[Cell]) -> Subject:
    """Return a subject whose cells are of a class."""
    return changed(
        lambda cells: [
            cls(**{each.name: getattr(cell, each.name) for each in fields(Cell)}) for cell in cells
        ]
    )


def of_each(change: Callable[[Cell], Cell]) -> Subject:
    """Return a subject of whose cells each is changed."""
    return changed(lambda cells: [change(cell) for cell in cells])


def not_applicable(because: str) -> Subject:
    """Return a subject none of whose cells applies, for a reason."""

    def change(cell: Cell) -> Cell:
        return replace(
            cell,
            scenario=replace(
                cell.scenario, expect=dict.fromkeys(cell.scenario.expect, NotApplicable(because))
            ),
        )

    return of_each(change)


class KeepsASet(Cell):
    """Its settings cannot be written down."""

    def saved_settings(self) -> dict[str, Any]:
        """Return one that cannot."""
        return {"acks": {1}}


class HasNoSettings(Cell):
    """It has none."""

    def saved_settings(self) -> dict[str, Any]:
        """Return none."""
        return {}


class DrawsAnew(Cell):
    """Its load is another one each time."""

    def load(self) -> Load:
        """Draw it."""
        drawn = super().load()
        return replace(drawn, target=drawn.records[next(_NUMBERS) % len(drawn.records)])


class BeginsWithItsTarget(Cell):
    """Nothing flows before the fault."""

    def load(self) -> Load:
        """Place it at the first record."""
        drawn = super().load()
        return replace(drawn, target=drawn.records[0])


def calls_its_system_so() -> Subject:
    """What is selected by one name has another."""
    return replace(of_registry("memory"), name="simulation")


def has_versions_later() -> Subject:
    """Before it is prepared it cannot be asked what takes part."""
    return replace(of_registry("memory"), make=HasVersionsLater)


def calls_its_cells_so() -> Subject:
    """Its cells say that they are another system's."""
    return of_each(lambda cell: replace(cell, system="kafka"))


def has_everything_twice() -> Subject:
    """Two cells are one."""
    return changed(lambda cells: [*cells, *cells])


def gives_no_reason() -> Subject:
    """Nobody learns why its cells do not apply."""
    return not_applicable(" ")


def gives_a_long_reason() -> Subject:
    """Why they do not apply is more than a line."""
    return not_applicable("there is no transaction\nin this protocol")


def gives_no_because() -> Subject:
    """Nobody learns why theory says so."""
    return of_each(lambda cell: replace(cell, scenario=replace(cell.scenario, because="")))


def cannot_be_written_down() -> Subject:
    """Its plans are no data."""
    return as_cells(KeepsASet)


def has_no_settings() -> Subject:
    """Nobody knows what it was run with."""
    return as_cells(HasNoSettings)


def draws_anew() -> Subject:
    """No cell can be run again."""
    return as_cells(DrawsAnew)


def begins_with_its_target() -> Subject:
    """There is no load before its faults."""
    return as_cells(BeginsWithItsTarget)


def always_has_a_fault() -> Subject:
    """Nobody knows whether it works at all."""
    return changed(
        lambda cells: [cell for cell in cells if cell.scenario.fault.evidence().trigger != "none"]
    )


def forgets_a_semantic() -> Subject:
    """Of one it neither has a cell nor says why."""
    return changed(
        lambda cells: [cell for cell in cells if cell.semantic is not Semantic.EXACTLY_ONCE]
    )


def talks_through_another() -> Subject:
    """Its cells name a client that is another system's."""
    return of_each(lambda cell: replace(cell, client="java"))
