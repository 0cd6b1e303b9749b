"""The fault ``kill`` of a broker that stays away for longer than its consumers' sessions last."""

from __future__ import annotations

from dataclasses import replace

from harness.bench import OnWire
from harness.core.scenario import Role
from harness.core.settings import AT_LEAST_ONCE, SESSION_MS, Members
from harness.faults import Kill
from harness.programs.clients.librdkafka import OUTLIVES_MS, session_ms
from harness.wire.rules import Api, Direction
from tests.core.recording import steps

AT = OnWire(Role.CONSUMER, Api.OFFSET_COMMIT, Direction.REQUEST)


def test_it_is_started_when_the_sessions_are_over() -> None:
    """And not before: what the wire held is disposed of at once."""
    done = steps(Kill(AT, (Role.BROKER,), outlasting=True), AT)
    assert done == ["fired", "kill", "applied", "resolve OffsetCommit discard", "outlast_session", "restart", "healed"]
    assert "outlast_session" not in steps(Kill(AT, (Role.BROKER,)), AT)


def test_a_static_member_of_librdkafka_outlives_what_no_scenario_asks_for() -> None:
    """A session that a scenario names is that one; other members, and other clients, have the usual one."""
    static = AT_LEAST_ONCE.consumer
    assert static.session_ms == SESSION_MS < session_ms(static) == OUTLIVES_MS
    assert session_ms(replace(static, session_timeout_ms=SESSION_MS)) == SESSION_MS
    assert session_ms(replace(static, members=Members.DYNAMIC)) == SESSION_MS
