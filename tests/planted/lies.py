"""Running the in-memory system with a plant, and what must be said of each."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from harness.judge.verdict import Kind
from harness.matrix.runner import RunPlan, run
from harness.model.cell import Cell
from harness.model.prediction import Permitted
from harness.model.scenario import Predicted
from harness.model.semantics import Semantic
from harness.stages.settings import Settings, TopicSettings
from scenarios.plain import DELIVERY_LOST
from tests.memory.plants import Plant
from tests.memory.system import MemorySystem
from tests.narrow import narrow

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from harness.model.scenario import Scenario
    from harness.saved import CellResult

ANOMALIES = (
    "lost",
    "duplicated",
    "stored_twice",
    "delivered_twice",
    "phantom",
    "resurrected",
    "torn",
    "reordered",
    "stalled",
    "left_in_topic",
    "left_in_source",
    "set_aside",
)


FORGIVING = replace(
    DELIVERY_LOST,
    id="forgiving",
    expect={
        semantic: replace(
            narrow(DELIVERY_LOST.expect[semantic], Predicted),
            lost=Permitted(),
            duplicated=Permitted(),
        )
        for semantic in Semantic
    },
)
"""A scenario whose theory predicts nothing: only the promise is left to judge by."""


def in_queue(scenario: Scenario) -> Scenario:
    """Return a scenario with a queue in place of its topic."""
    queued = {
        semantic: replace(
            said,
            settings=replace(
                narrow(scenario.settings(semantic), Settings), topic=TopicSettings(partitions=0)
            ),
        )
        for semantic, said in scenario.expect.items()
        if isinstance(said, Predicted)
    }
    return replace(scenario, id=f"queue-{scenario.id}", expect={**scenario.expect, **queued})


@dataclass(frozen=True)
class Case:
    """One lie: what is planted where, and what must be said of it. ``counts`` not named here must
    be 0.
    """

    plant: Plant
    semantic: Semantic
    kind: Kind
    counts: Mapping[str, int] = field(default_factory=dict)
    reason: str = ""
    scenario: Scenario = DELIVERY_LOST

    @property
    def name(self) -> str:
        """What pytest calls it."""
        default = Plant()
        words = [
            f"{name}={value}"
            for name in Plant.__slots__
            if (value := getattr(self.plant, name)) != getattr(default, name)
        ]
        return ",".join([self.scenario.id, *words, self.semantic]).replace(" ", "-")


class Silent:
    """Progress that nobody watches."""

    def say(self, text: str) -> None:
        """Ignore it."""

    def planned(self, cells: Sequence[Cell]) -> None:
        """Ignore it."""

    def began(self, cell: Cell, directory: Path) -> None:
        """Ignore it."""

    def ended(self, result: CellResult) -> None:
        """Ignore it."""


def run_planted(
    plants: Mapping[str, tuple[Scenario, Semantic, Plant]], reports: Path
) -> dict[str, CellResult]:
    """Run each named plant as a scenario of that name; results by name."""
    cells = tuple(
        Cell(replace(scenario, id=name), semantic, "memory", "none", "process", seed=1, records=24)
        for name, (scenario, semantic, _) in plants.items()
    )
    system = MemorySystem(plants={name: plant for name, (_, _, plant) in plants.items()})
    plan = RunPlan((system,), cells, (), reports, jobs=2, command="test", seeds=(1,), records=24)
    return {result.plan.scenario: result for result in run(plan, Silent()).results}


def hold(case: Case, result: CellResult) -> None:
    """Hold a result against what must be said of the lie."""
    counts = result.judgement.account.counts
    want = dict.fromkeys(ANOMALIES, 0) | dict(case.counts)
    assert {name: counts[name] for name in want} == want
    assert result.verdict.kind is case.kind, result.verdict.reason
    assert case.reason in result.verdict.reason
    assert result.verdict.green is (case.kind is Kind.KEPT)
