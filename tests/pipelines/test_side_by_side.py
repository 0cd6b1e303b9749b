"""A real check on several brokers: what it comes to is what it comes to on one, and nothing of it
outlives it.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from harness.judge.verdict import Kind
from harness.matrix.checking import Check
from harness.matrix.progress import make_progress
from harness.matrix.seen import seen_in
from harness.pipelines import read_pipeline
from harness.systems.declared.system import DeclaredSystem
from tests.pipelines.test_check import Silent
from tests.sweep.test_cut_short import cut

ROOT = Path(__file__).parents[2]
ORDERS = ROOT / "examples" / "orders" / "pipeline.toml"
POINTS = (
    "producer-crash-before-ack",
    "request-lost",
    "commit-lost",
    "broker-crash-before-append",
    "broker-crash-before-ack",
)
pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]


@pytest.mark.rest
def test_cells_side_by_side_come_to_the_same(tmp_path: Path) -> None:
    """Each has a broker of its own, and its records, faults and results are its own alone."""
    system = DeclaredSystem(keep=True)
    try:
        with make_progress(Silent()) as progress:
            check = Check(read_pipeline(ORDERS), system, tmp_path, "pytest", jobs=3)
            rehearsed = check.rehearsed(progress, brief=True)
            assert (rehearsed.dry.verdict.kind, rehearsed.jobs) == (Kind.KEPT, 3)
            cells, _ = check.plan(seen_in(rehearsed.dry), POINTS)
            saved = check.faults(cells, (), progress)
    finally:
        system.close()
    found = {result.plan.scenario: result for result in saved.results}
    assert {name: result.verdict.kind for name, result in found.items()} == dict.fromkeys(
        POINTS, Kind.KEPT
    )
    assert all(result.verdict.fired == 1 for result in found.values())
    twice = found["commit-lost"]
    assert twice.judgement.account.duplicated == {twice.plan.target}


@pytest.mark.rest
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["ctrl-c", "sigkill"])
@pytest.mark.parametrize("behind", ["rehearsal", "request-lost"])
def test_nothing_outlives_it(tmp_path: Path, behind: str, number: signal.Signals) -> None:
    """Brokers, wires and programs end with who has started them, in the dry runs and among the
    faults.
    """
    points = ("request-lost", "ack-lost", "commit-lost", "broker-crash-before-ack")
    command = [sys.executable, "-m", "harness.cli", "check", str(ORDERS), "--jobs", "3"]
    code, said = cut(
        (*command, *(word for name in points for word in ("--only", name))),
        tmp_path,
        behind,
        number,
    )
    assert code == (130 if number is signal.SIGINT else -number)
    assert "Traceback" not in said
