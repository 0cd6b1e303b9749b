"""Twice: a second fault during the recovery from a first one."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from harness.abilities import needs_of
from harness.controls import InProgram

if TYPE_CHECKING:
    from harness.controls import Controls, Fired, Target, Trigger
    from harness.model.cell import Load
    from harness.model.scenario import Evidence, Role
    from harness.wire.rules import How, Rule

A = TypeVar("A")
BEHIND = "second-"
"""Begins the names of the second fault's rules."""


@dataclass(frozen=True, slots=True)
class Twice:
    """``first`` strikes; then ``second`` strikes during the recovery, at a step counted from the first one, or at a record.

    Both are on the wire. A second fault that is counted from a death is armed after the death, before the successor starts.
    """

    id: ClassVar[str] = "twice"

    first: Any
    second: Any

    def __post_init__(self) -> None:
        if any(isinstance(fault.at, InProgram) for fault in (self.first, self.second)):
            raise ValueError("of two faults both are on the wire")

    @property
    def at(self) -> Any:
        """The trigger of the first fault."""
        return self.first.at

    def evidence(self) -> Evidence:
        """Both have fired, the first at the target. A role that is killed by both is killed twice."""
        one: Evidence = self.first.evidence()
        other: Evidence = self.second.evidence()
        return dataclasses.replace(
            one, killed=one.killed + other.killed, paused=one.paused + other.paused, told=one.told + other.told,
            approached=one.approached or other.approached, proofs=one.proofs + other.proofs,
        )  # fmt: skip

    def needs(self) -> tuple[type, ...]:
        """Return the abilities that either of them needs."""
        return tuple(dict.fromkeys((*needs_of(self.first), *needs_of(self.second))))

    def arm(self, controls: Controls) -> None:
        """Arm the first fault, and the second unless it is counted from a death that has not happened yet."""
        self.first.arm(_Part(controls))
        if not self._waits:
            self.second.arm(_Second(controls))
        controls.say("armed")

    def inject(self, controls: Controls) -> None:
        """Inject both, one after the other."""
        second = _Second(controls)
        self.first.inject(_Part(controls, applied=(lambda: self.second.arm(second)) if self._waits else None))
        self.second.inject(second)
        controls.say("healed")

    @property
    def _waits(self) -> bool:
        """Whether the second fault is counted from a trigger that kills its process."""
        return self.second.at.since is not None and self.second.at.role in self.first.evidence().killed


class _Part:
    """The controls as one of two faults sees them. Armed and healed are said once, for both."""

    def __init__(self, controls: Controls, applied: Any = None) -> None:
        self._controls = controls
        self._applied = applied
        self.load: Load = controls.load

    def arm(self, trigger: Trigger, act: Any) -> None:
        """Arm a trigger."""
        self._controls.arm(trigger, self._named(act))

    def _named(self, act: Rule) -> Rule:
        return act

    def say(self, phase: str, **fields: Any) -> None:
        """Pass on what one fault says; when its victims are dead, arm what must be armed before their successors start."""
        if phase in {"armed", "healed"}:
            return
        self._controls.say(phase, **fields)
        if phase == "applied" and self._applied is not None:
            self._applied()

    def await_fired(self, trigger: Trigger) -> Fired:
        """Wait for a trigger."""
        return self._controls.await_fired(trigger)

    def resolve(self, hold: str | None, how: How) -> bool:
        """Say what becomes of what is held."""
        return self._controls.resolve(hold, how)

    def target(self, role: Role, node: str | None = None) -> Target:
        """Return a node."""
        return self._controls.target(role, node)

    def settle(self) -> None:
        """Wait until all is recorded."""
        self._controls.settle()

    def await_exhausted(self) -> None:
        """Wait for the source's end."""
        self._controls.await_exhausted()

    def disarm(self) -> None:
        """Take nothing back: the other one's rules are among it."""

    def ability(self, kind: type[A]) -> A:
        """Return an ability."""
        return self._controls.ability(kind)


class _Second(_Part):
    """Likewise; its rules have names of their own."""

    def _named(self, act: Rule) -> Rule:
        return dataclasses.replace(act, id=f"{BEHIND}{act.id}")
