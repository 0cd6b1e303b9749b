"""The rules that faults arm: which answers count, and whose connections stand still."""

from __future__ import annotations

from typing import Any

import pytest

from harness.bench import OnWire
from harness.core.scenario import Role
from harness.faults import Kill
from harness.faults.firing import rule_at
from harness.wire.rules import Action, Api, Direction, FreezeScope, Rule

REQUEST, RESPONSE = Direction.REQUEST, Direction.RESPONSE


@pytest.mark.parametrize("direction", Direction)
def test_an_answer_is_one_that_grants(direction: Direction) -> None:
    """What refuses is not the ack that was to be lost; a request has not been answered yet."""
    at = OnWire(Role.PRODUCER, Api.PRODUCE, direction)
    assert rule_at(at, Action.HOLD).granted is (direction is RESPONSE)


@pytest.mark.parametrize(
    ("offset", "victims", "scope"),
    [
        (0, (Role.LEADER,), FreezeScope.NODE),
        (1, (Role.LEADER,), FreezeScope.CLIENT),
        (0, (Role.PRODUCER,), FreezeScope.CLIENT),
    ],
    ids=["the target's leader", "the next record may go elsewhere", "no broker"],
)
def test_only_the_victims_connections_stand_still(offset: int, victims: tuple[Role, ...], scope: FreezeScope) -> None:
    """The next record's request may go to another broker than the one that is to die."""
    armed: list[Rule] = []

    class Bench:
        def arm(self, _trigger: OnWire, rule: Rule) -> None:
            armed.append(rule)

        def say(self, _phase: str) -> None:
            """Nothing is written down."""

    bench: Any = Bench()
    Kill(OnWire(Role.PRODUCER, Api.PRODUCE, REQUEST, offset=offset), victims).arm(bench)
    assert [rule.freeze for rule in armed] == [scope]
