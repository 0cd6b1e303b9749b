"""When a stage of several processes is complete, so that the load may begin."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from harness.model.scenario import Role
from harness.pipelines.connectors import Connector
from harness.pipelines.stages import Stage
from harness.systems.declared.programs.command import StageCommand
from harness.systems.declared.programs.stages import have_gathered
from harness.systems.declared.wire.members import GroupMembers
from tests.events import events_of

if TYPE_CHECKING:
    from pathlib import Path

COMMAND = {"command": ("run",)}
SINK = {"connector": "sink.json"}
SETTINGS = {"connector.class": "A"}


def member(conn: int, pid: int, group: str = "books", assigned: list[str] | None = None) -> Any:
    """Return what is seen of a member of a process; none assigned: of a group of workers."""
    opened = {"event": "conn", "phase": "open", "conn": conn, "role": "consumer"}
    owner = {"event": "owner", "conn": conn, "role": "consumer", "pid": pid, "command": "java"}
    joined = {"event": "group_member", "conn": conn, "api": "JoinGroup", "group": group}
    told = {**joined, "member": f"m{conn}", "assigned": assigned}
    return [{**opened, "node": "broker-1"}, owner, told]


ONE, OTHER = 30, 50
TASKS = [
    *member(1, ONE, "workers"),
    *member(2, ONE, "connect-orders", ["orders/0"]),
    *member(3, ONE, "connect-orders-coord", ["control/0"]),
]
CLOSED = [{"event": "conn", "phase": "close", "conn": 9, "role": "consumer", "node": "broker-1"}]


@pytest.mark.parametrize(
    ("runs", "tasks", "lines", "gathered"),
    [
        (COMMAND, 1, [*member(1, ONE, assigned=["o/0"]), *member(2, OTHER, assigned=[])], True),
        (COMMAND, 1, [*member(1, ONE, assigned=["o/0"]), *member(2, OTHER)], False),
        # two threads of one process, of two
        (COMMAND, 1, [*member(1, ONE, assigned=["o/0"]), *member(2, ONE, assigned=[])], False),
        # one worker with three members; then the second, which has nothing to do with one task
        (SINK, 1, TASKS, False),
        (SINK, 1, [*TASKS, *member(9, OTHER, "workers")], True),
        (SINK, 1, [*TASKS, *member(9, OTHER, "workers"), *CLOSED], False),
        # of two tasks the second worker gets one
        (SINK, 2, [*TASKS, *member(9, OTHER, "workers")], False),
        (
            SINK,
            2,
            [*TASKS, *member(9, OTHER, "workers"), *member(4, OTHER, assigned=["orders/1"])],
            True,
        ),
        # of one that lostack did not start, or whose owner is unknown
        (SINK, 1, [*TASKS, *member(9, 70, "workers")], False),
    ],
)
def test_several_have_gathered_when_each_process_has_joined(
    runs: Any, tasks: int, lines: list[Any], *, gathered: bool, tmp_path: Path
) -> None:
    (tmp_path / "sink.json").write_text(json.dumps(SETTINGS | {"tasks.max": str(tasks)}))
    seen = list(events_of(lines))
    so_far: Any = SimpleNamespace(events=lambda since: seen[since:])
    stage = Stage(role=Role.CONSUMER, scale=2, **runs)
    place: Any = {"bootstrap": "127.0.0.1:1", "work": tmp_path}
    command = StageCommand(stage, place, tmp_path, tmp_path / "log", tmp_path, members=2)
    numbers = {ONE: 1, OTHER: 2}
    processes = SimpleNamespace(number_of=lambda pid: numbers.get(pid, 0))
    node: Any = SimpleNamespace(command=command, name="consumer", processes=processes)
    assert have_gathered(GroupMembers(so_far), node) is gathered


@pytest.mark.parametrize(
    ("settings", "tasks"), [({"tasks.max": 3}, 3), ({"tasks.max": "2"}, 2), ({}, 1)]
)
def test_a_connector_says_how_many_tasks_it_may_have(
    settings: dict[str, object], tasks: int, tmp_path: Path
) -> None:
    """Its worker alone can read a variable."""
    (tmp_path / "a.json").write_text(json.dumps(SETTINGS | settings))
    assert Connector.read(tmp_path / "a.json").tasks == tasks
    assert Connector("a", {"tasks.max": "${env:TASKS}"}).tasks == 1
