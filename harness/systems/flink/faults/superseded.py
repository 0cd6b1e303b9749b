"""Superseded: a restored job takes a later transaction for its own, because the sink used a
transactional id again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.faults.triggers import Needing, await_fault, rule_at
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
    release_target,
    through_checkpoint,
)
from harness.systems.flink.proofs import CheckpointRefused
from harness.systems.flink.roles import TASK_MANAGER
from harness.wire.rules import Action, FreezeScope, How

if TYPE_CHECKING:
    from harness.controls import Controls


@dataclass(frozen=True, slots=True)
class Superseded(Needing):
    """Complete and commit one checkpoint, let the next one fail in the store, kill the TaskManager,
    and submit the job again.

    The target is in the transaction that the sink began after the failed checkpoint. If the sink
    reuses ids, that transaction has the id of the complete checkpoint's. The job is submitted with
    the complete checkpoint; the settings must turn off its restarts.
    """

    id: ClassVar[str] = "flink-superseded"
    abilities: ClassVar[tuple[type, ...]] = (RunningJob,)
    spare: ClassVar[int] = 1

    def evidence(self) -> Evidence:
        """Return what the history must show as evidence of the fault.

        A checkpoint failed after all tasks had acknowledged it, the target was then in the sink's
        log, and the TaskManager was killed.
        """
        return Evidence("rule", killed=(TASK_MANAGER,), proofs=(CheckpointRefused(),))

    def arm(self, controls: Controls) -> None:
        """Arm a stop of the source before each checkpoint, and one of the sink at the target."""
        controls.arm(FIRST, rule_at(FIRST, Action.HOLD, FIRST_WAVE))
        arm_waves(controls)
        controls.arm(PRODUCED, rule_at(PRODUCED, Action.HOLD, freeze=FreezeScope.CLIENT))
        controls.say("armed")

    def inject(self, controls: Controls) -> None:
        """Take one checkpoint, let the next one fail, kill the TaskManager, and submit the job with
        the first checkpoint.
        """
        job = controls.ability(RunningJob)
        complete = through_checkpoint(controls, job, FIRST)
        wave = controls.await_fired(SECOND)
        job.await_given(controls.load.target.position + SECOND.offset - 1)
        job.arm_store(BEFORE_STORED, refuses=True)
        job.tell_checkpoint(job.begin_checkpoint(), completed=True)
        controls.resolve(wave.hold, How.RELEASE)
        release_target(controls, job)
        fired = await_fault(controls, PRODUCED)
        last = await_last(controls)
        kill_task_manager(controls)
        controls.resolve(fired.hold, How.DISCARD)
        controls.resolve(last.hold, How.RELEASE)
        job.resubmit(complete)
        controls.say("healed")
