"""A sweep of a declared pipeline whose runs without a fault fail side by side goes on one cell at a
time.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from harness.judge.verdict import Kind
from harness.sweep import sweeping
from harness.sweep.pipelines import sweep_of
from harness.sweep.saved_runs import SavedRuns
from harness.sweep.settings import SweepSettings
from harness.sweep.sweeping import DryRunError
from tests.sweep.stepping import Quiet

if TYPE_CHECKING:
    from harness.matrix.runner import RunPlan

ORDERS = Path(__file__).parents[2] / "examples" / "orders" / "pipeline.toml"


class Played:
    """Runs whose first one, side by side, has one cell that comes out as ``first``, and those after
    it as ``then``.
    """

    def __init__(self, first: Kind, then: Kind) -> None:
        self._kinds = [first, then]
        self.plans: list[RunPlan] = []
        self.results: list[Any] = []

    def run(self, plan: RunPlan, _: object) -> Any:
        """Take note of the plan, and leave a folder."""
        kind = self._kinds[min(len(self.plans), 1)]
        self.plans.append(plan)
        folder = plan.reports / f"run-{len(self.plans)}"
        folder.mkdir(parents=True)
        self.results = [
            SimpleNamespace(
                verdict=SimpleNamespace(kind=kind if number == 1 else Kind.KEPT, reason="why"),
                directory=folder / f"cell-{number}",
                ended=True,
            )
            for number, _ in enumerate(plan.cells)
        ]
        return SimpleNamespace(
            info=SimpleNamespace(interrupted=False), results=self.results, directory=folder
        )

    def dry_runs(self) -> list[Any]:
        """Those of the last run."""
        return self.results if len(self.plans) > 1 else []


def swept(
    monkeypatch: pytest.MonkeyPatch, folder: Path, played: Played, jobs: int = 3
) -> sweeping.Sweep:
    """Make the dry runs of a sweep of the orders pipeline."""
    monkeypatch.setattr(sweeping, "run", played.run)
    monkeypatch.setattr(SavedRuns, "dry_runs", lambda _: played.dry_runs())
    one = sweep_of(
        SweepSettings(str(ORDERS), "", 1, 48, jobs, (1, 1), "test", declared=True), folder
    )
    one.settings.save(folder)
    one.dry_run(Quiet())
    return one


@pytest.mark.parametrize("kind", [Kind.VOID, Kind.BROKEN, Kind.STUCK])
def test_they_are_made_again_one_at_a_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: Kind
) -> None:
    """What was seen side by side is put aside; the sweep says why, and goes on so when it is
    resumed.
    """
    played = Played(kind, Kind.KEPT)
    one = swept(monkeypatch, tmp_path, played)
    assert [plan.jobs for plan in played.plans] == [3, 1]
    assert [cell.brief for cell in played.plans[0].cells] == [False, True, True, True]  # type: ignore[attr-defined]
    assert one.alone == f"when runs without a fault ran side by side, one was {kind}"
    assert [file.name for file in (tmp_path / "aside").iterdir()] == ["run-1"]
    assert SweepSettings.load(tmp_path).jobs == 1


def test_what_fails_alone_too_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It is the pipeline's own; and one at a time nothing is made again."""
    with pytest.raises(DryRunError):
        swept(monkeypatch, tmp_path / "three", Played(Kind.VOID, Kind.VOID))
    played = Played(Kind.VOID, Kind.KEPT)
    swept(monkeypatch, tmp_path / "one", played, jobs=1)
    assert len(played.plans) == 1
