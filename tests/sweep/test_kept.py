"""What a project keeps of findings: cases that pytest collects, and a folder for a bug report."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from harness.faults import Drop
from harness.model.failures import UsageError
from harness.model.keep import Keep
from harness.sweep import exporting
from harness.sweep.acts import LOSE, Happening, trigger
from harness.sweep.exporting import export
from harness.sweep.found import FoundScenario
from harness.sweep.shrinking import file_of, shrink_all
from harness.sweep.steps import Step
from harness.wire.rules import Direction
from tests.memory import python_path
from tests.memory.plants import Plant
from tests.sweep.stepping import RIGHT, Quiet, sweep
from tests.tiers import QUICK

if TYPE_CHECKING:
    from pathlib import Path

    from harness.model.cell import Cell
    from harness.sweep.settings import SweepSettings
    from harness.sweep.sweeping import Sweep

AT = trigger(Step("producer", "Produce", Direction.RESPONSE, 1, "k1-3"))
KEPT = FoundScenario(
    "lost-answer",
    "It is lost.",
    1,
    12,
    5,
    Happening(LOSE, AT),
    pipeline="plain/at-least-once",
    system="memory",
)


def test_a_kept_finding_is_a_case(tmp_path: Path) -> None:
    """Green where the claim is kept, red with one line where the file is none."""
    KEPT.save(tmp_path, "lost-answer.lostack.toml")
    wrong = KEPT.save(tmp_path, "wrong.lostack.toml")
    wrong.write_text(wrong.read_text().replace(LOSE, "explode"))
    (tmp_path / "other.toml").write_text("")
    command = [sys.executable, "-m", "pytest", *QUICK, "-p", "no:xdist", "-q"]
    env = python_path()
    ran = subprocess.run(
        command, cwd=tmp_path, check=False, capture_output=True, text=True, env=env
    )
    assert "1 failed, 1 passed" in ran.stdout
    assert (
        "wrong.lostack.toml is not a valid scenario: the act explode is not possible at this frame"
        in ran.stdout
    )
    assert "Traceback" not in ran.stdout


@pytest.mark.parametrize("keep", Keep)
def test_a_folder_for_a_bug_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep: Keep
) -> None:
    """It says what was run, in words and frames, and nothing of where, whichever files were
    kept.
    """

    def wrong(cell: Cell) -> Plant:
        return Plant(lose=1) if isinstance(cell.scenario.fault, Drop) else RIGHT

    one = replace(sweep(tmp_path / "one", wrong, acts=("lose",)), keep=keep)
    one.dry_run(Quiet())
    planned = one.plan()
    one.run(planned, Quiet())
    outcomes = one.outcomes(planned)
    shrink_all(one, outcomes, planned.usual, Quiet(), until=0.0)

    def same(asked: SweepSettings, directory: Path) -> Sweep:
        return sweep(directory, wrong, acts=asked.acts)

    monkeypatch.setattr(exporting, "sweep_of", same)
    [finding] = outcomes.findings()
    files = export(file_of(one, finding), tmp_path / "bug")
    told = (tmp_path / "bug" / "README.md").read_text()
    assert sorted(file.name for file in files) == sorted(
        file.name for file in (tmp_path / "bug").iterdir()
    )
    assert finding.first.point.step.at in told
    assert "| producer | Produce request |" in told
    assert "**fault: hit**" in told
    assert str(tmp_path) not in told
    with pytest.raises(UsageError, match="exists already"):
        export(file_of(one, finding), tmp_path / "bug")
    with pytest.raises(UsageError, match="not in the folder found"):
        export(tmp_path / "bug" / files[-1].name, tmp_path / "other")
