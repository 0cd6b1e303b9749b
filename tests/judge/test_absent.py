"""The fault ``absent``: the group goes on without a member, and only then its request to join
arrives.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.controls import OnWire
from harness.model.scenario import Role
from harness.protocols.kafka.steps import Api
from harness.systems.kafka.faults import MissedRebalance
from harness.wire.rules import Direction
from tests.judge.recording import steps

AT = OnWire(Role.CONSUMER, Api.FETCH, Direction.RESPONSE)
JOINS = OnWire(Role.CONSUMER, Api.JOIN_GROUP, Direction.REQUEST, since=AT)


def test_it_asks_to_join_when_the_others_have_finished() -> None:
    """A newcomer makes the group gather; the member is put out; the others work; then its request
    arrives, the answer never.
    """
    assert steps(MissedRebalance(AT), AT, JOINS) == [
        "fired",
        "arm joins",
        "Rebalance.join consumer",
        "applied",
        "Membership.await_expired consumer",
        "await_exhausted",
        "settle",
        "resolve Fetch discard",
        "resolve JoinGroup release",
        "SavedPositions.await_reading",
        "healed",
    ]


def test_a_member_that_is_not_asked_to_join_again_never_heals() -> None:
    assert "healed" not in steps(MissedRebalance(AT), AT)


def test_only_an_answer_keeps_a_member_waiting() -> None:
    """A request that is held could hold up its requests to the group, too."""
    with pytest.raises(ValueError, match="at must be a response"):
        MissedRebalance(replace(AT, direction=Direction.REQUEST))
