"""Faults of a Kafka Streams application with state: the state is lost, being restored, or taken
over by another instance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.abilities import LocalState, Membership, Termination
from harness.faults.triggers import AtTrigger, await_fault, kill_at, stop_at
from harness.model.scenario import Evidence, Role
from harness.proofs.forgotten import Forgot
from harness.systems.streams.proofs import Restoring, SentUnfed
from harness.wire.rules import FreezeScope, How

if TYPE_CHECKING:
    from harness.controls import Controls, OnWire, Trigger


@dataclass(frozen=True, slots=True)
class StateLost(AtTrigger):
    """Kill an instance at ``at`` and delete its local state, so that it restores its state from the
    changelog.

    ``again``: the instance is killed once more during the restoration, after its first request and
    before the answer.
    """

    id: ClassVar[str] = "state-lost"
    abilities: ClassVar[tuple[type, ...]] = (LocalState,)
    freezes: ClassVar[FreezeScope | None] = FreezeScope.CLIENT

    at: Trigger
    again: bool = False

    def evidence(self) -> Evidence:
        """Return what the history must show as evidence of the fault.

        The trigger was hit at the target, the instance was killed (twice, with ``again``), and its
        state was deleted.
        """
        killed = (self.at.role,) * (2 if self.again else 1)
        return Evidence(
            self.at.kind,
            killed=killed,
            proofs=(Forgot(), *((Restoring(),) if self.again else ())),
        )

    def inject(self, controls: Controls) -> None:
        """Kill the instance, delete its state, and restart it; with ``again``, kill it once more in
        between.
        """
        fired = await_fault(controls, self.at)
        state = controls.ability(LocalState)
        victim = kill_at(controls, self.at.role, fired)
        state.lose(victim)
        if self.again:
            state.hold_restoring(victim)
            held = state.restart_into(victim)
            victim.kill()
            controls.resolve(held, How.DISCARD)
        victim.restart()
        controls.say("healed")


@dataclass(frozen=True, slots=True)
class TakenOver(AtTrigger):
    """Kill an instance at ``at``, and restart it only after another instance has taken over its
    tasks and done all the work.
    """

    id: ClassVar[str] = "taken-over"
    abilities: ClassVar[tuple[type, ...]] = (Membership,)
    freezes: ClassVar[FreezeScope | None] = FreezeScope.CLIENT

    at: Trigger

    def evidence(self) -> Evidence:
        """Return what the history must show: the trigger was hit at the target, and the instance
        was killed.
        """
        return Evidence(self.at.kind, killed=(self.at.role,))

    def inject(self, controls: Controls) -> None:
        """Kill the instance, let another do all the work, then restart it."""
        fired = await_fault(controls, self.at)
        victim = kill_at(controls, self.at.role, fired)
        controls.ability(Membership).await_expired(self.at.role)
        controls.await_exhausted()
        controls.settle()
        victim.restart()
        controls.say("healed")


@dataclass(frozen=True, slots=True)
class RestartedUnfed(AtTrigger):
    """Pause the source at ``at``, and end and restart the application twice, as two deploys would.

    Between the two ends the application is given no record, and its punctuator sends what was in
    its store. Then the source goes on.
    """

    id: ClassVar[str] = "restarted-unfed"
    abilities: ClassVar[tuple[type, ...]] = (LocalState, Termination)
    freezes: ClassVar[FreezeScope | None] = FreezeScope.CLIENT

    at: OnWire

    def evidence(self) -> Evidence:
        """Return what the history must show as evidence of the fault.

        The rule was hit at the target, the source was paused, and the application ended twice after
        SIGTERM.
        """
        return Evidence(
            "rule", paused=(self.at.role,), told=(Role.PROCESSOR,) * 2, proofs=(SentUnfed(),)
        )

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
