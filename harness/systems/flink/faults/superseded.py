"""Superseded: what a restored checkpoint takes for its own transaction is a later one, under an id that was used again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.faults.triggers import await_fault, rule_at
from harness.model.events import FIRST_WAVE
from harness.model.scenario import Evidence
from harness.systems.flink.abilities import RunningJob
from harness.systems.flink.faults.crash import BEFORE_STORED
from harness.systems.flink.faults.resubmitted import FIRST
from harness.systems.flink.faults.waves import (
    PRODUCED,
    SECOND,
    arm_waves,
    await_last,
    kill_task_manager,
    let_target_come,
    through_checkpoint,
)
from harness.systems.flink.proofs import CheckpointRefused
from harness.systems.flink.roles import TASK_MANAGER
from harness.wire.rules import Action, FreezeScope, How

if TYPE_CHECKING:
    from harness.controls import Controls


@dataclass(frozen=True, slots=True)
class Superseded:
    """A checkpoint is complete and committed, the next one was acknowledged by all and could not be stored.

    The target is in the transaction that was begun behind that one when the TaskManager dies: where ids are used again, under
    the id of the complete checkpoint's. The job is submitted with that checkpoint; its settings say that nothing restarts it.
    """

    id: ClassVar[str] = "flink-superseded"
    spare: ClassVar[int] = 1

    def evidence(self) -> Evidence:
        """Return what the history must show.

        The target was in the sink's log, behind a checkpoint that failed; the TaskManager died.
        """
        return Evidence("rule", killed=(TASK_MANAGER,), proofs=(CheckpointRefused(),))

    def needs(self) -> tuple[type, ...]:
        """Return the abilities that it needs: a job."""
        return (RunningJob,)

    def arm(self, controls: Controls) -> None:
        """Let the source stop before each checkpoint; stop the sink at the target."""
        controls.arm(FIRST, rule_at(FIRST, Action.HOLD, FIRST_WAVE))
        arm_waves(controls)
        controls.arm(PRODUCED, rule_at(PRODUCED, Action.HOLD, freeze=FreezeScope.CLIENT))
        controls.say("armed")

    def inject(self, controls: Controls) -> None:
        """Take one checkpoint, let the next one fail, kill, and submit the job with the first."""
        job = controls.ability(RunningJob)
        complete = through_checkpoint(controls, job, FIRST)
        wave = controls.await_fired(SECOND)
        job.await_given(controls.load.target.position + SECOND.offset - 1)
        job.arm_store(BEFORE_STORED, refuses=True)
        job.tell_checkpoint(job.begin_checkpoint(), completed=True)
        controls.resolve(wave.hold, How.RELEASE)
        let_target_come(controls, job)
        fired = await_fault(controls, PRODUCED)
        last = await_last(controls)
        kill_task_manager(controls)
        controls.resolve(fired.hold, How.DISCARD)
        controls.resolve(last.hold, How.RELEASE)
        job.resubmit(complete)
        controls.say("healed")
