"""Which members the consumer groups of a run have, and which partitions: what the wire has seen of
the brokers' answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.model import events as kinds
from harness.systems.declared.wire.seen import SeenOnWire

if TYPE_CHECKING:
    from harness.model.history import Event
    from harness.model.tail import SoFar


class GroupMembers(SeenOnWire):
    """The members of the groups so far."""

    def __init__(self, so_far: SoFar) -> None:
        super().__init__(so_far)
        self._pids: dict[int, int] = {}
        self._last: dict[tuple[int, str, str], kinds.GroupMember] = {}
        """By connection, group and member: its last line there."""
        self._assigned: dict[tuple[str, str], kinds.GroupMember] = {}
        """By group and member: what it was assigned last."""
        self._static: set[tuple[str, str]] = set()
        """Group and member of those that come back under a name of their own."""

    def of(self, role: str) -> list[kinds.GroupMember]:
        """Return what each living member of a stage was assigned last: it may be nothing."""
        with self._up_to_date():
            return [
                line
                for line in self._assigned.values()
                if self._role_of.get(line.conn) == role and line.conn not in self._closed
            ]

    def joined(self, role: str) -> list[kinds.GroupMember]:
        """Return the last line about each living member of a stage, assigned something or not."""
        with self._up_to_date():
            return [
                line
                for line in self._last.values()
                if self._role_of.get(line.conn) == role and line.conn not in self._closed
            ]

    def groups(self, role: str) -> set[str]:
        """Return the groups that a stage has joined: a worker of Kafka Connect is in one that has
        no positions.
        """
        with self._up_to_date():
            return {
                line.group for line in self._last.values() if self._role_of.get(line.conn) == role
            }

    def memberships(self, pid: int) -> list[kinds.GroupMember]:
        """Return the last line about each member that a process is or was, the latest last.

        A worker of Kafka Connect is in one group with others, and its tasks are members of other
        groups. Several threads may each be a member of one group.
        """
        with self._up_to_date():
            mine = [line for line in self._last.values() if self._pids.get(line.conn) == pid]
        ordered = sorted(mine, key=lambda line: line.t)
        latest = {(line.group, line.member): line for line in ordered}
        return sorted(latest.values(), key=lambda line: line.t)

    def pid(self, member: kinds.GroupMember) -> int | None:
        """Return the process of a member's line; ``None`` if it is unknown."""
        with self._up_to_date():
            return self._pids.get(member.conn)

    def is_static(self, member: kinds.GroupMember) -> bool:
        """Say whether a member has a name that its next life has, too: it takes its place."""
        with self._up_to_date():
            return (member.group, member.member) in self._static

    def _take(self, event: Event) -> None:
        match event:
            case kinds.Owner(conn=int() as conn):
                self._pids[conn] = event.pid
            case kinds.GroupMember(error=0):
                self._take_member(event)

    def _take_member(self, event: kinds.GroupMember) -> None:
        self._last[event.conn, event.group, event.member] = event
        if event.instance is not None:
            self._static.add((event.group, event.member))
        if event.assigned is not None:
            self._assigned[event.group, event.member] = event
