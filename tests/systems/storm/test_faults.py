"""What a worker suffers that dies while one of its connections is behind another."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import pytest

from harness.controls import Fired, NotFiredError, OnWire
from harness.model.scenario import Role
from harness.protocols.zookeeper.steps import Op
from harness.systems.storm.faults import KillBetween
from harness.wire.rules import Direction, How

if TYPE_CHECKING:
    from harness.controls import Controls

AT = OnWire(Role.PROCESSOR, Op.SET_DATA, Direction.REQUEST)
THEN = OnWire(Role.PROCESSOR, Op.DELETE, Direction.RESPONSE)


@dataclass
class RecordingControls:
    """Controls that write down what is asked of them, and who dies. ``fires``: which
    triggers do.
    """

    fires: tuple[OnWire, ...] = (AT, THEN)
    said: list[str] = field(default_factory=list)
    frozen: dict[OnWire, object] = field(default_factory=dict)
    role: Role = Role.PROCESSOR
    name: str = "worker"

    def arm(self, trigger: OnWire, rule: Any) -> None:
        """Remember what stands still with it."""
        self.frozen[trigger] = rule.freeze

    def await_fired(self, trigger: OnWire) -> Fired:
        """Fire, where it is to."""
        if trigger not in self.fires:
            raise NotFiredError(trigger)
        self.said.append(f"hit {trigger.api}")
        return Fired(None, "worker", str(trigger.api))

    def resolve(self, hold: str | None, how: How) -> bool:
        """Write it down."""
        self.said.append(f"{how} {hold}")
        return False

    def target(self, role: Role, node: str | None = None) -> RecordingControls:
        """It is its own victim."""
        assert (role, node) == (Role.PROCESSOR, "worker")
        return self

    def kill(self) -> None:
        """Write it down."""
        self.said.append("killed")

    def restart(self) -> None:
        """Write it down."""
        self.said.append("restarted")

    def say(self, phase: str, **fields: Any) -> None:  # noqa: ARG002 - as controls are asked
        """Write it down."""
        self.said.append(phase)


def test_a_worker_dies_between_the_two() -> None:
    """Nothing else of it stands still: whichever comes first must not keep the other
    from coming.
    """
    told = RecordingControls()
    fault = KillBetween(AT, THEN)
    fault.arm(cast("Controls", told))
    assert told.frozen == {AT: None, THEN: None}
    fault.inject(cast("Controls", told))
    assert told.said == [
        "armed",
        "hit setData",
        "fired",
        "hit delete",
        "killed",
        "applied",
        f"{How.DISCARD} setData",
        f"{How.DISCARD} delete",
        "restarted",
        "healed",
    ]


def test_where_the_second_never_comes_nobody_dies() -> None:
    told = RecordingControls(fires=(AT,))
    with pytest.raises(NotFiredError):
        KillBetween(AT, THEN).inject(cast("Controls", told))
    assert "killed" not in told.said


def test_both_are_of_one_process() -> None:
    """Else nobody could say who dies between them."""
    with pytest.raises(ValueError, match="at and then must have the same role"):
        KillBetween(AT, OnWire(Role.PRODUCER, Op.DELETE, Direction.RESPONSE))
    with pytest.raises(ValueError, match="never arrives"):
        KillBetween(THEN, THEN)
