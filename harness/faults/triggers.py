"""What faults share: a rule at a trigger, the wait for it to fire, and stopping a process there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from harness.controls import OnWire, Stop
from harness.wire.rules import Action, Direction, FreezeScope, How, Rule

if TYPE_CHECKING:
    from harness.controls import AtWrite, Controls, Fired, Target, Trigger
    from harness.model.scenario import Role


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


class Needing:
    """A fault that needs the same abilities whatever its fields say. A base of dataclasses."""

    __slots__ = ()
    abilities: ClassVar[tuple[type, ...]] = ()

    def needs(self) -> tuple[type, ...]:
        """Return the abilities that the fault uses."""
        return self.abilities


class AtTrigger(Needing):
    """A fault that begins at one trigger, its field ``at``: the wire holds a frame, or a program
    stops at a failpoint.
    """

    __slots__ = ()
    at: Any
    freezes: ClassVar[FreezeScope | None] = None
    """What else of the process the wire holds; ``None``: nothing, its other threads go on."""
    stops: ClassVar[Stop] = Stop.KILL
    """How the program stops at a failpoint."""

    def _rule(self) -> Rule:
        """Return the rule, where the trigger is on the wire."""
        return rule_at(self.at, Action.HOLD, freeze=self.freezes)

    def arm(self, controls: Controls) -> None:
        """Arm the trigger."""
        controls.arm(self.at, self._rule() if isinstance(self.at, OnWire) else self.stops)
        controls.say("armed")


def await_fault(controls: Controls, at: Trigger | AtWrite) -> Fired:
    """Wait until the fault's trigger fires, and write that into the history.

    Raises:
        NotFiredError: the trigger did not fire in time.
    """
    fired = controls.await_fired(at)
    controls.say("fired", record=fired.record, node=fired.node)
    return fired


def kill_at(controls: Controls, role: Role, fired: Fired) -> Target:
    """Kill the process of a trigger that has fired, write that into the history, and discard what
    the wire holds. Return the process, which is to be started again.
    """
    victim = controls.target(role, fired.node)
    victim.kill()
    controls.say("applied", node=victim.name)
    controls.resolve(fired.hold, How.DISCARD)
    return victim


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
