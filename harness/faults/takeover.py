"""TakenOver: of several brokers, the one that a record's frame is for dies, or hands over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.faults.triggers import AtTrigger, await_fault, rule_at
from harness.model.scenario import Evidence, Role
from harness.model.takeovers import Takeover, Turn
from harness.proofs.takeover import OtherLeads
from harness.wire.rules import Action, FreezeScope, How, Rule

if TYPE_CHECKING:
    from harness.controls import Controls, OnWire


@dataclass(frozen=True, slots=True)
class TakenOver(AtTrigger):
    """At ``at`` the broker that the frame is for loses its leaderships in the way of ``turn``, or
    has no follower in sync.

    The broker is the leader of the record's partition, or the coordinator that the frame is for.
    """

    id: ClassVar[str] = "taken-over"
    abilities: ClassVar[tuple[type, ...]] = (Takeover,)

    at: OnWire
    turn: Turn

    def evidence(self) -> Evidence:
        """Return what the history must show: the rule was hit at the target, and the broker that it
        was hit at led what the frame is about, and then did not.
        """
        return Evidence(
            "rule",
            approached=self.at.since is not None,
            killed=(Role.BROKER,)
            if self.turn.kills
            else (Role.FOLLOWER,)
            if self.turn is Turn.SHORT
            else (),
            may_kill=(Role.FOLLOWER,) if self.turn is Turn.SHORT else (),
            proofs=(OtherLeads(str(self.turn)),),
        )

    def _rule(self) -> Rule:
        """Return the rule. A broker that dies with the frame stands still from then on."""
        freeze = FreezeScope.NODE if self.turn is Turn.DIES else FreezeScope.CLIENT
        return rule_at(self.at, Action.HOLD, freeze=freeze)

    def inject(self, controls: Controls) -> None:
        """Do to the broker what ``turn`` says, and wait until others lead in its place."""
        fired = await_fault(controls, self.at)
        brokers = controls.ability(Takeover)
        brokers.begin()
        if self.turn.ahead:
            brokers.hold_copies()
            controls.resolve(fired.hold, How.RELEASE)
            brokers.await_ahead()
        match self.turn:
            case Turn.DIES | Turn.DIES_AHEAD:
                self._kill(controls, brokers, fired.hold)
            case Turn.ROLLS:
                self._roll(controls, brokers, fired.hold)
            case Turn.HANDS_OVER | Turn.OVERTAKEN:
                brokers.elect()
                controls.say("applied", node=fired.node)
                controls.resolve(None if self.turn.ahead else fired.hold, How.RELEASE)
            case Turn.SHORT:
                followers = brokers.followers()
                for follower in followers:
                    follower.kill()
                brokers.await_short()
                controls.say("applied", node=followers[0].name)
                controls.resolve(fired.hold, How.RELEASE)
                brokers.await_refused()
                for follower in followers:
                    follower.restart()
        controls.disarm()
        brokers.await_in_sync()
        controls.say("healed")

    def _kill(self, controls: Controls, brokers: Takeover, hold: str | None) -> None:
        broker = brokers.struck()
        broker.kill()
        controls.say("applied", node=broker.name)
        if not self.turn.ahead:
            controls.resolve(hold, How.DISCARD)
        controls.disarm()
        brokers.await_taken_over()
        broker.restart()

    def _roll(self, controls: Controls, brokers: Takeover, hold: str | None) -> None:
        broker = brokers.struck()
        broker.end()
        controls.say("applied", node=broker.name)
        controls.resolve(hold, How.RELEASE)
        brokers.await_taken_over()
        broker.restart()
        brokers.restart_others()
