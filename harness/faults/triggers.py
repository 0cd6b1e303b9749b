"""What faults share: a rule at a trigger, the wait for it to fire, and stopping a process there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from harness.controls import OnWire, Stop
from harness.wire.rules import Action, Direction, FreezeScope, Rule

if TYPE_CHECKING:
    from harness.controls import AtWrite, Controls, Fired, Target, Trigger


def rule_at(
    at: OnWire, action: Action, name: str = "fault", *, errors: bool = False, **more: Any
) -> Rule:
    """Return the rule that does ``action`` at a trigger on the wire; ``more`` are other fields of
    :class:`Rule`.

    An answer matches only if it grants the request: a broker that is busy, or no longer the leader,
    refuses first. ``errors``: also if it tells of an error.
    """
    granted = at.direction is Direction.RESPONSE and not errors
    return Rule(
        name,
        action,
        api=at.api,
        direction=at.direction,
        occurrence=at.occurrence,
        node=at.node,
        least=at.least,
        granted=granted,
        **more,
    )


class HeldAt:
    """A fault that begins with its frame held by the wire. ``at`` is a field of each such fault."""

    __slots__ = ()
    at: OnWire
    freezes: ClassVar[FreezeScope | None] = None
    """What else of the process the wire holds; ``None``: nothing, its other threads go on."""

    def arm(self, controls: Controls) -> None:
        """Arm the rule that holds the frame."""
        controls.arm(self.at, rule_at(self.at, Action.HOLD, freeze=self.freezes))
        controls.say("armed")


def await_fault(controls: Controls, at: Trigger | AtWrite) -> Fired:
    """Wait until the fault's trigger fires, and write that into the history.

    Raises:
        NotFiredError: the trigger did not fire in time.
    """
    fired = controls.await_fired(at)
    controls.say("fired", record=fired.record, node=fired.node)
    return fired


def arm_stop(
    controls: Controls, at: Trigger, *, freeze: FreezeScope | None = FreezeScope.CLIENT
) -> None:
    """Arm a trigger at which a process waits to be stopped: at its failpoint, or because the wire
    holds its frame.

    ``freeze`` says what else of the process the wire holds.
    """
    if isinstance(at, OnWire):
        controls.arm(at, rule_at(at, Action.HOLD, freeze=freeze))
    else:
        controls.arm(at, Stop.PAUSE)


def stop_at(controls: Controls, at: Trigger) -> tuple[Target, str | None]:
    """Stop the process at the fault's trigger, and write that into the history.

    Return the process and the id of the frame that the wire holds (``None`` at a failpoint).

    Raises:
        NotFiredError: the trigger did not fire in time.
    """
    fired = await_fault(controls, at)
    sleeper = controls.target(at.role, fired.node)
    sleeper.pause()
    controls.say("applied", node=sleeper.name)
    return sleeper, fired.hold
