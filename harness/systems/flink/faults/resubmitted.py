"""Resubmitted: kill the TaskManager of a job without restarts, and submit the job again with an
older state or none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.controls import OnWire
from harness.faults.triggers import Needing, await_fault, rule_at
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
    kill_task_manager,
    stop_behind_target,
    through_checkpoint,
)
from harness.systems.flink.proofs import CheckpointWas, ReadersWaited
from harness.systems.flink.roles import TASK_MANAGER
from harness.wire.rules import Action, Direction, FreezeScope, How

if TYPE_CHECKING:
    from harness.controls import Controls, Fired


FIRST = after_target(-2 * AHEAD)
"""The request that begins a further wave, if the target is in the third checkpoint."""
OPENS = OnWire(Role.PROCESSOR, Api.INIT_PRODUCER_ID, Direction.REQUEST, since=PRODUCED)
"""The request with which the sink opens its next transaction, after it flushed the one with the
target.
"""


@dataclass(frozen=True, slots=True)
class FromOlder:
    """Complete two checkpoints, kill the TaskManager, and submit the job with the first checkpoint.

    Everything before the second checkpoint is committed. The target is in the second checkpoint;
    with ``incomplete``, it is in a third one that is incomplete when the TaskManager is killed. The
    settings must turn off the job's restarts.
    """

    id: ClassVar[str] = "flink-resubmitted-older"
    spare: ClassVar[int] = 1

    incomplete: bool = False

    def evidence(self) -> Evidence:
        """Return what the history must show as evidence of the fault.

        The target was in the sink's log, the TaskManager was killed, and the last checkpoint had
        the declared status then.
        """
        proof = CheckpointWas(During.INCOMPLETE if self.incomplete else During.COMPLETED)
        return Evidence("rule", killed=(TASK_MANAGER,), approached=self.incomplete, proofs=(proof,))

    def needs(self) -> tuple[type, ...]:
        """Return the abilities that it needs: a job, and its output unless ``incomplete``."""
        return (RunningJob,) if self.incomplete else (RunningJob, Written)

    def arm(self, controls: Controls) -> None:
        """Arm a stop of the source before each checkpoint, and one of the sink at the target."""
        if self.incomplete:
            controls.arm(FIRST, rule_at(FIRST, Action.HOLD, FIRST_WAVE))
        arm_waves(controls)
        controls.arm(
            PRODUCED, rule_at(PRODUCED, Action.HOLD, "approach" if self.incomplete else "fault")
        )
        controls.say("armed")

    def inject(self, controls: Controls) -> None:
        """Take the checkpoints, kill the TaskManager, and submit the job with the
        first checkpoint.
        """
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
        """Complete the second checkpoint, with the target, and wait until everything
        is committed.
        """
        controls.resolve(await_fault(controls, PRODUCED).hold, How.RELEASE)
        job.checkpoint()
        controls.ability(Written).await_committed()

    @staticmethod
    def _third(controls: Controls, job: RunningJob) -> str | None:
        """Complete the second checkpoint without the target, and begin the third; return the held
        frame.
        """
        through_checkpoint(controls, job)
        near = controls.await_fired(PRODUCED)
        controls.arm(OPENS, rule_at(OPENS, Action.HOLD, freeze=FreezeScope.CLIENT))
        controls.resolve(near.hold, How.RELEASE)
        number = job.begin_checkpoint()
        fired = await_fault(controls, OPENS)
        job.tell_checkpoint(number)
        return fired.hold


@dataclass(frozen=True, slots=True)
class FromNothing(Needing):
    """Kill the TaskManager before a checkpoint has any record, and submit the job without state.

    ``waiting``: no one aborts the open transaction of the first job, so readers wait until its
    time-out. Otherwise the new job aborts it. The settings must turn off the job's restarts.
    """

    id: ClassVar[str] = "flink-resubmitted-anew"
    abilities: ClassVar[tuple[type, ...]] = (RunningJob, Written)
    spare: ClassVar[int] = 1

    waiting: bool

    def evidence(self) -> Evidence:
        """Return what the history must show as evidence of the fault.

        The target was in the sink's log, the TaskManager was killed, and readers waited, or did
        not, when the next job had committed.
        """
        return Evidence("rule", killed=(TASK_MANAGER,), proofs=(ReadersWaited(self.waiting),))

    def arm(self, controls: Controls) -> None:
        """Arm a stop of the sink at the target, and one of the source after it."""
        stop_behind_target(controls)
        controls.arm(PRODUCED, rule_at(PRODUCED, Action.HOLD, freeze=FreezeScope.CLIENT))
        controls.say("armed")

    def inject(self, controls: Controls) -> None:
        """Kill the TaskManager, submit the job without state, let it commit, and write down what
        readers see.

        The source goes on before the wait for readers, which takes longer than the producer's
        time-out.
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
