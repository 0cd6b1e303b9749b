"""What Spark lacks for a cell."""

from __future__ import annotations

import pytest

from harness import registry
from harness.controls import OnWire
from harness.faults import Drop
from harness.model.scenario import Role
from harness.protocols.kafka.steps import Api
from harness.sweep.cells import with_fault
from harness.sweep.pipelines import swept
from harness.sweep.settings import SweepSettings
from harness.wire.rules import Direction


@pytest.mark.parametrize(
    ("role", "because"), [(Role.PRODUCER, "the producer fills the topic"), (Role.DRIVER, None)]
)
def test_a_fault_at_the_producer_could_not_fire(role: Role, because: str | None) -> None:
    """Its topic is filled before the query reads, and before the fault is armed."""
    [base] = swept(
        ["stream-to-topic/at-least-once"],
        SweepSettings("", "", 1, 24, 1, (1, 1), "test", system="spark"),
    )
    cell = with_fault(
        base, "lost", Drop(OnWire(role, Api.PRODUCE, Direction.REQUEST)), "It is lost.", 3
    )
    assert (registry.inapplicable(cell) or "").startswith(because or "")
    assert (registry.inapplicable(cell) is None) is (because is None)
