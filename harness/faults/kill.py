"""Kill: SIGKILL of one or more nodes at an exact place, and their restart."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

from harness.abilities import (
    Checkpoint,
    PowerLoss,
    Replication,
    Retention,
    SavedPositions,
    SessionClock,
    TracedWrites,
)
from harness.controls import InProgram, OnWire, Stop, Trigger
from harness.faults.triggers import await_fault, rule_at
from harness.model.scenario import PARTS, Evidence, Role
from harness.proofs.forgotten import Forgot
from harness.proofs.leadership import PartHad
from harness.proofs.power import PowerWent
from harness.wire.rules import Action, FreezeScope, How

if TYPE_CHECKING:
    from harness.controls import Controls


class Forget(StrEnum):
    """Which files a power loss reverts to their flushed state."""

    TOPIC = "topic"
    """Case T: the topic's log."""
    ALL = "all"
    """Case A: also ``__consumer_offsets`` and ``__transaction_state``."""
    UNFLUSHED = "unflushed"
    """Everything that the broker has not told the kernel to flush, by the calls that it made."""
    CHECKPOINT = "checkpoint"
    """The checkpoint folder of a streaming query, whole."""
    RETENTION = "retention"
    """The records that retention deletes while their reader is down: those of a query's current
    batch, or those that a consumer was given, and all before them.
    """
    POSITIONS = "positions"
    """The positions that the victim's groups have saved, as if the broker kept them no longer."""


POWER_LOST = frozenset({Forget.TOPIC, Forget.ALL})


@dataclass(frozen=True, slots=True)
class Kill:
    """At ``at``: freeze, kill ``victims`` in order, wait until they are reaped, release or discard
    held frames, restart.

    ``held`` says what becomes of the held frame: ``discard`` (it never arrived) or ``deliver`` (it
    was on its way). ``forget`` names the data that is lost with it, e.g. what a power loss takes
    from a broker.
    """

    id: ClassVar[str] = "kill"

    at: Trigger
    victims: tuple[Role, ...]
    held: How = How.DISCARD
    forget: Forget | None = None
    settle: bool = False
    """Before the kill, wait until every acknowledged record has been recorded."""
    late: Role | None = None
    """A victim that is restarted only when the source is exhausted."""
    shrunk: bool = False
    """Whether held frames are released only when the cluster no longer counts the victims as in
    sync.
    """
    stalled: bool = False
    """Whether replication to the followers stops from the target on, until the victims are dead."""
    outlasting: bool = False
    """Whether the victims stay down for longer than the consumer's session time-out, by the
    consumer's own clock.
    """

    def __post_init__(self) -> None:
        if not self.victims:
            raise ValueError("a kill needs at least one role in victims")
        if isinstance(self.at, InProgram) and self.victims != (self.at.role,):
            raise ValueError(
                f"a failpoint can kill only the {self.at.role}, whose program has it: name no "
                "other victim"
            )
        if self.late is not None and self.late not in self.victims:
            raise ValueError(
                f"late: the {self.late} is not among the victims, so it cannot come back late"
            )
        stateful = self.forget in {Forget.CHECKPOINT, Forget.RETENTION}
        readers = (Role.DRIVER, Role.CONSUMER)[: 1 + (self.forget is Forget.RETENTION)]
        owners = readers if stateful else (Role.BROKER, Role.LEADER, Role.FOLLOWER)
        if self.forget not in {None, Forget.POSITIONS} and not set(owners) & set(self.victims):
            raise ValueError(f"forget needs a dead {owners[0]}: add it to the victims")

    def evidence(self) -> Evidence:
        """Return what the history must show: the rule or failpoint was hit at the target, and the
        victims died by SIGKILL.
        """
        exact = not (isinstance(self.at, OnWire) and self.at.offset)
        approached = isinstance(self.at, OnWire) and self.at.since is not None
        forgets = self.forget is not None
        proofs = (
            *((PartHad(),) if PARTS & set(self.victims) else ()),
            *(
                (PowerWent(),)
                if self.forget is Forget.UNFLUSHED
                else (Forgot(),)
                if forgets
                else ()
            ),
        )
        return Evidence(
            self.at.kind,
            killed=self.victims,
            forgotten=forgets,
            at_target=exact,
            approached=approached,
            proofs=proofs,
        )

    def needs(self) -> tuple[type, ...]:
        """Return the abilities that it needs.

        The system must be able to forget what ``forget`` names, and to replicate if ``stalled``.
        """
        wanted = {
            PowerLoss: self.forget in POWER_LOST,
            TracedWrites: self.forget is Forget.UNFLUSHED,
            Checkpoint: self.forget is Forget.CHECKPOINT,
            Retention: self.forget is Forget.RETENTION,
            SavedPositions: self.forget is Forget.POSITIONS,
            Replication: self.stalled or self.shrunk,
            SessionClock: self.outlasting,
        }
        return tuple(ability for ability, needed in wanted.items() if needed)

    def arm(self, controls: Controls) -> None:
        """Arm the trigger."""
        if self.forget is Forget.UNFLUSHED:
            controls.ability(TracedWrites).check()
        if self.stalled:
            controls.ability(Replication).stall()
        if isinstance(self.at, OnWire):
            broker = self.victims[0] in {Role.BROKER, Role.LEADER, Role.DATABASE}
            there = (
                broker and not self.settle and not self.stalled and not self.at.offset
            )  # otherwise the frame may be another broker's
            scope = FreezeScope.NODE if there else FreezeScope.CLIENT
            rule = rule_at(self.at, Action.HOLD, freeze=scope)
            controls.arm(self.at, rule)
        else:
            controls.arm(self.at, Stop.KILL)
        controls.say("armed")

    def inject(self, controls: Controls) -> None:
        """Kill the victims, release or discard held frames, restart the victims."""
        fired = await_fault(controls, self.at)
        victims = [
            controls.target(role, fired.node if role is self.at.role else None)
            for role in self.victims
        ]
        if self.settle:
            controls.settle()
        if self.forget in POWER_LOST:
            controls.ability(PowerLoss).await_flush_known()
        for victim in victims:
            victim.kill()
        controls.say("applied", node=victims[0].name)
        self._dispose(controls, fired.hold)
        self._forget(controls)
        if self.outlasting:
            controls.ability(SessionClock).outlast()
        for victim in victims:
            if victim.role is self.late:
                controls.await_exhausted()
            victim.restart()
        controls.say("healed")

    def _forget(self, controls: Controls) -> None:
        match self.forget:
            case Forget.CHECKPOINT:
                controls.ability(Checkpoint).lose()
            case Forget.RETENTION:
                controls.ability(Retention).expire()
            case Forget.POSITIONS:
                controls.ability(SavedPositions).forget()
            case Forget.UNFLUSHED:
                controls.ability(TracedWrites).lose()
            case Forget.TOPIC | Forget.ALL:
                controls.ability(PowerLoss).forget_unflushed(
                    internal_topics=self.forget is Forget.ALL
                )

    def _dispose(self, controls: Controls, hold: str | None) -> None:
        """Release or discard what the wire holds."""
        if self.shrunk:
            controls.ability(Replication).await_shrunk()
        controls.resolve(hold, self.held)
        if self.stalled:
            controls.disarm()
