"""The systems that ``test_plans.py`` and ``test_systems.py`` are run against: those of the
registry, and declared pipelines.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness import registry, systems
from harness.contract.systems import Subject, of_registry
from harness.pipelines import failure_points, read_pipeline
from harness.pipelines.cells import cells_of
from harness.systems.declared.system import DeclaredSystem
from tests import tiers

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.model.cell import Cell

EXAMPLES = Path(__file__).parents[2] / "examples"
PATIENCE_S = 2.0
"""How long a declared pipeline rests that was never seen before: the programs of the example are
never late.
"""


def declared() -> Subject:
    """Return declared pipelines: the right ones among the examples. The simplest is run; of each
    other one every fifth point is looked at, of each another fifth, and with each seed that is due
    (:func:`tests.tiers.due`) the next.
    """
    _, turn = tiers.due(tiers.position())
    files = sorted(EXAMPLES.glob("*/pipeline.toml"), key=lambda file: file.parent.name != "orders")

    def cells(seed: int) -> tuple[Cell, ...]:
        return tuple(
            cell
            for number, each in enumerate(pipelines)
            for cell in cells_of(
                each,
                failure_points(each)[(number + turn) % 5 :: 5] if number else failure_points(each),
                seed=seed,
            )
        )

    pipelines = [replace(read_pipeline(file), patience_s=PATIENCE_S) for file in files]
    return Subject("declared", DeclaredSystem, cells, at_once=False, registered=False)


SYSTEMS: dict[str, Callable[[], Subject]] = {
    name: partial(of_registry, name) for name in systems.SYSTEMS
} | {"declared": declared}
IN_CORE = frozenset({"kafka"})
"""What is tried with every commit; the others are dear, and in the rest."""


def system_params(*, really: bool) -> list[Any]:
    """Return the systems as parameters of a fixture; ``really``: with the marks of what they need
    to run.
    """
    return [
        pytest.param(make, id=name, marks=_marks(name) if really else ())
        for name, make in SYSTEMS.items()
    ]


def _marks(name: str) -> tuple[pytest.MarkDecorator, ...]:
    if name in systems.SYSTEMS and registry.described(name).simulated:
        return ()
    needs = registry.needed_by(name) if name in systems.SYSTEMS else ("kafka",)
    marks = tuple(getattr(pytest.mark, each) for each in needs)
    return marks if name in IN_CORE else (*marks, pytest.mark.rest(together=name))
