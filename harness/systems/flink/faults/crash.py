"""Crash: a TaskManager dies at an exact place between two checkpoints, or inside one, and the job is restarted on another."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

from harness.faults.triggers import await_fault, rule_at
from harness.model.scenario import Evidence
from harness.protocols.kafka.steps import Api
from harness.systems.flink.abilities import RunningJob, Written
from harness.systems.flink.faults.waves import PRODUCED, arm_waves, await_last, kill_task_manager, through_checkpoint
from harness.systems.flink.proofs import CheckpointRefused, CheckpointWas
from harness.systems.flink.roles import TASK_MANAGER
from harness.wire.rules import Action, FreezeScope, How

if TYPE_CHECKING:
    from harness.controls import Controls, OnWire

BEFORE_STORED, AFTER_STORED = "before-checkpoint-stored", "after-checkpoint-stored"
"""The failpoints of the JobManager, around its store of completed checkpoints."""


class During(StrEnum):
    """In which part of a checkpoint's life the crash comes."""

    NONE = "none"
    """Between two: none is begun."""
    INCOMPLETE = "incomplete"
    """It was begun, and is not complete."""
    COMPLETED = "completed"
    """It is complete."""


@dataclass(frozen=True, slots=True)
class Crash:
    """At ``at`` the TaskManager is killed; what the wire holds then never arrives.

    ``during``: in which part of a checkpoint's life that is. One that is begun is asked for when the target is in the sink's log,
    or, where ``at`` is about the target's own way there, when the wire holds that. ``outlasting``: no other TaskManager is
    there until the coordinator has aborted the transaction with the target.
    """

    id: ClassVar[str] = "flink-crash"

    at: OnWire = PRODUCED
    during: During = During.NONE
    outlasting: bool = False
    refused: bool = False
    """A checkpoint before that one, with the target, was acknowledged by all, and its JobManager could not store it."""

    def __post_init__(self) -> None:
        if self.refused and self._on_its_way:
            raise ValueError("the target is in the checkpoint that is refused: its own way to the sink is over then")

    def evidence(self) -> Evidence:
        """Return what the history must show.

        The rule was hit at the target, or behind it; the TaskManager died; what became of the checkpoint.
        """
        was = () if self.during is During.NONE else (CheckpointWas(self.during),)
        proofs = (*was, CheckpointRefused()) if self.refused else was
        return Evidence("rule", killed=(TASK_MANAGER,), approached=not self._on_its_way, proofs=proofs)

    def needs(self) -> tuple[type, ...]:
        """Return the abilities that it needs: a job, and what it has written where that is waited for."""
        return (RunningJob, Written) if self.outlasting else (RunningJob,)

    @property
    def spare(self) -> int:
        """How many TaskManagers stand by."""
        return 0 if self.outlasting else 1

    @property
    def _on_its_way(self) -> bool:
        """Whether the trigger is the target's own way to the sink."""
        return self.at.api == Api.PRODUCE

    def arm(self, controls: Controls) -> None:
        """Let the source stop three times; stop the sink at the target."""
        arm_waves(controls)
        if self._on_its_way:
            self._hold(controls)
        else:
            controls.arm(PRODUCED, rule_at(PRODUCED, Action.HOLD, "approach"))
        controls.say("armed")

    def inject(self, controls: Controls) -> None:
        """Kill it there; let the job be restarted."""
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
        """Let a checkpoint come to nothing behind its last acknowledgement."""
        job.arm_store(BEFORE_STORED, refuses=True)
        number = job.begin_checkpoint()
        job.tell_checkpoint(number, completed=True)
