"""Change the group of a declared stage while its members live: one joins, leaves, or is put out."""

from __future__ import annotations

import contextlib
import os
import signal
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from harness.controls import OnWire
from harness.faults.triggers import rule_at
from harness.model import events as kinds
from harness.model.events import RegroupPhase
from harness.model.rebalances import Change, Regrouping
from harness.model.struck import hits_of
from harness.model.waiting import WaitTimeoutError, wait_until
from harness.proofs.moved import left_by_itself, seen_of
from harness.protocols.kafka.steps import Api
from harness.run.nodes import GRACE_S
from harness.runtimes.process.processes import is_alive
from harness.systems.declared.programs.errors import StageError
from harness.systems.declared.telling import Telling
from harness.systems.declared.transport.log import expel_one, expel_process
from harness.wire.rules import Action, Direction, How

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.model.scenario import Role
    from harness.run.controls import WireControls
    from harness.systems.declared.programs.nodes import CommandNode
    from harness.systems.declared.programs.targets import FaultTargets
    from harness.systems.declared.programs.workers import Victim
    from harness.systems.declared.scene import Scene
    from harness.wire.rules import Rule

JOINS_S: Final = 30.0
"""How long a new member may take to ask its group to join. A JVM takes a second or two."""
JOINING: Final = "joining"
"""The rule that holds requests to join."""
GIVEN_S: Final = 10.0
"""How long the target may take from the wire to its member."""
LEAVES_S: Final = 10.0
"""How much longer than its ``max.poll.interval`` a client may take to leave its group."""
MOVES_S: Final = 20.0
"""How long a group may take to share out its partitions anew. Its members learn at their next
heartbeat, 3 s or 5 s later in most clients.
"""


