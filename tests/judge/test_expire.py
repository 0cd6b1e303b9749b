"""The fault ``expire``: the order of its steps. The source waits, so that exactly what was stored
meanwhile is at stake.
"""

from __future__ import annotations

import pytest

from harness.controls import InProgram, OnWire
from harness.model.scenario import Role
from harness.protocols.kafka.steps import Api
from harness.systems.kafka.faults import OffsetsExpired
from harness.wire.rules import Direction
from tests.judge.recording import steps

AT = InProgram(Role.CONSUMER, "after-commit")
UNTIL = OnWire(Role.PRODUCER, Api.PRODUCE, Direction.REQUEST, offset=2)


def test_the_source_waits_until_the_reader_knows_where_it_goes_on() -> None:
    """Dead first, then without positions, then back; only then the next record comes."""
    assert steps(OffsetsExpired(AT, UNTIL), AT, UNTIL) == [
        "fired",
        "kill",
        "applied",
        "SavedPositions.forget",
        "restart",
        "SavedPositions.await_reading",
        "resolve Produce release",
        "healed",
    ]


@pytest.mark.parametrize(
    "fires", [(), (UNTIL,), (AT,)], ids=["nothing", "only the source", "only the reader"]
)
def test_half_a_fault_never_heals(fires: tuple[InProgram | OnWire, ...]) -> None:
    """Where one of the two triggers is not hit, the judge is told of no healing, and the cell is
    void.
    """
    assert "healed" not in steps(OffsetsExpired(AT, UNTIL), *fires)
