"""The fault ``kill`` of a broker that stays away for longer than its consumers' sessions last."""

from __future__ import annotations

from dataclasses import replace

from harness.controls import OnWire
from harness.faults import Kill
from harness.model.scenario import Role
from harness.protocols.kafka.steps import Api
from harness.stages.consumer_settings import OUTLIVES_MS, SESSION_MS, Members
from harness.stages.settings import AT_LEAST_ONCE
from harness.wire.rules import Direction
from tests.judge.recording import steps

AT = OnWire(Role.CONSUMER, Api.OFFSET_COMMIT, Direction.REQUEST)


def test_it_is_started_when_the_sessions_are_over() -> None:
    """And not before: what the wire held is disposed of at once."""
    done = steps(Kill(AT, (Role.BROKER,), outlasting=True), AT)
    assert done == [
        "fired",
        "kill",
        "applied",
        "resolve OffsetCommit discard",
        "SessionClock.outlast",
        "restart",
        "healed",
    ]
    assert "SessionClock.outlast" not in steps(Kill(AT, (Role.BROKER,)), AT)


def test_a_static_member_outlives_what_no_scenario_asks_for() -> None:
    """A session that a scenario names is that one; heartbeats, and the wait for an answer, do not
    grow with it.
    """
    static = AT_LEAST_ONCE.consumer
    assert (static.session_ms, static.heartbeat_ms, static.patience_ms) == (
        OUTLIVES_MS,
        SESSION_MS // 10,
        15_000,
    )
    assert replace(static, session_timeout_ms=SESSION_MS).session_ms == SESSION_MS
    assert replace(static, members=Members.DYNAMIC).session_ms == SESSION_MS
    short = replace(static, session_timeout_ms=500)
    assert (short.session_ms, short.heartbeat_ms, short.patience_ms) == (500, 100, 15_000)
    assert replace(static, session_timeout_ms=20_000).patience_ms == 21_000
