"""Let a member of a group learn that the group shares out anew while its position is on its way."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from harness.model import events as kinds
from harness.model.struck import hits_of
from harness.proofs.moved import is_incremental
from harness.proofs.told import SAVED, SAVING, TELLING, log_of, tells, told_of
from harness.protocols.kafka.steps import Api
from harness.wire.rules import Action, Direction, How, Rule

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.model.scenario import Role
    from harness.systems.declared.scene import Scene

TOLD_S: Final = 20.0
"""How long a group may take to tell a member: until its next heartbeat, 3 s or 5 s in most
clients.
"""
SAVES_S: Final = 7.0
"""How long a member may take to save a position by its clock, which most clients do every 5 s."""
PARTS_S: Final = 7.0
"""How long a group may take to part a member that has been told from its partition: in the newer
protocol another has it at its own next heartbeat, 5 s later.
"""
INCREMENTAL: Final = (Api.SYNC_GROUP, Api.CONSUMER_GROUP_HEARTBEAT)
"""The requests whose answers take partitions from members that keep the others."""
LATE_S: Final = 2.0
"""For how long a position is on its way when its member has been told: what a client does then that
does not wait for it, it does within that time.
"""


@dataclass(eq=False)
class Telling:
    """Holds what tells one member, and what it asks. ``mine``: returns its connections; ``wait``
    waits until something is so, within so many seconds, because of what; ``more`` lets the load go
    on.
    """

    scene: Scene
    role: Role
    mine: Callable[[], set[int | None]]
    wait: Callable[[Callable[[], object], float, str], bool]
    more: Callable[[], None]
    _rules: list[Rule] = field(default_factory=list)
    _keeps: set[str] = field(default_factory=set)
    """The rules whose holds are kept, by name; of other members nothing is."""
    _handled: set[str] = field(default_factory=set)

    def begin(self) -> None:
        """Hold from now on what may tell the member. By an incremental assignor it joins again when
        its heartbeat is refused, and only SyncGroup's answer takes a partition away.
        """
        mine = self.mine()
        lines = [e for e in self.scene.so_far.of(kinds.GroupMember) if e.conn in mine]
        incremental = any(map(is_incremental, lines))
        for api in INCREMENTAL if incremental else (Api.HEARTBEAT,):
            self._arm(f"{TELLING}-{api}", api, Direction.RESPONSE)

    def tell(self, *, answered: bool) -> None:
        """Let the member learn of it, and its next position be late: its request, or (``answered``)
        its answer.
        """
        self.wait(self._told, TOLD_S, "the member to be told")
        self._arm(SAVING, Api.OFFSET_COMMIT, Direction.REQUEST)
        self.more()  # all that it was given may be saved
        if not self.wait(lambda: self._held(SAVING), self._saves_s, "a position to be saved"):
            self._release(TELLING)  # only now it has reason to
            self.wait(lambda: self._held(SAVING), SAVES_S, "the member to save its position")
        if answered:
            self._arm(SAVED, Api.OFFSET_COMMIT, Direction.RESPONSE)
            self._release(SAVING)
        self._release(TELLING)
        if answered:
            self.wait(lambda: self._held(SAVED), TOLD_S, "the position to be saved")
        self.wait(self._revoked, TOLD_S, "the member to be told of its partitions")
        self.wait(lambda: False, LATE_S, "what the member does meanwhile")
        self.end()

    def tell_at_once(self, parted: Callable[[], object]) -> None:
        """Let the member learn of it, and wait for a while until the two are ``parted``."""
        if self.wait(self._told, TOLD_S, "the member to be told"):
            self._release(TELLING)
            self.wait(parted, PARTS_S, "the partition to be another's")
        self.end()

    def look(self) -> None:
        """Let go what need not be held: of other members, and what tells nothing."""
        mine = self.mine()
        for hit in self._hits():
            kept = hit.conn in mine and any(hit.rule.startswith(name) for name in self._keeps)
            if kept and (not self._is_telling(hit) or self._tells(hit)):
                continue
            self._handled.add(hit.held or "")
            self.scene.brokers.wire.resolve(hit.held or "", How.RELEASE)

    def end(self) -> None:
        """Hold nothing more."""
        self._keeps.clear()
        for rule in self._rules:
            self.scene.brokers.wire.disarm(self.scene.cell.id, rule.id)
        self.look()
        self._rules.clear()

    # --- inside -----------------------------------------------------------------------------------

    def _arm(self, name: str, api: Api, direction: Direction) -> None:
        rule = Rule(
            name, Action.HOLD, api=api, direction=direction, role=str(self.role), limit=None
        )
        self._keeps.add(name)
        self._rules.append(rule)
        self.scene.brokers.wire.arm(self.scene.cell.id, rule)

    @property
    def _saves_s(self) -> float:
        """How long a member may take to save a position while what tells it is held: half of its
        session, at most, for it is put out behind that.
        """
        mine, frames = self.mine(), self.scene.so_far.of(kinds.Frame)
        sessions = (e.session_ms / 2000 for e in frames if e.session_ms and e.conn in mine)
        return min([SAVES_S, *sessions])

    def _release(self, name: str) -> None:
        self._keeps = {each for each in self._keeps if not each.startswith(name)}
        self.look()

    def _hits(self) -> list[kinds.Rule]:
        """Return what is held."""
        names = tuple(rule.id for rule in self._rules)
        return [
            e
            for e in hits_of(self.scene.so_far, names)
            if e.held is not None and e.held not in self._handled
        ]

    def _held(self, name: str) -> bool:
        mine = self.mine()
        return any(hit.rule == name and hit.conn in mine for hit in self._hits())

    @staticmethod
    def _is_telling(hit: kinds.Rule) -> bool:
        return hit.rule.startswith(TELLING)

    def _tells(self, hit: kinds.Rule) -> bool:
        return tells(hit, log_of(self.scene.so_far, self.scene.load.target.id))

    def _revoked(self) -> bool:
        """Whether the member was told to give the target's partition up."""
        return any(told_of(self.scene.so_far, self.scene.load.target.id))

    def _told(self) -> bool:
        mine = self.mine()
        return any(
            self._is_telling(hit) and hit.conn in mine and self._tells(hit) for hit in self._hits()
        )
