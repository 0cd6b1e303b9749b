"""JobManagerCrash: the JobManager dies just before a checkpoint is complete, or behind; the job is submitted again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.faults.triggers import rule_at
from harness.model.scenario import Evidence
from harness.systems.flink.abilities import RunningJob
from harness.systems.flink.faults.crash import AFTER_STORED, BEFORE_STORED
from harness.systems.flink.faults.waves import PRODUCED, arm_waves, await_last, through_checkpoint
from harness.systems.flink.roles import JOB_MANAGER, TASK_MANAGER
from harness.wire.rules import Action, How

if TYPE_CHECKING:
    from harness.controls import Controls


@dataclass(frozen=True, slots=True)
class JobManagerCrash:
    """All have acknowledged the checkpoint with the target when the JobManager dies.

    ``complete``: it is in the store of completed checkpoints, and nobody was told; the job is submitted with it. Else it is not,
    and the job is submitted with the one before.
    """

    id: ClassVar[str] = "flink-job-manager-crash"
    spare: ClassVar[int] = 1
    """A TaskManager that stands by, and goes over to the next JobManager."""

    complete: bool

    def evidence(self) -> Evidence:
        """Return what the history must show: the JobManager stood at its store, and died."""
        return Evidence("failpoint", killed=(JOB_MANAGER, TASK_MANAGER))

    def needs(self) -> tuple[type, ...]:
        """Return the abilities that it needs: a job."""
        return (RunningJob,)

    def arm(self, controls: Controls) -> None:
        """Let the source stop three times; stop the sink at the target."""
        arm_waves(controls)
        controls.arm(PRODUCED, rule_at(PRODUCED, Action.HOLD, "approach"))
        controls.say("armed")

    def inject(self, controls: Controls) -> None:
        """Kill it there, start it again, submit the job again."""
        job = controls.ability(RunningJob)
        before = through_checkpoint(controls, job)
        near = controls.await_fired(PRODUCED)
        job.arm_store(AFTER_STORED if self.complete else BEFORE_STORED)
        controls.resolve(near.hold, How.RELEASE)
        last = await_last(controls)
        job.trigger()
        number = job.await_store()
        victim = controls.target(JOB_MANAGER)
        controls.say("fired", record=controls.load.target.id, node=victim.name)
        victim.kill()
        controls.target(TASK_MANAGER).kill()  # else its tasks go on, until they have missed the JobManager
        controls.say("applied", node=victim.name)
        controls.resolve(last.hold, How.RELEASE)
        victim.restart()
        job.resubmit(number if self.complete else before)
        controls.say("healed")