@dataclass(eq=False)
class GroupChange(Regrouping):
    """Changes the group of one stage. Implements :class:`harness.abilities.Regrouping`. ``victim``:
    the process that has the target; ``look``: called while anything is awaited; ``more`` lets
    the load go on.
    """

    scene: Scene
    controls: WireControls
    nodes: FaultTargets
    victim: Victim
    look: Callable[[], object]
    more: Callable[[], None]
    _change: Change = Change.JOINS
    _holder: kinds.GroupMember | None = None
    _stage_of: CommandNode | None = None
    _left: set[int] = field(default_factory=set)
    _rule: Rule | None = None
    """The rule that holds requests to join, while it is armed."""
    _holds_newest: bool = False
    _holds_holder: bool = False
    _telling: Telling | None = None
    _handled: set[str] = field(default_factory=set)
    """What was held and has been released, by name."""

    # --- the ability ------------------------------------------------------------------------------

    def prepare(self, role: Role, change: Change) -> None:
        """Start the member that is to join; its request to join is held. Members of the newer
        protocol have no such request: they join at once.

        Raises:
            StageError: the process that has the target never joined a group.
        """
        self._find(role, change)
        if change not in {Change.JOINS, Change.COMES_AND_GOES}:
            return
        self._holds_newest = True
        at = OnWire(role, Api.JOIN_GROUP, Direction.REQUEST)
        self._rule = rule_at(at, Action.HOLD, JOINING, role=str(role), limit=None)
        self.controls.undo(self._release_all)
        self.scene.brokers.wire.arm(self.scene.cell.id, self._rule)
        self._stage.processes.tell_member(self._newest, "start")
        self.scene.history.write(
            kinds.Regroup(role=self._stage.name, phase=RegroupPhase.STARTED, number=self._newest)
        )
        self._await(self._newest_asks, JOINS_S, "the new member to ask to join")

    def await_given(self) -> None:
        """Wait until the target has reached its member."""
        target = self.scene.load.target.id
        self._await(
            lambda: any(
                e.record == target and e.reached for e in self.scene.so_far.of(kinds.Fetched)
            ),
            GIVEN_S,
            "the target to reach its member",
        )

    def withhold(self, role: Role) -> None:
        """Hold from now on what tells the member with the target that the group shares out anew.

        Raises:
            StageError: the process that has the target never joined a group.
        """
        self._find(role, self._change)
        self._telling = Telling(self.scene, self._stage.role, self._mine, self._await, self.more)
        self.controls.undo(self._telling.end)
        self._telling.begin()

    def tell(self, *, answered: bool) -> None:
        """Let that member learn of it while its next position is on its way; ``answered``: while
        the answer to that is.
        """
        self._withheld.tell(answered=answered)

    def tell_at_once(self) -> None:
        """Let that member learn of it now, and wait for a while until its partition is assigned
        anew.
        """
        self._withheld.tell_at_once(self._moved)

    def begin(self, *, keep: bool = False) -> None:
        """Let the member join, tell members to end, or put one out. ``keep``: wait until the member
        that has the target asks to join again, hold its request, and put it out.
        """
        mine = self._stage.processes.number_of(self.victim.pid or 0)
        self._say_changed()
        match self._change:
            case Change.JOINS | Change.COMES_AND_GOES:
                self._holds_newest, self._holds_holder = False, keep
            case Change.LEAVES:
                self._tell(mine)
            case Change.OTHER_LEAVES:
                for number in sorted(self._stage.processes.by_number().keys() - {mine}):
                    self._tell(number)
            case Change.PUT_OUT:
                self._put_out()
            case Change.OVERDUE:
                within_s = (self._holder.poll_ms or 0) / 1000 + LEAVES_S if self._holder else 0.0
                self._await(self._has_left, within_s, "the member to leave by itself")
        if keep:
            self._await(
                lambda: self._held(newest=False), MOVES_S, "the first member to ask to join again"
            )
            self._put_out()
        if self._change is Change.COMES_AND_GOES:
            self._await(self._newest_has, MOVES_S, "the new member to have partitions")
            self._tell(self._newest)

    def await_moved(self) -> None:
        """Wait until the members that were told to end have ended, and the target's partition is
        assigned anew.
        """
        for number in sorted(self._left):
            self._await_end(number)
        self._await(self._moved, MOVES_S, "the partition to be assigned")

    def restore(self) -> None:
        """Let go what is held, and start the members again that were told to end; wait until they
        have asked to join.
        """
        self._release_all()
        back = sorted(self._left - ({self._newest} if self._joins else set()))
        for number in back:
            self._stage.processes.tell_member(number, "start")
        for number in back:
            self._await(lambda number=number: self._asks(number), JOINS_S, "a member to be back")  # type: ignore[misc]  # bound at once

    @property
    def _stage(self) -> CommandNode:
        if self._stage_of is None:
            raise RuntimeError("no group is changed")
        return self._stage_of

    @property
    def _withheld(self) -> Telling:
        if self._telling is None:
            raise RuntimeError("nothing is withheld")
        return self._telling

    def _find(self, role: Role, change: Change) -> None:
        """Find the member that has the target."""
        self._stage_of, self._change = self.nodes.stage(role), change
        self._holder = next(reversed(self.scene.members.memberships(self.victim.pid or 0)), None)
        if self._holder is None:
            raise StageError(f"the {role} that has the target has joined no group")

    def _moved(self) -> bool:
        """Whether the target's partition was assigned anew."""
        return seen_of(self.scene.so_far, self.scene.load.target.id).assigned is not None

    def _has_left(self) -> bool:
        return left_by_itself(self.scene.so_far) is not None

    @property
    def _joins(self) -> bool:
        return self._change in {Change.JOINS, Change.COMES_AND_GOES}

    @property
    def _newest(self) -> int:
        return self._stage.command.members + 1

    def _put_out(self) -> None:
        """Put the member out that has the target."""
        if self._holder is not None:
            expel_one(self.scene, self._stage.role, self._holder)

    def _say_changed(self) -> None:
        holder = self._holder
        if holder is None:
            raise RuntimeError("no group is changed")
        self.scene.history.write(
            kinds.Regroup(
                role=self._stage.name,
                phase=RegroupPhase.CHANGED,
                change=self._change,
                group=holder.group,
                member=holder.member,
                conn=holder.conn,
            )
        )

    def _held(self, *, newest: bool) -> list[str]:
        """Return what is held of the new member, or of the others, by the names of the holds."""
        conns = self._connections(self._newest)
        return [
            e.held
            for e in hits_of(self.scene.so_far, (JOINING,))
            if e.held is not None and e.held not in self._handled and (e.conn in conns) is newest
        ]

    def _release_all(self) -> None:
        """Hold nothing more, and release what is held."""
        self._holds_newest = self._holds_holder = False
        if self._rule is not None:
            self.scene.brokers.wire.disarm(self.scene.cell.id, self._rule.id)
            self._let_go()
            self._rule = None

    def _let_go(self) -> None:
        """Release the requests that need not be held."""
        for newest, holds in ((True, self._holds_newest), (False, self._holds_holder)):
            for held in () if holds or self._rule is None else self._held(newest=newest):
                self._handled.add(held)
                self.scene.brokers.wire.resolve(held, How.RELEASE)

    def _newest_asks(self) -> bool:
        return bool(self._held(newest=True)) or self._asks(self._newest)

    def _newest_has(self) -> bool:
        """Whether the new member was assigned its partitions, or none."""
        conns = self._connections(self._newest)
        return any(line.conn in conns for line in self.scene.members.of(self._stage.name))

    def _connections(self, number: int) -> set[int | None]:
        return self._connections_of(set(self._stage.processes.by_number().get(number, ())))

    def _mine(self) -> set[int | None]:
        """Return the connections of the process that has the target."""
        return self._connections_of({self.victim.pid or 0})

    def _connections_of(self, pids: set[int]) -> set[int | None]:
        return {e.conn for e in self.scene.so_far.of(kinds.Owner) if e.pid in pids}

    def _asks(self, number: int) -> bool:
        """Whether a process of a member has asked its group to join."""
        conns = self._connections(number)
        return any(
            e.conn in conns
            and e.dir == Direction.REQUEST
            and e.api in (Api.JOIN_GROUP, Api.CONSUMER_GROUP_HEARTBEAT)
            for e in self.scene.so_far.of(kinds.Frame)
        )

    def _tell(self, number: int) -> None:
        """Tell a member to end, as an orchestrator does."""
        stage, pids = self._stage, self._stage.processes.by_number().get(number, [])
        self._left.add(number)
        self.victim.told.update(pids)
        stage.processes.tell_member(number, "leave")
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
            self.scene.history.write(
                kinds.Regroup(
                    role=self._stage.name, phase=RegroupPhase.TOLD, number=number, pid=pid
                )
            )

    def _await_end(self, number: int) -> None:
        """Wait until a member has ended; kill it after the grace period that orchestrators give. If
        it has not left its group, its session time-out would put it out, only later.
        """
        told = [
            e
            for e in self.scene.so_far.of(kinds.Regroup)
            if e.phase == RegroupPhase.TOLD and e.number == number and e.pid is not None
        ]
        pids = [e.pid for e in told if e.pid is not None]
        if not self._await(
            lambda: not any(map(is_alive, pids)), GRACE_S, "the member to end after SIGTERM"
        ):
            for pid in filter(is_alive, pids):
                os.kill(pid, signal.SIGKILL)
        for pid in pids:
            self.scene.history.write(
                kinds.Regroup(
                    role=self._stage.name, phase=RegroupPhase.ENDED, number=number, pid=pid
                )
            )
            expel_process(self.scene, self._stage.role, pid)

    def _await(self, condition: Callable[[], object], within_s: float, because: str) -> bool:
        """Wait, and say whether it came true. What the history then lacks, the judge finds."""

        def looked() -> object:
            self.look()
            self._let_go()
            if self._telling is not None:
                self._telling.look()
            return condition()

        try:
            wait_until(looked, within_s=within_s, because=because, poll_s=0.02)
        except WaitTimeoutError:
            return False
        return True
