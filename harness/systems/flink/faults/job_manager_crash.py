"""JobManagerCrash: kill the JobManager just before or after it stores a checkpoint, and submit the
job again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.faults.triggers import Needing, rule_at
from harness.model.scenario import Evidence
from harness.systems.flink.abilities import RunningJob
from harness.systems.flink.faults.crash import AFTER_STORED, BEFORE_STORED
from harness.systems.flink.faults.waves import PRODUCED, arm_waves, await_last, through_checkpoint
from harness.systems.flink.roles import JOB_MANAGER, TASK_MANAGER
from harness.wire.rules import Action, How

if TYPE_CHECKING:
    from harness.controls import Controls


@dataclass(frozen=True, slots=True)
class JobManagerCrash(Needing):
    """Kill the JobManager when all tasks have acknowledged the checkpoint with the target.

    ``complete``: the checkpoint is stored, but no task was told; the job is submitted again with
    it. Otherwise it is not stored, and the job is submitted again with the checkpoint before.
    """

    id: ClassVar[str] = "flink-job-manager-crash"
    abilities: ClassVar[tuple[type, ...]] = (RunningJob,)
    spare: ClassVar[int] = 1
    """One spare TaskManager, which registers at the next JobManager."""

    complete: bool

    def evidence(self) -> Evidence:
        """Return what the history must show: the JobManager waited at its store's failpoint and was
        killed.
        """
        return Evidence("failpoint", killed=(JOB_MANAGER, TASK_MANAGER))

    def arm(self, controls: Controls) -> None:
        """Arm three stops of the source, and one of the sink at the target."""
        arm_waves(controls)
        controls.arm(PRODUCED, rule_at(PRODUCED, Action.HOLD, "approach"))
        controls.say("armed")

    def inject(self, controls: Controls) -> None:
        """Kill the JobManager at its store, restart it, and submit the job again."""
        job = controls.ability(RunningJob)
        before = through_checkpoint(controls, job)
        job.await_spare()
        near = controls.await_fired(PRODUCED)
        job.arm_store(AFTER_STORED if self.complete else BEFORE_STORED)
        controls.resolve(near.hold, How.RELEASE)
        last = await_last(controls)
        job.trigger()
        number = job.await_store()
        victim = controls.target(JOB_MANAGER)
        controls.say("fired", record=controls.load.target.id, node=victim.name)
        victim.kill()
        controls.target(
            TASK_MANAGER
        ).kill()  # otherwise its tasks go on until they miss the JobManager
        controls.say("applied", node=victim.name)
        controls.resolve(last.hold, How.RELEASE)
        victim.restart()
        job.resubmit(number if self.complete else before)
        controls.say("healed")
