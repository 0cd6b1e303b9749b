"""On a real broker: a run that proves nothing is void, a run that stops is stuck, and neither is
ever called kept.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from harness.faults import Kill
from harness.judge.firing import SIGKILL
from harness.judge.verdict import Kind
from harness.matrix.runner import RunPlan, run
from harness.model import events as kinds
from harness.model.cell import expand
from harness.model.history import HISTORY, read_history
from harness.model.scenario import Role
from harness.model.semantics import Semantic
from harness.systems.kafka.system import KafkaSystem
from scenarios.plain import (
    BROKER_CRASH_BEFORE_ACK,
    COMMIT_LOST,
    NONE,
    PRODUCER_CRASH_BEFORE_ACK,
    PRODUCER_CRASH_BEFORE_SEND,
)
from tests.narrow import narrow
from tests.planted.lies import Silent
from tests.trust.faults import Disarmed, Shoots, StopsReading, WrongVictim

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from harness.model.scenario import Scenario
    from harness.saved import CellResult

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(240)]

ALO = Semantic.AT_LEAST_ONCE
LIES = (
    replace(
        PRODUCER_CRASH_BEFORE_ACK,
        id="disarmed-rule",
        fault=Disarmed(narrow(PRODUCER_CRASH_BEFORE_ACK.fault, Kill)),
    ),
    replace(
        PRODUCER_CRASH_BEFORE_SEND,
        id="disarmed-failpoint",
        fault=Disarmed(narrow(PRODUCER_CRASH_BEFORE_SEND.fault, Kill)),
    ),
    replace(
        PRODUCER_CRASH_BEFORE_ACK,
        id="wrong-victim",
        fault=WrongVictim(narrow(PRODUCER_CRASH_BEFORE_ACK.fault, Kill), Role.CONSUMER),
    ),
    replace(
        COMMIT_LOST,
        id="other-wrong-victim",
        fault=WrongVictim(narrow(COMMIT_LOST.fault, Kill), Role.PRODUCER),
    ),
    replace(NONE, id="stops-reading", fault=StopsReading()),
    replace(NONE, id="shoots", fault=Shoots()),
)


def run_cells(
    scenarios: Sequence[Scenario], semantics: Iterable[Semantic], reports: Path
) -> Sequence[CellResult]:
    """Run and judge them."""
    cells = tuple(expand(scenarios, semantics=semantics, seeds=[1]))
    plan = RunPlan(
        (KafkaSystem(),),
        cells,
        (),
        reports,
        jobs=3,
        command="test",
        seeds=(1,),
        records=cells[0].records,
    )
    return run(plan, Silent()).results


def run_all(scenarios: Sequence[Scenario], reports: Path) -> Mapping[str, CellResult]:
    """Run scenarios at-least-once on one broker; results by scenario id."""
    return {result.plan.scenario: result for result in run_cells(scenarios, [ALO], reports)}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, CellResult]:
    """Return the judged lies."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("harness.run.drain.WITHIN_S", 8.0)
        return run_all(LIES, tmp_path_factory.mktemp("lies"))


@pytest.mark.parametrize("lie", ["disarmed-rule", "disarmed-failpoint"])
def test_a_disarmed_fault_is_void(results: Mapping[str, CellResult], lie: str) -> None:
    result = results[lie]
    assert result.verdict.kind is Kind.VOID
    assert result.verdict.reason == "the fault did not fire"
    assert not result.verdict.green
    assert result.judgement.account.counts["recorded"] == result.plan.offered


@pytest.mark.parametrize(
    ("lie", "spared", "shot"),
    [
        ("wrong-victim", "producer", "consumer"),
        ("other-wrong-victim", "consumer", "producer"),
    ],
)
def test_killing_the_wrong_process_is_void(
    results: Mapping[str, CellResult], lie: str, spared: str, shot: str
) -> None:
    assert shot != spared
    result = results[lie]
    assert result.verdict.kind is Kind.VOID
    assert spared in result.verdict.reason


def test_a_consumer_that_stops_reading_is_stuck_and_loses_nothing(
    results: Mapping[str, CellResult],
) -> None:
    """Late is not lost: what was never read is left in the topic, and the verdict names the stage
    that stopped.
    """
    result = results["stops-reading"]
    counts = result.judgement.account.counts
    assert result.verdict.kind is Kind.STUCK
    assert "position" in result.verdict.reason
    assert counts["lost"] == 0
    assert counts["left_in_topic"] == result.plan.offered


def test_a_death_nobody_announced_is_void(results: Mapping[str, CellResult]) -> None:
    """A node that died before, or without, a fault makes the run worthless as evidence."""
    result = results["shoots"]
    assert result.verdict.kind is Kind.VOID
    assert "consumer was not healthy" in result.verdict.reason


def test_a_drain_cut_short_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With no time to drain, records are left where they are: none is called lost, and the cell is
    not kept.
    """
    monkeypatch.setattr("harness.run.drain.WITHIN_S", 0.0)
    result = run_all([NONE], tmp_path)["none"]
    counts = result.judgement.account.counts
    assert counts["lost"] == 0
    assert counts["left"] > 0
    assert not result.verdict.green


def test_cells_that_share_a_death_are_each_held_at_their_own_trigger(tmp_path: Path) -> None:
    """One SIGKILL for those that are held; whose fault does not fire is void, and keeps nobody from
    theirs.
    """
    lie = replace(
        BROKER_CRASH_BEFORE_ACK,
        id="one-disarmed",
        fault=Disarmed(narrow(BROKER_CRASH_BEFORE_ACK.fault, Kill), under=Semantic.EXACTLY_ONCE),
    )
    found = {result.plan.semantic: result for result in run_cells([lie], Semantic, tmp_path)}
    void = found.pop(Semantic.EXACTLY_ONCE).verdict
    assert (void.kind, void.reason) == (Kind.VOID, "the fault did not fire")
    assert {result.verdict.kind for result in found.values()} == {Kind.KEPT}
    deaths = set()
    for result in found.values():
        history = read_history(result.directory / HISTORY)
        (hit,) = (event for event in history.of(kinds.Rule) if event.phase == "hit")
        (death,) = (
            event
            for event in history.of(kinds.Node)
            if (event.node, event.phase) == ("broker-1", "exited")
        )
        deaths.add((death.pid, death.signal))
        assert result.plan.target in (hit.records or ())
        assert death.t > hit.t
    assert len(deaths) == 1
    assert {signal for _, signal in deaths} == {SIGKILL}
