"""Which groups a dead stage is put out of: its own, also those in which it has no position."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from harness.model.scenario import Role
from harness.systems.declared.transport.log import expel
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
