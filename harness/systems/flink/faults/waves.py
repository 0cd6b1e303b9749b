"""How records come in waves: through a completed checkpoint, up to the target, the target, and behind the fault.

The source is stopped three times, as by a slow network: before the third record ahead of the target, until all that comes
before it is in a completed checkpoint; before the target, until the job was given what comes before it, for a job reads
partitions in any order; and behind the target. So what a restored job works on again is known: those three and the target.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.controls import OnWire
from harness.faults.triggers import rule_at
from harness.model.events import LAST_WAVE, SECOND_WAVE, TARGET_WAVE
from harness.model.scenario import Role
from harness.protocols.kafka.steps import Api
from harness.systems.flink.roles import TASK_MANAGER
from harness.wire.rules import Action, Direction, How

if TYPE_CHECKING:
    from harness.controls import Controls, Fired
    from harness.systems.flink.abilities import RunningJob

AHEAD: Final = 3
"""How many records before the target are behind the last completed checkpoint, with it."""


def after_target(offset: int) -> OnWire:
    """Return the request in which our producer sends a record; ``offset`` counts from the target."""
    return OnWire(Role.PRODUCER, Api.PRODUCE, Direction.REQUEST, offset=offset)


SECOND, TARGET, LAST = after_target(-AHEAD), after_target(0), after_target(1)
"""The requests in which our producer sends the first record of a wave."""
PRODUCED: Final = OnWire(Role.PROCESSOR, Api.PRODUCE, Direction.RESPONSE)
"""The answer by which the sink learns that the target is stored."""


def arm_waves(controls: Controls) -> None:
    """Let the source stop three times."""
    controls.arm(SECOND, rule_at(SECOND, Action.HOLD, SECOND_WAVE))
    controls.arm(TARGET, rule_at(TARGET, Action.HOLD, TARGET_WAVE))
    hold_last(controls)


def hold_last(controls: Controls) -> None:
    """Let the source stop behind the target."""
    controls.arm(LAST, rule_at(LAST, Action.HOLD, LAST_WAVE))


def through_checkpoint(controls: Controls, job: RunningJob, wave: OnWire = SECOND) -> int:
    """Take a checkpoint when the job has been given what comes before a wave; let that come; return its number."""
    fired = controls.await_fired(wave)
    job.await_given(controls.load.target.position + wave.offset - 1)
    number = job.checkpoint()
    controls.resolve(fired.hold, How.RELEASE)
    if wave is SECOND:
        let_target_come(controls, job)
    return number


def let_target_come(controls: Controls, job: RunningJob) -> None:
    """Let the target come when the job has been given all that comes before it."""
    held = controls.await_fired(TARGET)
    job.await_given(controls.load.target.position - 1)
    controls.resolve(held.hold, How.RELEASE)


def await_last(controls: Controls) -> Fired:
    """Wait until the source has sent the target, and stands behind it.

    It must go on before a job is restarted: that may take longer than the producer waits for an answer.
    """
    return controls.await_fired(LAST)


def kill_task_manager(controls: Controls) -> None:
    """SIGKILL the one that runs the job, and say so."""
    victim = controls.target(TASK_MANAGER)
    victim.kill()
    controls.say("applied", node=victim.name)
