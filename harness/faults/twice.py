"""Twice: a second fault during the recovery from a first one."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from harness.abilities import Termination, needs_of
from harness.controls import Awaited, OnWire
from harness.model.events import FaultPhase
from harness.proofs.second import BEHIND, InSuccessor
from harness.wire.rules import Rule

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.controls import (
        AtWrite,
        Controls,
        Fired,
        InjectableOnWire,
        Stop,
        Target,
        Trigger,
    )
    from harness.model.cell import Load
    from harness.model.scenario import Evidence, Role
    from harness.wire.rules import How

A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class Twice:
    """``first`` strikes; then ``second`` strikes during the recovery, at a step counted from the
    first one, or at a record.

    Both are on the wire. A second fault that is counted from a death is armed after the death,
    before the successor starts. Nobody waits for a successor until the second fault has struck: it
    may hold what that one needs to become ready.
    """

    id: ClassVar[str] = "twice"

    first: InjectableOnWire
    second: InjectableOnWire

    def __post_init__(self) -> None:
        if not all(isinstance(fault.at, OnWire) for fault in (self.first, self.second)):
            raise ValueError(
                "both faults of Twice must be on the wire: a failpoint is not possible here"
            )

    @property
    def at(self) -> OnWire:
        """The trigger of the first fault."""
        return self.first.at

    def evidence(self) -> Evidence:
        """Return what the history must show: both faults fired, the first at the target. A role
        that both kill dies twice.
        """
        one, other = self.first.evidence(), self.second.evidence()
        role = self.second.at.role
        both = (InSuccessor(str(role)),) if role in one.killed + one.told else ()
        return dataclasses.replace(
            one,
            killed=one.killed + other.killed,
            paused=one.paused + other.paused,
            told=one.told + other.told,
            approached=one.approached or other.approached,
            proofs=one.proofs + other.proofs + both,
        )

    def needs(self) -> tuple[type, ...]:
        """Return the abilities that either fault needs."""
        return tuple(dict.fromkeys((*needs_of(self.first), *needs_of(self.second))))

    def arm(self, controls: Controls) -> None:
        """Arm the first fault, and the second unless it is counted from a death that has not
        happened yet.
        """
        self.first.arm(_Part(controls))
        if not self._waits:
            self.second.arm(_Second(controls))
        controls.say("armed")

    def inject(self, controls: Controls) -> None:
        """Inject both faults, one after the other; wait for the restarted nodes at the end."""
        begun: dict[str, Awaited] = {}
        ends = self.second.evidence()
        second = _Second(controls, begun, frozenset(ends.killed + ends.told))
        behind = (lambda: self.second.arm(second)) if self._waits else lambda: None
        self.first.inject(_First(controls, begun, behind))
        self.second.inject(second)
        for successor in begun.values():
            successor.await_back()
        controls.say("healed")

    @property
    def _waits(self) -> bool:
        """Whether the second fault is counted from a trigger that ends its process."""
        one = self.first.evidence()
        return self.second.at.since is not None and self.second.at.role in one.killed + one.told


class _Part:
    """The controls as one of two faults sees them. Only ``Twice`` itself says ``armed`` and
    ``healed``, once for both.

    ``begun``: the nodes that were started again after the first fault and are not yet ready, by
    name.
    """

    def __init__(self, controls: Controls, begun: dict[str, Awaited] | None = None) -> None:
        self._controls = controls
        self._begun: dict[str, Awaited] = {} if begun is None else begun
        self.load: Load = controls.load

    def arm(self, trigger: Trigger, act: Rule | Stop) -> None:
        """Arm a trigger."""
        self._controls.arm(trigger, act)

    def say(self, phase: str, **fields: Any) -> None:
        """Pass on what one fault says."""
        if phase not in {FaultPhase.ARMED, FaultPhase.HEALED}:
            self._controls.say(phase, **fields)

    def await_fired(
        self, trigger: Trigger | AtWrite, unless: Callable[[], object] | None = None
    ) -> Fired:
        """Wait for a trigger."""
        return self._controls.await_fired(trigger, unless)

    def resolve(self, hold: str | None, how: How) -> bool:
        """Release, discard or deliver a held frame."""
        return self._controls.resolve(hold, how)

    def target(self, role: Role, node: str | None = None) -> Target:
        """Return a node."""
        return self.met(self._controls.target(role, node))

    def met(self, node: Target) -> Target:
        """Return a node as this fault sees it."""
        return node

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
        found: Any = self._controls.ability(kind)
        return _Stages(found, self) if kind is Termination else found  # type: ignore[return-value]  # an ability by itself


class _First(_Part):
    """Whom it starts again is not waited for. ``behind``: what is done when its victims have ended,
    once, before they start again.
    """

    def __init__(
        self, controls: Controls, begun: dict[str, Awaited], behind: Callable[[], None]
    ) -> None:
        super().__init__(controls, begun)
        self._behind: list[Callable[[], None]] = [behind]

    def met(self, node: Target) -> Target:
        """Return a node that is not waited for when it starts again, where that can be
        done later.
        """
        return cast("Target", _Victim(node, self._begun, self._behind))


class _Second(_Part):
    """The controls as the second fault sees them: its rules get ids of their own.

    ``ends``: the roles whose nodes it ends. It starts them again and waits for them itself.
    """

    def __init__(
        self,
        controls: Controls,
        begun: dict[str, Awaited] | None = None,
        ends: frozenset[Role] = frozenset(),
    ) -> None:
        super().__init__(controls, begun)
        self._ends = ends

    def arm(self, trigger: Trigger, act: Rule | Stop) -> None:
        """Arm a trigger."""
        if isinstance(act, Rule):
            act = dataclasses.replace(act, id=f"{BEHIND}{act.id}")
        super().arm(trigger, act)

    def met(self, node: Target) -> Target:
        """Return a node. If this fault ends it, only this fault waits for it from now on."""
        if node.role in self._ends:
            self._begun.pop(node.name, None)
        return node


@dataclass(frozen=True, slots=True)
class _Victim:
    """A node whose restart does not wait until it is ready. ``behind``: what is done before the
    first restart. Everything else is passed on to the node.
    """

    node: Target
    begun: dict[str, Awaited]
    behind: list[Callable[[], None]]

    def __getattr__(self, name: str) -> Any:
        """Return what is the node's own."""
        return getattr(self.node, name)

    def restart(self) -> None:
        """Start the node again; do not wait until it is ready, where that can be done later."""
        while self.behind:
            self.behind.pop()()
        if isinstance(self.node, Awaited):
            self.begun[self.node.name] = self.node
            self.node.begin_again()
        else:
            self.node.restart()


@dataclass(frozen=True, slots=True)
class _Stages:
    """Implements :class:`harness.abilities.Termination`."""

    found: Termination
    part: _Part

    def stage(self, role: Role, node: str | None = None) -> Any:
        """Return the stage of a role, whole."""
        return self.part.met(self.found.stage(role, node))
