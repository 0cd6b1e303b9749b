"""Resubmitted: the TaskManager dies, nothing restarts the job, and somebody submits it again with another state than its last."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.controls import OnWire
from harness.faults.triggers import await_fault, rule_at
from harness.model.events import FIRST_WAVE
from harness.model.scenario import Evidence, Role
from harness.protocols.kafka.steps import Api
from harness.systems.flink.abilities import RunningJob, Written
from harness.systems.flink.faults.crash import During
from harness.systems.flink.faults.waves import (
    AHEAD,
    LAST,
    PRODUCED,
    SECOND,
    after_target,
    arm_waves,
    await_last,
    hold_last,
    kill_task_manager,
    through_checkpoint,
)
from harness.systems.flink.proofs import CheckpointWas, ReadersWaited
from harness.systems.flink.roles import TASK_MANAGER
from harness.wire.rules import Action, Direction, FreezeScope, How

if TYPE_CHECKING:
    from harness.controls import Controls, Fired


FIRST = after_target(-2 * AHEAD)
"""The request that begins a wave of its own, where the target is in the third checkpoint."""
OPENS = OnWire(Role.PROCESSOR, Api.INIT_PRODUCER_ID, Direction.REQUEST, since=PRODUCED)
"""By which the sink opens its next transaction, when it has flushed the one with the target."""


@dataclass(frozen=True, slots=True)
class FromOlder:
    """Two checkpoints are complete, and what came before the second is committed; the job is submitted with the first.

    The target is in the second one; where another is ``incomplete`` when the TaskManager dies, in that. The settings must say
    that nothing restarts the job.
    """

    id: ClassVar[str] = "flink-resubmitted-older"
    spare: ClassVar[int] = 1

    incomplete: bool = False

    def evidence(self) -> Evidence:
        """Return what the history must show.

        The target was in the sink's log; the TaskManager died; what had become of the last checkpoint then.
        """
        proof = CheckpointWas(During.INCOMPLETE if self.incomplete else During.COMPLETED)
        return Evidence("rule", killed=(TASK_MANAGER,), approached=self.incomplete, proofs=(proof,))

    def needs(self) -> tuple[type, ...]:
        """Return the abilities that it needs: a job, and what it has written where that is waited for."""
        return (RunningJob,) if self.incomplete else (RunningJob, Written)

    def arm(self, controls: Controls) -> None:
        """Let the source stop before each checkpoint; stop the sink at the target."""
        if self.incomplete:
            controls.arm(FIRST, rule_at(FIRST, Action.HOLD, FIRST_WAVE))
        arm_waves(controls)
        controls.arm(PRODUCED, rule_at(PRODUCED, Action.HOLD, "approach" if self.incomplete else "fault"))
        controls.say("armed")

    def inject(self, controls: Controls) -> None:
        """Take the checkpoints, kill, and submit the job with the first of them."""
        job = controls.ability(RunningJob)
        older = through_checkpoint(controls, job, FIRST if self.incomplete else SECOND)
        held = self._third(controls, job) if self.incomplete else self._second(controls, job)
        last = await_last(controls)
        kill_task_manager(controls)
        controls.resolve(held, How.DISCARD)
        controls.resolve(last.hold, How.RELEASE)
        job.resubmit(older)
        controls.say("healed")

    @staticmethod
    def _second(controls: Controls, job: RunningJob) -> None:
        """Let the second checkpoint be complete, with the target."""
        controls.resolve(await_fault(controls, PRODUCED).hold, How.RELEASE)
        job.checkpoint()
        controls.ability(Written).await_committed()

    @staticmethod
    def _third(controls: Controls, job: RunningJob) -> str | None:
        """Let it be complete without the target, and the third one not."""
        through_checkpoint(controls, job)
        near = controls.await_fired(PRODUCED)
        controls.arm(OPENS, rule_at(OPENS, Action.HOLD, freeze=FreezeScope.CLIENT))
        controls.resolve(near.hold, How.RELEASE)
        number = job.begin_checkpoint()
        fired = await_fault(controls, OPENS)
        job.tell_checkpoint(number)
        return fired.hold


@dataclass(frozen=True, slots=True)
class FromNothing:
    """No checkpoint has anything of the source when the TaskManager dies: the job is submitted as if for the first time.

    ``waiting``: the transaction that it left open keeps readers waiting until its time-out, for nobody aborts it; else whoever
    begins does. Its settings must say that nothing restarts the job.
    """

    id: ClassVar[str] = "flink-resubmitted-anew"
    spare: ClassVar[int] = 1

    waiting: bool

    def evidence(self) -> Evidence:
        """Return what the history must show.

        The target was in the sink's log, the TaskManager died; what readers saw when the next job had committed.
        """
        return Evidence("rule", killed=(TASK_MANAGER,), proofs=(ReadersWaited(self.waiting),))

    def needs(self) -> tuple[type, ...]:
        """Return the abilities that it needs: a job, and what it has written."""
        return (RunningJob, Written)

    def arm(self, controls: Controls) -> None:
        """Stop the sink at the target, and the source behind it."""
        hold_last(controls)
        controls.arm(PRODUCED, rule_at(PRODUCED, Action.HOLD, freeze=FreezeScope.CLIENT))
        controls.say("armed")

    def inject(self, controls: Controls) -> None:
        """Kill; submit the job anew, let it commit what it is given, and look what readers see of that.

        The source goes on before readers are waited for: that takes longer than the producer waits for an answer.
        """
        job = controls.ability(RunningJob)
        fired = await_fault(controls, PRODUCED)
        last: Fired = controls.await_fired(LAST)
        kill_task_manager(controls)
        controls.resolve(fired.hold, How.DISCARD)
        job.resubmit(None)
        job.await_given(controls.load.target.position)
        job.checkpoint()
        written = controls.ability(Written)
        written.tell_readers()
        controls.resolve(last.hold, How.RELEASE)
        if self.waiting:
            written.await_readers()
        controls.say("healed")
