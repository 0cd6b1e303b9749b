"""A task that works again is at work for lostack when its worker says so, too."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from lostack_connect.workers import Workers


def test_a_task_that_works_again_is_not_failed_any_more() -> None:
    """The status comes by a topic, and says FAILED for a moment longer."""
    states, asked = iter(["RUNNING", "FAILED", "FAILED", "FAILED", "RUNNING"]), []

    def restart(name: str) -> None:
        asked.append(name)

    rest = SimpleNamespace(
        status=lambda _: {"tasks": [{"state": next(states)}]}, restart_task=restart
    )
    workers: Any = SimpleNamespace(nodes=[SimpleNamespace(rest=rest)], _await_task=lambda _: None)
    Workers.restart_task(workers)
    assert len(asked) == 1
    assert next(states, None) is None
