"""Kafka between the stages of a declared pipeline: topics whose readers save positions with their
groups.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

from kafka.errors import KafkaError

from harness.model import events as kinds
from harness.model.failures import CellFailure
from harness.model.waiting import WaitTimeoutError, wait_until
from harness.run.drain import Check
from harness.systems.declared.wire.topics import HIDDEN

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from harness.model.scenario import Role
    from harness.systems.declared.scene import Scene
    from harness.systems.declared.transport.authorities import Authorities
    from harness.systems.declared.transport.positions import Positions

TOO_LARGE = (10, 18)
"""Errors of a broker that refuses a batch for its size: MESSAGE_TOO_LARGE,
RECORD_LIST_TOO_LARGE.
"""
GUESTS_S = 60.0
"""How long (seconds) a cell waits for members of its groups to go: longer than their session, which
is 45 s by default.
"""
HELD_BACK_S = 3.0
"""If an open transaction holds readers back for longer (seconds), the history says so."""
PASSES_S = 0.5
"""How long (seconds) a transaction is open at most with which a program speaks to itself."""
HELD_BACK_BY = (
    "isolation.level=read_committed waits for its end, transaction.timeout.ms brings it about"
)


class Log:
    """A Kafka topic between stages. Implements
    :class:`harness.systems.declared.transport.interface.Transport`.
    """

    unanswered: tuple[type[Exception], ...] = (KafkaError,)

    def __init__(self, scene: Scene, positions: Positions, authorities: Authorities) -> None:
        self._scene = scene
        self._positions = positions
        self._authorities = authorities
        self._peopled: frozenset[str] = frozenset()
        """The groups of the brokers that had members before a stage was started."""
        self._open_since: dict[tuple[str, int, int], float] = {}
        """Since when a transaction is open in a partition, at which offset."""
        self._held_back: tuple[tuple[str, int] | None, float] = None, time.monotonic()
        """The partition whose readers an open transaction holds back, at which offset, and since
        when.
        """

    @property
    def tail(self) -> bool:
        """Whether the last records are in the output although no position will be
        saved past them.
        """
        return self._positions.tail

    def begin(self) -> None:
        """Wait until the groups known so far have no members; note which other groups have some.

        Raises:
            CellFailure: a group of the pipeline has members although no stage runs.
        """
        kafka = self._scene.kafka

        def alone() -> bool:
            self._peopled = kafka.observer.peopled()
            return self._peopled.isdisjoint(kafka.groups(()))

        try:
            wait_until(alone, within_s=GUESTS_S, because="the groups to be empty", poll_s=0.2)
        except WaitTimeoutError as error:
            raise _guests(self._peopled & set(kafka.groups(()))) from error

    def checks(self) -> Sequence[Check]:
        """Return the checks that no transaction is open and that no reader is behind."""
        return Check("topic", self.trouble), Check("position", self._positions.trouble)

    def settled(self) -> bool:
        """Say whether no group is behind in the pipeline's topic."""
        return self._positions.trouble_in_topic() is None

    def trouble(self) -> str | None:
        """Say which partition has an open transaction, or return ``None``; the history notes a long
        one.

        Where programs speak to themselves, as a sink of Connect does for ever, only one that stays
        open counts: it holds their readers back.
        """
        loaded, now = self._scene.topics_seen.with_records(), time.monotonic()
        ends = {
            (topic, partition): each
            for topic in sorted({*self._scene.pipeline.topics, *loaded})
            for partition, each in self._scene.kafka.observer.ends(topic).items()
            if each.stable != each.end
        }
        since = {
            (*place, each.stable): self._open_since.get((*place, each.stable), now)
            for place, each in ends.items()
        }
        self._open_since = since
        held = [
            at
            for at, began in since.items()
            if not at[0].startswith(HIDDEN) or at[0] in loaded or now - began >= PASSES_S
        ]
        longest = min(held or since, key=lambda at: since[at], default=None)
        self._hold_back(longest and (f"{longest[0]}/{longest[1]}", longest[2]))
        if not held or longest is None:
            return None
        topic, partition, stable = longest
        end = ends[topic, partition].end
        return f"{topic}/{partition}: last stable offset {stable}, high watermark {end}"

    def refused(self) -> str | None:
        """Say which record the broker refuses for its size, or return ``None``.

        A refused batch of several records does not count: the client may send its records one by
        one.
        """
        refused = self._scene.records_seen.refused(*TOO_LARGE)
        sent = (
            [e for e in self._scene.so_far.of(kinds.Sent) if e.request in refused]
            if refused
            else []
        )
        batches = Counter((e.request, e.topic, e.partition) for e in sent)
        for event in sent:
            if batches[event.request, event.topic, event.partition] == 1:
                return (
                    f"the record {event.record} is too large for {event.topic}: the broker "
                    "refuses it (MESSAGE_TOO_LARGE); send records smaller than "
                    "max.message.bytes (1048588 by default): compress them, or send a reference "
                    "to data that is stored elsewhere"
                )
        return None

    def members(self) -> int:
        """Return how many members the cell's groups have now."""
        return sum(len(self._scene.kafka.observer.members(group)) for group in self._scene.groups())

    def observe(self) -> None:
        """Ask every authority, and note the end of a transaction that held readers back.

        Raises:
            CellFailure: a group that the stages used had members before they were started.
        """
        if guests := self._peopled & set(self._scene.groups()):
            raise _guests(guests)
        self._hold_back(None)
        self._authorities.observe()

    def _hold_back(self, at: tuple[str, int] | None) -> None:
        """Note which partition's readers an open transaction holds back, and at which offset;
        ``None`` if there is none.

        Readers that go on, from one transaction to the next, are not held back.
        """
        before, since = self._held_back
        if at == before:
            return
        if before is not None and (seconds := time.monotonic() - since) > HELD_BACK_S:
            self._scene.history.write(
                kinds.HeldBack(log=before[0], seconds=round(seconds, 1), because=HELD_BACK_BY)
            )
        self._held_back = at, time.monotonic()


