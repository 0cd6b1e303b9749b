"""Which groups a dead stage is put out of: its own, also those in which it has no position."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from harness.model.scenario import Role
from harness.systems.declared.transport.log import bury_one, expel
from harness.systems.declared.wire.members import GroupMembers
from tests.events import events_of

if TYPE_CHECKING:
    from harness.model.history import Event

PRODUCER, CONSUMER = Role.PRODUCER, Role.CONSUMER


def joined(conn: int, role: Role, group: str) -> list[Event]:
    """Return the lines of a connection that joins a group."""
    opened = {"event": "conn", "phase": "open", "conn": conn, "role": str(role), "node": "broker-1"}
    member = {"event": "group_member", "conn": conn, "request": f"{conn}:1", "api": "JoinGroup"}
    return list(
        events_of([opened, {**member, "group": group, "member": f"m{conn}", "generation": 1}])
    )


def expelled(role: Role, reads: set[Role], saved: dict[Role, set[str]], *lines: Event) -> list[str]:
    """Return which groups a dead stage is put out of, of a broker that has one more."""
    so_far: Any = SimpleNamespace(events=lambda since: lines[since:])
    asked: list[str] = []

    def ask(group: str) -> int:
        asked.append(group)
        return 0

    known = {"worker", "books", "elsewhere"}
    scene: Any = SimpleNamespace(
        roles=(PRODUCER, CONSUMER),
        pipeline=SimpleNamespace(
            dialect=SimpleNamespace(logs=True), reads=lambda role: role in reads
        ),
        stages_seen=SimpleNamespace(groups=lambda role: saved.get(role, set())),
        members=GroupMembers(so_far),
        kafka=SimpleNamespace(
            deletable_groups=lambda _: tuple(sorted(known)),
            observer=SimpleNamespace(expel=ask),
        ),
        history=SimpleNamespace(write=lambda _: None),
    )
    expel(scene, role)
    return asked


WORKER = joined(3, PRODUCER, "worker")


@pytest.mark.parametrize(
    ("role", "reads", "saved", "lines", "groups"),
    [
        # a source connector's worker has a group, and no position in it
        (PRODUCER, {CONSUMER}, {}, WORKER, ["worker"]),
        (PRODUCER, set(), {}, WORKER, ["worker"]),
        (PRODUCER, {CONSUMER}, {}, [], []),
        # the one reader's are all that nobody else is in
        (CONSUMER, {CONSUMER}, {CONSUMER: {"books"}}, WORKER, ["books", "elsewhere"]),
        (CONSUMER, {CONSUMER}, {}, [], ["books", "elsewhere", "worker"]),
        # not one in which another stage lives
        (PRODUCER, {CONSUMER}, {}, [*WORKER, *joined(4, CONSUMER, "worker")], []),
        # one of several readers: what it saved a position in, or joined
        (CONSUMER, {CONSUMER, PRODUCER}, {CONSUMER: {"books"}}, WORKER, ["books"]),
    ],
)
def test_a_dead_stage_is_put_out_of_its_own_groups(
    role: Role, reads: set[Role], saved: dict[Role, set[str]], lines: list[Event], groups: list[str]
) -> None:
    assert expelled(role, reads, saved, *lines) == groups


@pytest.mark.parametrize(
    ("static", "restart", "groups"),
    [
        (None, True, [("workers", "m3"), ("books", "m4"), ("books", "m6")]),
        ("books", True, [("workers", "m3"), ("books", "m4")]),
        ("books", False, [("workers", "m3"), ("books", "m4"), ("books", "m6")]),
    ],
)
def test_a_dead_process_is_put_out_of_each_of_its_groups(
    static: str | None, restart: bool, groups: list[tuple[str, str]]
) -> None:
    """A worker of Kafka Connect is in one with other workers; its tasks are two members of another.
    Who comes back in its own place stays, and so does who lives.
    """
    lines = [
        line
        for conn, pid, group in ((3, 30, "workers"), (4, 30, "books"), (5, 50, "books"))
        for line in (*joined(conn, CONSUMER, group), owned(conn, pid))
    ]
    lines += [*joined(6, CONSUMER, "books"), owned(6, 30)]
    lines += joined(4, CONSUMER, "books")[1:]  # the same member, in the next generation
    if static:
        member = {"event": "group_member", "conn": 6, "request": "6:2", "api": "JoinGroup"}
        told = {**member, "group": static, "member": "m6", "generation": 2, "instance": "one"}
        lines += events_of([told])
    so_far: Any = SimpleNamespace(events=lambda since: lines[since:])
    asked: list[tuple[str, str]] = []

    def ask(group: str, only: list[str]) -> int:
        asked.extend((group, member) for member in only)
        return len(only)

    stage = SimpleNamespace(restart=restart)
    scene: Any = SimpleNamespace(
        pipeline=SimpleNamespace(
            dialect=SimpleNamespace(logs=True), stage=lambda role: stage if role else None
        ),
        members=GroupMembers(so_far),
        kafka=SimpleNamespace(deletable_groups=tuple, observer=SimpleNamespace(expel=ask)),
        history=SimpleNamespace(write=lambda _: None),
    )
    bury_one(scene, CONSUMER, 30)
    assert asked == groups


def owned(conn: int, pid: int) -> Event:
    """Return the line that says whose a connection is."""
    line = {"event": "owner", "conn": conn, "role": "consumer", "pid": pid, "command": "java"}
    return next(iter(events_of([line])))
