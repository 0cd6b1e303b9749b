"""Crash: kill a TaskManager at an exact place between two checkpoints or inside one; the job
restarts on another.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

from harness.faults.triggers import await_fault, rule_at
from harness.model.scenario import Evidence
from harness.protocols.kafka.steps import Api
from harness.systems.flink.abilities import RunningJob, Written
from harness.systems.flink.faults.waves import (
    PRODUCED,
    arm_waves,
    await_last,
    kill_task_manager,
    through_checkpoint,
)
from harness.systems.flink.proofs import CheckpointRefused, CheckpointWas
from harness.systems.flink.roles import TASK_MANAGER
from harness.wire.rules import Action, FreezeScope, How

if TYPE_CHECKING:
    from harness.controls import Controls, OnWire

BEFORE_STORED, AFTER_STORED = "before-checkpoint-stored", "after-checkpoint-stored"
"""The failpoints of the JobManager before and after it stores a completed checkpoint."""


class During(StrEnum):
    """When the crash comes, relative to a checkpoint."""

    NONE = "none"
    """Between two checkpoints."""
    INCOMPLETE = "incomplete"
    """A checkpoint was begun and is not complete."""
    COMPLETED = "completed"
    """The checkpoint is complete."""


@dataclass(frozen=True, slots=True)
class Crash:
    """Kill the TaskManager at ``at``, and discard what the wire holds then.

    ``during``: when that is, relative to a checkpoint. The checkpoint is requested when the target
    is in the sink's log; if ``at`` is the target's own Produce request, when the wire holds that.
    ``outlasting``: there is no other TaskManager until the coordinator has aborted the transaction
    with the target.
    """

    id: ClassVar[str] = "flink-crash"

    at: OnWire = PRODUCED
    during: During = During.NONE
    outlasting: bool = False
    refused: bool = False
    """Whether an earlier checkpoint with the target was acknowledged by all tasks, and the
    JobManager failed to store it.
    """

    def __post_init__(self) -> None:
        if self.refused and self._on_its_way:
            raise ValueError(
                "refused: at must come after the target's own Produce request, which the "
                "checkpoint contains"
            )

    def evidence(self) -> Evidence:
        """Return what the history must show as evidence of the fault.

        The rule was hit at the target or after it, the TaskManager was killed, and the checkpoint
        had the declared status.
        """
        was = () if self.during is During.NONE else (CheckpointWas(self.during),)
        proofs = (*was, CheckpointRefused()) if self.refused else was
        return Evidence(
            "rule", killed=(TASK_MANAGER,), approached=not self._on_its_way, proofs=proofs
        )

    def needs(self) -> tuple[type, ...]:
        """Return the abilities that it needs: a job, and its output if ``outlasting``."""
        return (RunningJob, Written) if self.outlasting else (RunningJob,)

    @property
    def spare(self) -> int:
        """How many spare TaskManagers there are."""
        return 0 if self.outlasting else 1

    @property
    def _on_its_way(self) -> bool:
        """Whether the trigger is the target's own Produce request."""
        return self.at.api == Api.PRODUCE

    def arm(self, controls: Controls) -> None:
        """Arm three stops of the source, and one of the sink at the target."""
        arm_waves(controls)
        if self._on_its_way:
            self._hold(controls)
        else:
            controls.arm(PRODUCED, rule_at(PRODUCED, Action.HOLD, "approach"))
        controls.say("armed")

    def inject(self, controls: Controls) -> None:
        """Kill the TaskManager at the trigger, and let the job restart."""
        job = controls.ability(RunningJob)
        through_checkpoint(controls, job)
        number: int | None = None
        if not self._on_its_way:
            near = controls.await_fired(PRODUCED)
            if not self.refused:
                self._hold(controls)
            controls.resolve(near.hold, How.RELEASE)
            if self.refused:
                self._refuse(job)
                self._hold(controls)
            number = job.begin_checkpoint()
        fired = await_fault(controls, self.at)
        if number is None and self.during is not During.NONE:
            number = job.begin_checkpoint()
        if number is not None:
            job.tell_checkpoint(number, completed=self.during is During.COMPLETED)
        last = await_last(controls)
        kill_task_manager(controls)
        controls.resolve(fired.hold, How.DISCARD)
        controls.resolve(last.hold, How.RELEASE)
        if self.outlasting:
            controls.ability(Written).await_aborted()
        job.await_running()
        controls.say("healed")

    def _hold(self, controls: Controls) -> None:
        controls.arm(self.at, rule_at(self.at, Action.HOLD, freeze=FreezeScope.CLIENT))

    @staticmethod
    def _refuse(job: RunningJob) -> None:
        """Let a checkpoint fail after its last acknowledgement."""
        job.arm_store(BEFORE_STORED, refuses=True)
        number = job.begin_checkpoint()
        job.tell_checkpoint(number, completed=True)
