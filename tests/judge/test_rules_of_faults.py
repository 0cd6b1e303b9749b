"""The rules that faults arm: which answers count, and whose connections stand still."""

from __future__ import annotations

from typing import Any

import pytest

from harness.controls import InProgram, OnWire, Stop
from harness.faults import Kill, Pause
from harness.faults.triggers import rule_at
from harness.model.scenario import Role
from harness.protocols.kafka.steps import Api
from harness.systems.kafka.faults import StaleMember, TransactionTimeout, Zombie
from harness.wire.rules import Action, Direction, FreezeScope
from tests.judge.recording import played

REQUEST, RESPONSE = Direction.REQUEST, Direction.RESPONSE


@pytest.mark.parametrize("direction", Direction)
def test_an_answer_is_one_that_grants(direction: Direction) -> None:
    """What refuses is not the ack that was to be lost; a request has not been answered yet."""
    at = OnWire(Role.PRODUCER, Api.PRODUCE, direction)
    assert rule_at(at, Action.HOLD).granted is (direction is RESPONSE)
    assert not rule_at(at, Action.HOLD, errors=True).granted


@pytest.mark.parametrize(
    ("offset", "victims", "scope"),
    [
        (0, (Role.LEADER,), FreezeScope.NODE),
        (1, (Role.LEADER,), FreezeScope.CLIENT),
        (0, (Role.PRODUCER,), FreezeScope.CLIENT),
    ],
    ids=["the target's leader", "the next record may go elsewhere", "no broker"],
)
def test_only_the_victims_connections_stand_still(
    offset: int, victims: tuple[Role, ...], scope: FreezeScope
) -> None:
    """The next record's request may go to another broker than the one that is to die."""
    kill = Kill(OnWire(Role.PRODUCER, Api.PRODUCE, REQUEST, offset=offset), victims)
    assert [rule.freeze for rule in armed_by(kill)] == [scope]


def armed_by(fault: Any) -> list[Any]:
    """Return what a fault arms, in its order."""
    return [act for _, act in played(fault, ()).armed]


END = OnWire(Role.PROCESSOR, Api.END_TXN, REQUEST)


@pytest.mark.parametrize(
    "fault", [Pause(END), Zombie(END), TransactionTimeout(END)], ids=lambda fault: fault.id
)
def test_who_is_to_be_stopped_stands_still_with_all_it_has_open(fault: Any) -> None:
    """Until the stop has reached it, nothing else of it may get through: no heartbeat, no other
    request.
    """
    assert [(rule.action, rule.freeze) for rule in armed_by(fault)] == [
        (Action.HOLD, FreezeScope.CLIENT)
    ]


def test_one_that_is_to_hear_of_its_group_has_only_one_request_held() -> None:
    """It learns that it was put out while it waits for the answer."""
    assert [(rule.action, rule.freeze) for rule in armed_by(StaleMember(END, END))] == [
        (Action.HOLD, None)
    ] * 2


@pytest.mark.parametrize("fault", [Pause, Zombie], ids=lambda fault: fault.id)
def test_at_a_failpoint_it_stops_by_itself(fault: Any) -> None:
    at = InProgram(Role.CONSUMER, "before-commit")
    assert played(fault(at), ()).armed == [(at, Stop.PAUSE)]