def expel(scene: Scene, role: Role) -> None:
    """Remove the dead members of a stage's groups, as their session time-out would, only sooner."""
    readers = [each for each in scene.roles if scene.pipeline.reads(each)]
    mine = scene.stages_seen.groups(role) | scene.members.groups(role)
    if not scene.pipeline.dialect.logs or not (mine or role in readers):
        return
    groups = set(scene.kafka.deletable_groups(mine))
    others = {group for each in scene.roles if each != role for group in scene.members.groups(each)}
    for group in sorted((groups if readers == [role] else groups & mine) - others):
        if count := scene.kafka.observer.expel(group):
            scene.history.write(kinds.Expelled(group=group, members=count, role=role))


def expel_one(scene: Scene, role: Role, member: kinds.GroupMember) -> None:
    """Remove one member from its group, as its session time-out would, only sooner."""
    if member.group not in scene.kafka.deletable_groups({member.group}):
        return
    if scene.kafka.observer.expel(member.group, [member.member]):
        scene.history.write(
            kinds.Expelled(group=member.group, members=1, role=role, member=member.member)
        )


def expel_process(
    scene: Scene, role: Role, pid: int, which: Callable[[kinds.GroupMember], bool] = lambda _: True
) -> None:
    """Remove all members that one process is from their groups; one that has left is not there. One
    that the wire did not see join stays.
    """
    for member in scene.members.memberships(pid) if scene.pipeline.dialect.logs else ():
        if which(member):
            expel_one(scene, role, member)


def bury_one(scene: Scene, role: Role, pid: int) -> None:
    """Remove the dead members of one process from their groups, unless they come back in their own
    places: static members that are started again.
    """
    stage = scene.pipeline.stage(role)
    if stage is not None and stage.restart:
        expel_process(scene, role, pid, lambda member: not scene.members.is_static(member))
    else:
        expel_process(scene, role, pid)


def _guests(groups: Collection[str]) -> CellFailure:
    """Return the failure for a foreign member of the pipeline's groups."""
    named = ", ".join(sorted(groups))
    return CellFailure(
        f"the group {named} had members before a stage was started, and they take records: stop "
        "the programs that use this group, or give the pipeline a group of its own"
    )
