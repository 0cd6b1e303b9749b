"""The fault ``crash-at-write``: the order of its steps, and what it says where no write is known,
or none comes.
"""

from __future__ import annotations

import pytest

from harness.controls import AtWrite, OnWire
from harness.faults import CrashAtWrite
from harness.model.scenario import Evidence, Role
from harness.model.writes import Point, Side
from harness.protocols.kafka.steps import Api
from harness.wire.rules import Direction
from tests.judge.recording import played

GIVEN = (Api.FETCH, Direction.RESPONSE)
POINT = Point("rename", 2, Side.BEFORE)
AT = AtWrite(Role.CONSUMER, POINT, OnWire(Role.CONSUMER, *GIVEN))


def test_it_dies_where_it_is_held() -> None:
    """Armed at the target's way to the reader; killed when somebody is held, and only then."""
    armed = ["DurableWrites.arm", "armed"]
    controls = played(CrashAtWrite(Role.CONSUMER, GIVEN, POINT), [AT])
    assert controls.done == [*armed, "fired", "kill", "applied", "restart", "healed"]
    assert controls.calls[0] == ("DurableWrites.arm", (AT,))
    assert played(CrashAtWrite(Role.CONSUMER, GIVEN, POINT), []).done == armed


def test_its_evidence_is_the_write_that_was_armed() -> None:
    """Behind the record, by its call, its number and its side; and the stage's death."""
    wanted = Evidence("durable", killed=(Role.PROCESSOR,), approached=True, write="before rename 2")
    assert CrashAtWrite(Role.PROCESSOR, GIVEN, POINT).evidence() == wanted


def test_without_a_dry_run_there_is_nothing_to_arm() -> None:
    """A name without a write is for choosing, and never runs."""
    with pytest.raises(
        ValueError, match="no dry run has shown yet which durable writes the consumer makes"
    ):
        played(CrashAtWrite(Role.CONSUMER, GIVEN))
