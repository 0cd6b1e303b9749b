"""The fault ``crash-at-write``: the order of its steps, and what it says where no write is known, or none comes."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from harness.controls import AtWrite, Fired, NotFiredError
from harness.core.scenario import Evidence, Role
from harness.core.writes import Point, Side
from harness.faults import CrashAtWrite

POINT = Point("rename", 2, Side.BEFORE)


# ruff: noqa: ARG002 - the stand-in takes what the real one takes
class Bench:
    """Writes down what a fault does; ``fires`` says whether somebody is held."""

    def __init__(self, *, fires: bool) -> None:
        self.fires = fires
        self.name = "consumer"
        self.done: list[str] = []

    def arm_write(self, trigger: AtWrite) -> None:
        """Write it down."""
        self.done.append(f"arm {trigger.since.api.label} {trigger.since.direction}, {trigger.point}")

    def say(self, phase: str, **fields: Any) -> None:
        """Write it down."""
        self.done.append(phase)

    def await_fired(self, trigger: AtWrite) -> Fired:
        """Return who is held."""
        if not self.fires:
            raise NotFiredError(trigger)
        return Fired(None, "consumer", None)

    def target(self, role: Role, node: str | None = None) -> Bench:
        """Return the only node there is."""
        return self

    def kill(self) -> None:
        """Write it down."""
        self.done.append("kill")

    def restart(self) -> None:
        """Write it down."""
        self.done.append("restart")


def steps(fault: CrashAtWrite, *, fires: bool) -> list[str]:
    """Return what the fault does on a bench."""
    bench: Any = Bench(fires=fires)
    fault.arm(bench)
    with suppress(NotFiredError):
        fault.inject(bench)
    return list(bench.done)


def test_it_dies_where_it_is_held() -> None:
    """Armed at the target's way to the reader; killed when somebody is held, and only then."""
    armed = ["arm Fetch response, before rename 2", "armed"]
    fault = CrashAtWrite(Role.CONSUMER, POINT)
    assert steps(fault, fires=True) == [*armed, "fired", "kill", "applied", "restart", "healed"]
    assert steps(fault, fires=False) == armed


def test_its_evidence_is_the_write_that_was_armed() -> None:
    """Behind the record, by its call, its number and its side; and the stage's death."""
    wanted = Evidence("durable", killed=(Role.PROCESSOR,), approached=True, write="before rename 2")
    assert CrashAtWrite(Role.PROCESSOR, POINT).evidence() == wanted


def test_without_a_dry_run_there_is_nothing_to_arm() -> None:
    """A name without a write is for choosing, and never runs."""
    with pytest.raises(ValueError, match="nobody has seen yet which durable writes the consumer makes"):
        steps(CrashAtWrite(Role.CONSUMER), fires=True)
