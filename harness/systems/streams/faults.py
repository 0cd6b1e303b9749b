"""Faults of a Kafka Streams application with state: the state is lost, being restored, or taken
over by another instance.
"""

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
    """Arm a trigger that holds a process until the fault kills it."""
    controls.arm(
        at,
        rule_at(at, Action.HOLD, freeze=FreezeScope.CLIENT)
        if isinstance(at, OnWire)
        else Stop.KILL,
    )
    controls.say("armed")


@dataclass(frozen=True, slots=True)
class StateLost:
    """Kill an instance at ``at`` and delete its local state, so that it restores its state from the
    changelog.

    ``again``: the instance is killed once more during the restoration, after its first request and
    before the answer.
    """

    id: ClassVar[str] = "state-lost"

    at: Trigger
    again: bool = False

    def evidence(self) -> Evidence:
        """Return what the history must show as evidence of the fault.

        The trigger was hit at the target, the instance was killed (twice, with ``again``), and its
        state was deleted.
        """
        killed = (self.at.role,) * (2 if self.again else 1)
        return Evidence(
            _kind(self.at),
            killed=killed,
            proofs=(Forgot(), *((Restoring(),) if self.again else ())),
        )

    def needs(self) -> tuple[type, ...]:
        """Return the abilities that it needs: local state."""
        return (LocalState,)

    def arm(self, controls: Controls) -> None:
        """Arm the trigger."""
        _arm_kill(controls, self.at)

    def inject(self, controls: Controls) -> None:
        """Kill the instance, delete its state, and restart it; with ``again``, kill it once more in
        between.
        """
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
    """Kill an instance at ``at``, and restart it only after another instance has taken over its
    tasks and done all the work.
    """

    id: ClassVar[str] = "taken-over"

    at: Trigger

    def evidence(self) -> Evidence:
        """Return what the history must show: the trigger was hit at the target, and the instance
        was killed.
        """
        return Evidence(_kind(self.at), killed=(self.at.role,))

    def needs(self) -> tuple[type, ...]:
        """Return the abilities that it needs: a group that removes members."""
        return (Membership,)

    def arm(self, controls: Controls) -> None:
        """Arm the trigger."""
        _arm_kill(controls, self.at)

    def inject(self, controls: Controls) -> None:
        """Kill the instance, let another do all the work, then restart it."""
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
    """Pause the source at ``at``, and end and restart the application twice, as two deploys would.

    Between the two ends the application is given no record, and its punctuator sends what was in
    its store. Then the source goes on.
    """

    id: ClassVar[str] = "restarted-unfed"

    at: OnWire

    def evidence(self) -> Evidence:
        """Return what the history must show as evidence of the fault.

        The rule was hit at the target, the source was paused, and the application ended twice after
        SIGTERM.
        """
        return Evidence(
            "rule", paused=(self.at.role,), told=(Role.PROCESSOR,) * 2, proofs=(SentUnfed(),)
        )

    def needs(self) -> tuple[type, ...]:
        """Return the abilities that it needs: local state, and to end the application
        by SIGTERM.
        """
        return (LocalState, Termination)

    def arm(self, controls: Controls) -> None:
        """Arm the rule."""
        arm_stop(controls, self.at)
        controls.say("armed")

    def inject(self, controls: Controls) -> None:
        """Pause the source; end the application when it has processed everything, and again when it
        has sent the results.
        """
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
