"""AtAlignment: kill the TaskManager while a checkpoint waits for the barrier of one of
two inputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.faults.triggers import Needing, rule_at
from harness.model.events import BEHIND_WAVE
from harness.model.scenario import Evidence
from harness.systems.flink.abilities import RunningJob, StandingInput, Written
from harness.systems.flink.faults.crash import During
from harness.systems.flink.faults.waves import (
    after_target,
    arm_waves,
    await_last,
    kill_task_manager,
    through_checkpoint,
)
from harness.systems.flink.proofs import Aligned, CheckpointWas
from harness.systems.flink.roles import TASK_MANAGER
from harness.wire.rules import Action, How

if TYPE_CHECKING:
    from harness.controls import Controls

BEHIND = after_target(2)
"""The request with the records that the other input reads while the first stands still."""


@dataclass(frozen=True, slots=True)
class AtAlignment(Needing):
    """Let one input stand still at the record after the target; the other input passes its barrier.
    Then kill the TaskManager.

    Records after the passed barrier are processed meanwhile if the checkpoint is ``unaligned``;
    otherwise they wait. The settings must say the same, and give the job two inputs.
    """

    id: ClassVar[str] = "flink-crash-at-alignment"
    abilities: ClassVar[tuple[type, ...]] = (RunningJob, StandingInput, Written)
    spare: ClassVar[int] = 1

    unaligned: bool

    def evidence(self) -> Evidence:
        """Return what the history must show as evidence of the fault.

        The source stood still, the TaskManager was killed during an incomplete checkpoint, and
        records after the barrier waited or, if unaligned, were processed.
        """
        return Evidence(
            "failpoint",
            killed=(TASK_MANAGER,),
            at_target=False,
            proofs=(CheckpointWas(During.INCOMPLETE), Aligned(not self.unaligned)),
        )

    def arm(self, controls: Controls) -> None:
        """Arm four stops of the producer."""
        arm_waves(controls)
        controls.arm(BEHIND, rule_at(BEHIND, Action.HOLD, BEHIND_WAVE))
        controls.say("armed")

    def inject(self, controls: Controls) -> None:
        """Begin a checkpoint while one source stands, let the other go on, kill the TaskManager,
        and let the job restart.
        """
        job, inputs = controls.ability(RunningJob), controls.ability(StandingInput)
        position = controls.load.target.position
        inputs.arm(position + 1)
        through_checkpoint(controls, job)
        # a source reads its partitions in any order, so it may only stand still after the target
        # was written
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
