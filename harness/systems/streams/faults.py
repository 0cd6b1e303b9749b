"""Faults of an application that has a state: it is lost, or being made anew, or another instance takes it over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.abilities import LocalState, Membership, Termination
from harness.controls import OnWire, Stop, Trigger
from harness.faults.triggers import arm_stop, await_fault, rule_at, stop_at
from harness.model.scenario import Evidence, Role
from harness.proofs.forgotten import Forgot
from harness.systems.streams.proofs import Restoring, SentUnfed
from harness.wire.rules import Action, FreezeScope, How

if TYPE_CHECKING:
    from harness.controls import Controls


def _kind(at: Trigger) -> str:
    return "rule" if isinstance(at, OnWire) else "failpoint"


def _arm_kill(controls: Controls, at: Trigger) -> None:
    """Let a process stand at a trigger, for the harness to kill it."""
    controls.arm(at, rule_at(at, Action.HOLD, freeze=FreezeScope.CLIENT) if isinstance(at, OnWire) else Stop.KILL)
    controls.say("armed")


@dataclass(frozen=True, slots=True)
class StateLost:
    """At ``at`` an instance is killed, and its local state is lost with it: it makes its state anew of the changelog.

    ``again``: it is killed once more while it does that, when it has not yet got what it has asked the changelog for.
    """

    id: ClassVar[str] = "state-lost"

    at: Trigger
    again: bool = False

    def evidence(self) -> Evidence:
        """Return what the history must show.

        The trigger was hit at the target, the instance died of it (twice, with ``again``), and its state was removed.
        """
        killed = (self.at.role,) * (2 if self.again else 1)
        return Evidence(_kind(self.at), killed=killed, proofs=(Forgot(), *((Restoring(),) if self.again else ())))

    def needs(self) -> tuple[type, ...]:
        """Return the abilities that it needs: an instance that has a state."""
        return (LocalState,)

    def arm(self, controls: Controls) -> None:
        """Arm the trigger."""
        _arm_kill(controls, self.at)

    def inject(self, controls: Controls) -> None:
        """Kill it, remove its state, start it again, kill it again."""
        fired = await_fault(controls, self.at)
        victim, state = controls.target(self.at.role, fired.node), controls.ability(LocalState)
        victim.kill()
        controls.say("applied", node=victim.name)
        controls.resolve(fired.hold, How.DISCARD)
        state.lose(victim)
        if self.again:
            state.hold_restoring(victim)
            held = state.restart_into(victim)
            victim.kill()
            controls.resolve(held, How.DISCARD)
        victim.restart()
        controls.say("healed")


@dataclass(frozen=True, slots=True)
class TakenOver:
    """At ``at`` an instance is killed, and does not come back before another has taken over what it had, and done the work."""

    id: ClassVar[str] = "taken-over"

    at: Trigger

    def evidence(self) -> Evidence:
        """Return what the history must show: the trigger was hit at the target, and the instance died of it."""
        return Evidence(_kind(self.at), killed=(self.at.role,))

    def needs(self) -> tuple[type, ...]:
        """Return the abilities that it needs: a group that puts members out."""
        return (Membership,)

    def arm(self, controls: Controls) -> None:
        """Arm the trigger."""
        _arm_kill(controls, self.at)

    def inject(self, controls: Controls) -> None:
        """Kill it, let the other do all the work, start it again."""
        fired = await_fault(controls, self.at)
        victim = controls.target(self.at.role, fired.node)
        victim.kill()
        controls.say("applied", node=victim.name)
        controls.resolve(fired.hold, How.DISCARD)
        controls.ability(Membership).await_expired(self.at.role)
        controls.await_exhausted()
        controls.settle()
        victim.restart()
        controls.say("healed")


@dataclass(frozen=True, slots=True)
class RestartedUnfed:
    """At ``at`` the source falls silent, and the application is told to end, twice, as by two deploys.

    Between them it is given nothing, and sends by the clock what it had in its store. Then the source goes on.
    """

    id: ClassVar[str] = "restarted-unfed"

    at: OnWire

    def evidence(self) -> Evidence:
        """Return what the history must show.

        The rule was hit at the target, the source stood still, and the application ended twice in order.
        """
        return Evidence("rule", paused=(self.at.role,), told=(Role.PROCESSOR,) * 2, proofs=(SentUnfed(),))

    def needs(self) -> tuple[type, ...]:
        """Return the abilities that it needs: an application that can be told to end, and has a store."""
        return (LocalState, Termination)

    def arm(self, controls: Controls) -> None:
        """Arm the rule."""
        arm_stop(controls, self.at)
        controls.say("armed")

    def inject(self, controls: Controls) -> None:
        """Stop the source; end the application when it has processed everything, and again when it has sent the results."""
        source, hold = stop_at(controls, self.at)
        controls.settle()
        application = controls.ability(Termination).stage(Role.PROCESSOR)
        application.tell_to_end()
        application.await_end()
        application.restart()
        controls.ability(LocalState).await_sent(application)
        application.tell_to_end()
        application.await_end()
        application.restart()
        source.resume()
        controls.resolve(hold, How.RELEASE)
        controls.say("healed")
