"""Let records come in four waves: up to a completed checkpoint, up to the target, the target, and
after the fault.

The wire stops the source three times, like a slow network: before the third record ahead of the
target, until all earlier records are in a completed checkpoint; before the target, until the job
was given all earlier records, because a job reads partitions in any order; and after the target. So
it is known which records a restored job processes again: those three and the target.
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
"""How many records before the target come after the last completed checkpoint, like the target."""


def after_target(offset: int) -> OnWire:
    """Return the request in which the producer sends a record; ``offset``: the record's distance
    from the target.
    """
    return OnWire(Role.PRODUCER, Api.PRODUCE, Direction.REQUEST, offset=offset)


SECOND, TARGET, LAST = after_target(-AHEAD), after_target(0), after_target(1)
"""The requests in which the producer sends the first record of a wave."""
PRODUCED: Final = OnWire(Role.PROCESSOR, Api.PRODUCE, Direction.RESPONSE)
"""The response that tells the sink that the target is stored."""


def arm_waves(controls: Controls) -> None:
    """Arm the three stops of the source."""
    controls.arm(SECOND, rule_at(SECOND, Action.HOLD, SECOND_WAVE))
    controls.arm(TARGET, rule_at(TARGET, Action.HOLD, TARGET_WAVE))
    stop_behind_target(controls)


def stop_behind_target(controls: Controls) -> None:
    """Arm the stop of the source after the target."""
    controls.arm(LAST, rule_at(LAST, Action.HOLD, LAST_WAVE))


def through_checkpoint(controls: Controls, job: RunningJob, wave: OnWire = SECOND) -> int:
    """Take a checkpoint when the job was given all records before a wave, release the wave, return
    the checkpoint's number.
    """
    fired = controls.await_fired(wave)
    job.await_given(controls.load.target.position + wave.offset - 1)
    number = job.checkpoint()
    controls.resolve(fired.hold, How.RELEASE)
    if wave is SECOND:
        release_target(controls, job)
    return number


def release_target(controls: Controls, job: RunningJob) -> None:
    """Release the target when the job was given all records before it."""
    held = controls.await_fired(TARGET)
    job.await_given(controls.load.target.position - 1)
    controls.resolve(held.hold, How.RELEASE)


def await_last(controls: Controls) -> Fired:
    """Wait until the source has sent the target and is held at the next record.

    Release it before the job restarts, which may take longer than the producer's time-out.
    """
    return controls.await_fired(LAST)


def kill_task_manager(controls: Controls) -> None:
    """Kill the TaskManager that runs the job, and write that down."""
    victim = controls.target(TASK_MANAGER)
    victim.kill()
    controls.say("applied", node=victim.name)
