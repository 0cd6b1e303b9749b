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
"""How the ids of the second fault's rules begin."""


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
            raise ValueError("both faults of Twice must be on the wire: a failpoint is not possible here")

    @property
    def at(self) -> Any:
        """The trigger of the first fault."""
        return self.first.at

    def evidence(self) -> Evidence:
        """Return what the history must show: both faults fired, the first at the target. A role that both kill dies twice."""
        one: Evidence = self.first.evidence()
        other: Evidence = self.second.evidence()
        return dataclasses.replace(
            one, killed=one.killed + other.killed, paused=one.paused + other.paused, told=one.told + other.told,
            approached=one.approached or other.approached, proofs=one.proofs + other.proofs,
        )  # fmt: skip

    def needs(self) -> tuple[type, ...]:
        """Return the abilities that either fault needs."""
        return tuple(dict.fromkeys((*needs_of(self.first), *needs_of(self.second))))

    def arm(self, controls: Controls) -> None:
        """Arm the first fault, and the second unless it is counted from a death that has not happened yet."""
        self.first.arm(_Part(controls))
        if not self._waits:
            self.second.arm(_Second(controls))
        controls.say("armed")

    def inject(self, controls: Controls) -> None:
        """Inject both faults, one after the other."""
        second = _Second(controls)
        self.first.inject(_Part(controls, applied=(lambda: self.second.arm(second)) if self._waits else None))
        self.second.inject(second)
        controls.say("healed")

    @property
    def _waits(self) -> bool:
        """Whether the second fault is counted from a trigger that kills its process."""
        return self.second.at.since is not None and self.second.at.role in self.first.evidence().killed


class _Part:
    """The controls as one of two faults sees them. Only ``Twice`` itself says ``armed`` and ``healed``, once for both."""

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
        """Release, discard or deliver a held frame."""
        return self._controls.resolve(hold, how)

    def target(self, role: Role, node: str | None = None) -> Target:
        """Return a node."""
        return self._controls.target(role, node)

    def settle(self) -> None:
        """Wait until every acknowledged record is recorded."""
        self._controls.settle()

    def await_exhausted(self) -> None:
        """Wait until the source is exhausted."""
        self._controls.await_exhausted()

    def disarm(self) -> None:
        """Do nothing: the rules of the other fault must stay armed."""

    def ability(self, kind: type[A]) -> A:
        """Return an ability."""
        return self._controls.ability(kind)


class _Second(_Part):
    """The controls as the second fault sees them: its rules get ids of their own."""

    def _named(self, act: Rule) -> Rule:
        return dataclasses.replace(act, id=f"{BEHIND}{act.id}")
