"""Lies about a streaming query: a driver nobody touched, one that is said to be dead, and a topic
that is said to have grown.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import pytest

from harness.controls import InProgram, Stop
from harness.judge.verdict import Kind
from harness.matrix.runner import RunPlan, run
from harness.matrix.selection import select
from harness.model.scenario import Role
from harness.scenarios.streaming_topic import BEFORE_SEND, PARTITIONS_ADDED
from harness.wire.rules import How
from scenarios.streaming import MID_BATCH, killed_at
from tests.planted.lies import Silent
from tests.trust.faults import Disarmed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.controls import Controls
    from harness.model.scenario import Evidence
    from harness.saved import CellResult

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.rest(together=True),
    pytest.mark.spark,
    pytest.mark.timeout(600),
]

KILL = killed_at("before-commit-log")


@dataclass(frozen=True)
class Released:
    """Promises a kill, waits for its failpoint, and lets the driver go on."""

    id: ClassVar[str] = "released"

    def evidence(self) -> Evidence:
        """What the kill would have shown."""
        return KILL.evidence()

    def arm(self, controls: Controls) -> None:
        """Arm the promised failpoint."""
        KILL.arm(controls)

    def inject(self, controls: Controls) -> None:
        """Let it go on, and say that it was killed."""
        fired = controls.await_fired(InProgram(Role.DRIVER, "before-commit-log"))
        controls.say("fired", record=fired.record, node=fired.node)
        controls.target(Role.DRIVER).resume()
        controls.say("applied", node="driver")
        controls.say("healed")


@dataclass(frozen=True)
class StaysSmall:
    """Promises partitions, holds the producer, and lets it go on without any."""

    id: ClassVar[str] = "stays-small"

    def evidence(self) -> Evidence:
        """What the growth would have shown."""
        return PARTITIONS_ADDED.fault.evidence()

    def arm(self, controls: Controls) -> None:
        """Hold the producer at the target."""
        controls.arm(BEFORE_SEND, Stop.HOLD)

    def inject(self, controls: Controls) -> None:
        """Let it go on, and say that the topic has grown."""
        fired = controls.await_fired(BEFORE_SEND)
        controls.say("fired", record=fired.record, node=fired.node)
        controls.settle()
        controls.say("applied", node=fired.node)
        controls.resolve(fired.hold, How.RELEASE)
        controls.say("healed")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, CellResult]:
    """Run the lies, at-least-once."""
    lies = [
        replace(MID_BATCH, id="disarmed", fault=Disarmed(KILL)),
        replace(MID_BATCH, id="released", fault=Released()),
        replace(PARTITIONS_ADDED, id="stays-small", fault=StaysSmall()),
    ]
    chosen = select(lies, semantics=["at-least-once"], system="spark")
    plan = RunPlan(
        chosen.systems(),
        chosen.cells,
        (),
        tmp_path_factory.mktemp("spark"),
        2,
        "test",
        (1,),
        chosen.records,
    )
    return {result.plan.scenario: result for result in run(plan, Silent()).results}


def test_a_disarmed_fault_is_void(results: Mapping[str, CellResult]) -> None:
    verdict = results["disarmed"].verdict
    assert (verdict.kind, verdict.reason) == (Kind.VOID, "the fault did not fire")
    assert (
        results["disarmed"].judgement.account.counts["recorded"] == results["disarmed"].plan.offered
    )


def test_a_driver_that_lives_on_is_void(results: Mapping[str, CellResult]) -> None:
    """The failpoint was hit and the JVM was not killed: the kernel's word is held against it."""
    verdict = results["released"].verdict
    assert (verdict.kind, verdict.reason) == (
        Kind.VOID,
        "the fault fired, but the driver was not killed",
    )


def test_a_topic_that_did_not_grow_is_void(results: Mapping[str, CellResult]) -> None:
    """Everything arrives, and nothing was put to the test: the topic has the partitions that it
    had.
    """
    verdict = results["stays-small"].verdict
    assert (verdict.kind, verdict.reason) == (Kind.VOID, "no partition was added to the topic")
