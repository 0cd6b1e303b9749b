"""AtAlignment: the TaskManager dies while a checkpoint waits for the barrier of one of two inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.faults.triggers import rule_at
from harness.model.events import BEHIND_WAVE
from harness.model.scenario import Evidence
from harness.systems.flink.abilities import RunningJob, StandingInput, Written
from harness.systems.flink.faults.crash import During
from harness.systems.flink.faults.waves import after_target, arm_waves, await_last, kill_task_manager, through_checkpoint
from harness.systems.flink.proofs import Aligned, CheckpointWas
from harness.systems.flink.roles import TASK_MANAGER
from harness.wire.rules import Action, How

if TYPE_CHECKING:
    from harness.controls import Controls

BEHIND = after_target(2)
"""The request in which our producer sends what the other input reads beside the one that stands."""


@dataclass(frozen=True, slots=True)
class AtAlignment:
    """One input stands still at the record behind the target, and passes no barrier on; the other one has passed its own.

    What comes behind that barrier is worked on meanwhile where the checkpoint is ``unaligned``, and waits where it is not. The
    settings must say the same, and that the job has two inputs.
    """

    id: ClassVar[str] = "flink-crash-at-alignment"
    spare: ClassVar[int] = 1

    unaligned: bool

    def evidence(self) -> Evidence:
        """Return what the history must show.

        The source stood, the TaskManager died; the checkpoint was incomplete; what had come behind the barrier.
        """
        return Evidence("failpoint", killed=(TASK_MANAGER,), at_target=False,
                        proofs=(CheckpointWas(During.INCOMPLETE), Aligned(not self.unaligned)))  # fmt: skip

    def needs(self) -> tuple[type, ...]:
        """Return the abilities that it needs: a job of which one source can stand, and what it has written."""
        return (RunningJob, StandingInput, Written)

    def arm(self, controls: Controls) -> None:
        """Let our producer stop four times, and the job's source at the record behind the target."""
        arm_waves(controls)
        controls.arm(BEHIND, rule_at(BEHIND, Action.HOLD, BEHIND_WAVE))
        controls.say("armed")

    def inject(self, controls: Controls) -> None:
        """Begin a checkpoint there, let the other input go on, kill; let the job be restarted."""
        job, inputs = controls.ability(RunningJob), controls.ability(StandingInput)
        position = controls.load.target.position
        inputs.arm(position + 1)
        through_checkpoint(controls, job)
        # a source reads its partitions in any order: one that stood before the target was written would keep that back
        last = await_last(controls)
        controls.ability(Written).await_written(position)
        controls.resolve(last.hold, How.RELEASE)
        behind = controls.await_fired(BEHIND)
        controls.say("fired", record=inputs.await_stand())
        number = job.begin_checkpoint()
        controls.resolve(behind.hold, How.RELEASE)
        controls.await_exhausted()
        inputs.await_beside(given=self.unaligned)
        job.tell_checkpoint(number)
        kill_task_manager(controls)
        job.await_running()
        controls.say("healed")
