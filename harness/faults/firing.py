"""What every fault does alike: a rule at its trigger, and the wait for it to fire."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.wire.rules import Direction, Rule

if TYPE_CHECKING:
    from harness.bench import Bench, Fired, OnWire, Trigger
    from harness.wire.rules import Action


def rule_at(at: OnWire, action: Action, name: str = "fault", **more: Any) -> Rule:
    """Return the rule that does ``action`` at a trigger on the wire; ``more`` is what else :class:`Rule` has.

    An answer is one that grants what was asked: a broker that is still busy, or leads no more, refuses first.
    """
    granted = at.direction is Direction.RESPONSE
    return Rule(name, action, api=at.api, direction=at.direction, occurrence=at.occurrence, granted=granted, **more)


def await_fault(bench: Bench, at: Trigger) -> Fired | None:
    """Wait until the fault's trigger fires, and say so; ``None`` where it did not."""
    fired = bench.await_fired(at)
    if fired is not None:
        bench.say("fired", record=fired.record, node=fired.node)
    return fired
