"""The controls of a cell whose clients go through the wire: triggers on the wire and in programs,
and ``fault`` events.
"""

from __future__ import annotations

import time
from collections import Counter
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from harness import failpoint
from harness.abilities import abilities_for
from harness.controls import Fired, InProgram, NotFiredError, OnWire, Stop
from harness.faults.triggers import rule_at
from harness.model import events as kinds
from harness.model.events import FaultPhase, RulePhase
from harness.model.history import SUFFIX
from harness.model.waiting import WaitTimeoutError, wait_until
from harness.run.drain import Idle
from harness.wire.rules import Action, How

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from harness.controls import AtWrite, Target, Trigger
    from harness.model.cell import Cell, Load
    from harness.model.scenario import Role
    from harness.run.scene import CellScene
    from harness.wire.control import WireControl
    from harness.wire.rules import Rule

A = TypeVar("A")

FIRE_S = 60.0
"""How long a trigger may take to fire."""
IDLE_S = 1.5
"""How long nothing may move, with the source exhausted and all positions at their ends, before a
trigger counts as not fired.
"""
UNSETTLED_S = 25.0
"""How long nothing may move while a position is not saved yet: the program may be slow, or get no
CPU.
"""
CALM_S = 0.3
"""How long a program must say nothing to a server before what it says there is counted."""
CALM_WITHIN_S = 3.0
"""A program that never stops, such as one that asks again and again, is not waited for longer."""
HELD_PROGRAM = "failpoint "
"""The prefix of a hold's name if a program, and not a frame, is held."""


class Nodes(Protocol):
    """The nodes of a cell, for its controls: by role, and by the frames and failpoints at which
    triggers fire.
    """

    def target(self, role: Role, node: str | None = None) -> Target:
        """Return the node of a role.

        Raises:
            RuntimeError: the cell has no such node, or must not touch it.
        """

    def rule(self, trigger: OnWire, rule: Rule) -> Rule:
        """Return the rule in the form in which the wire needs it for the clients of this cell."""

    def selector(self, fired: Fired) -> str | None:
        """Return the client id by which a rule selects the process at which a trigger fired;
        ``None``: its route is enough.
        """

    def hit(self, trigger: OnWire, hit: kinds.Rule) -> str:
        """Return the name of the node whose frame was hit."""

    def standing(self, trigger: InProgram | AtWrite) -> Fired | None:
        """Return the program that has stopped at the trigger's failpoint or write; ``None``: none
        has yet.
        """

    def arm(self, trigger: InProgram, stop: Stop) -> tuple[str, Mapping[str, Any]]:
        """Return how the program stops at a failpoint, and further fields to arm the failpoint with
        (record, place).
        """


@dataclass
class Watching:
    """The functions that are polled while the controls wait for a trigger.

    ``unanswered``: the exceptions that they raise if a broker does not answer.
    """

    progress: Callable[[], object]
    """A value that changes while the cell makes progress."""
    settled: Callable[[], bool]
    """Whether everything acknowledged is recorded, and its position saved."""
    exhausted: Callable[[], bool]
    """Whether the source has nothing left to give."""
    unanswered: tuple[type[Exception], ...] = ()
    idle_s: float = IDLE_S
    fire_s: float = 0.0
    """How long a trigger may take to fire after the load last came further; at least ``FIRE_S``."""
    advance: Callable[[], object] = lambda: None
    """A value that changes only when the load comes further than ever before. What is done again
    does not change it.
    """
    look: Callable[[], None] = lambda: None
    """Called each time that a trigger is checked."""
    supervise: Callable[[], object] = lambda: None
    """Starts programs again that have ended by themselves. It is called while something is awaited
    behind a fault that only they may do, such as to send a frame.
    """

    def is_settled(self) -> bool:
        """Whether everything acknowledged is known to be recorded, and its position saved."""
        try:
            return self.settled()
        except WaitTimeoutError:
            return False
        except self.unanswered:  # the server does not answer
            return False


@dataclass
class FaultState:
    """Whether a cell's fault has fired: known to its controls, and to whoever acts differently from
    then on.
    """

    fired: int = 0
    """How often the fault's own trigger has fired. A trigger that only starts its count does not
    matter.
    """

    @property
    def has_fired(self) -> bool:
        """Whether it has fired."""
        return self.fired > 0


@dataclass
class WireControls:
    """The controls of one cell, for its fault. Implements :class:`harness.controls.Controls`."""

    scene: CellScene
    wire: WireControl
    nodes: Nodes
    watching: Watching
    abilities: Mapping[type, object] = field(default_factory=dict)
    through: Mapping[type, Callable[[WireControls], object]] = field(default_factory=dict)
    """Makes the abilities that work through these controls, by their kind."""
    state: FaultState = field(default_factory=FaultState)
    _rules: list[str] = field(default_factory=list)
    _rule_of: dict[OnWire, str] = field(default_factory=dict)
    _taken: Counter[str] = field(default_factory=Counter)
    """How many hits of each rule were returned already."""
    _reached: dict[Trigger | AtWrite, Fired] = field(default_factory=dict)
    _held: dict[InProgram, str] = field(default_factory=dict)
    """Failpoints at which a program is held, by the name of what is held."""
    _waiting: dict[Trigger | AtWrite, tuple[Trigger, Callable[[Fired], None]]] = field(
        default_factory=dict
    )
    """Triggers that are counted from another one: that one, and what is done when it has fired."""
    _undone: list[Callable[[], None]] = field(default_factory=list)
    """What is undone when the controls are disarmed, after all rules."""

    def __post_init__(self) -> None:
        made = {kind: make(self) for kind, make in self.through.items()}
        self.abilities = {**self.abilities, **made}

    @property
    def cell(self) -> Cell:
        """The cell."""
        return self.scene.cell

    @property
    def load(self) -> Load:
        """The records of the cell."""
        return self.scene.load

    @property
    def has_fired(self) -> bool:
        """Whether the fault's own trigger has fired."""
        return self.state.has_fired

    # --- the eight verbs --------------------------------------------------------------------------

    def arm(self, trigger: Trigger, act: Rule | Stop) -> None:
        """Arm a trigger at its record and role."""
        if isinstance(trigger, InProgram):
            self._arm_failpoint(trigger, Stop(act))  # type: ignore[arg-type]  # a program stops; a rule is the wire's
            return
        if isinstance(act, Stop):
            raise TypeError(f"{act} stops a program, but the trigger {trigger} is on the wire")
        rule = self.nodes.rule(trigger, act)
        if trigger.since is None:
            record = self.load.records[self.load.target.position - 1 + trigger.offset].id
            self._put(trigger, replace(rule, role=str(trigger.role), record=record))
        elif (near := self._reached.get(trigger.since)) is not None:
            self._put(
                trigger, replace(rule, role=str(trigger.role), client=self.nodes.selector(near))
            )
        elif isinstance(trigger.since, OnWire) and trigger.node is not None:
            self.arm(trigger.since, rule_at(trigger.since, Action.HOLD, f"before-{act.id}"))
            self.approach(trigger, trigger.since, lambda _: self._arm_in_calm(trigger, rule))
        elif isinstance(trigger.since, OnWire):
            if trigger.since not in self._rule_of:
                self.arm(trigger.since, rule_at(trigger.since, Action.MARK, f"before-{act.id}"))
            self._put(
                trigger, replace(rule, role=str(trigger.role), since=self._rule_of[trigger.since])
            )
        else:
            self.arm(trigger.since, Stop.PAUSE)
            self.approach(trigger, trigger.since, lambda _: self.arm(trigger, act))

    def await_fired(
        self, trigger: Trigger | AtWrite, unless: Callable[[], object] | None = None
    ) -> Fired:
        """Wait until the trigger fires, or until ``unless`` returns something true.

        The wait gives up when the load has come no further for ``FIRE_S`` seconds, or when nothing
        has moved for a while. A trigger that counts from another one, which has fired, may need
        longer. It gets the cell's ``still_s``, or ``FIRE_S`` if the cell has none, and never less
        than any other trigger.

        Raises:
            NotFiredError: the trigger did not fire.
        """
        if trigger in self._waiting:
            self._approach(trigger)
        if (
            isinstance(trigger, OnWire)
            and isinstance(trigger.since, OnWire)
            and trigger.since not in self._reached
        ):
            self.await_fired(trigger.since)
        near = isinstance(trigger, OnWire) and trigger.since is not None
        longer_s = FIRE_S if self.cell.still_s is None else min(FIRE_S, self.cell.still_s)
        idle = Idle(
            self.watching.progress,
            self.watching.exhausted,
            max(longer_s, self.watching.idle_s) if near else self.watching.idle_s,
        )

        def over() -> bool:
            if unless is not None:
                return bool(unless())
            return idle.over() and (idle.still_s > UNSETTLED_S or self.watching.is_settled())

        try:
            fired = wait_until(
                lambda: self._fired(trigger, alone=unless is not None) or over(),
                within_s=self._fire_s,
                because="the fault to fire",
                advance=self.watching.advance,
            )
        except WaitTimeoutError:
            fired = None
        if not isinstance(fired, Fired):
            raise NotFiredError(trigger)
        self._reached[trigger] = fired
        return fired

    def resolve(self, hold: str | None, how: How) -> bool:
        """Release or discard a held frame or program. Return whether the frame arrived (the client
        may have hung up).
        """
        if hold is not None and hold.startswith(HELD_PROGRAM):
            if how is How.RELEASE:
                failpoint.release(self._failpoints, hold.removeprefix(HELD_PROGRAM))
            return how is How.RELEASE
        return hold is not None and self.wire.resolve(hold, how).reached

    def target(self, role: Role, node: str | None = None) -> Target:
        """Return the node of a role."""
        return self.nodes.target(role, node)

    def say(self, phase: str, **fields: object) -> None:
        """Write a ``fault`` event."""
        if phase == FaultPhase.FIRED:
            self.state.fired += 1
            self.scene.open_gate()
        self.scene.history.write(
            kinds.Fault(phase=phase, fault=self.cell.scenario.fault.id, facts=fields)
        )

    def settle(self) -> None:
        """Wait until the reading stages have passed everything that is visible now."""
        wait_until(
            self._beside(self.watching.settled),
            within_s=self._fire_s,
            because="everything acknowledged to be recorded",
            poll_s=0.05,
            advance=self.watching.advance,
        )

    def await_exhausted(self) -> None:
        """Wait until the producer has ended. The limit is longer than the time after which its
        client gives up a record.
        """
        self.scene.open_gate()
        within_s = self._fire_s + self.cell.settings.patience_s
        wait_until(
            self._beside(self.watching.exhausted),
            within_s=within_s,
            because="the source to be exhausted",
            advance=self.watching.advance,
        )

    def disarm(self) -> None:
        """Disarm all rules that have not fired, and discard all frames that are still held (the
        wire records both).
        """
        with ExitStack() as ends:  # also where the wire is gone
            while self._undone:
                ends.callback(self._undone.pop(0))
            for held in self.wire.holds():
                if held.cell == self.cell.id:
                    self.wire.resolve(held.held, How.DISCARD)
            while self._rules:
                self.wire.disarm(self.cell.id, self._rules.pop())

    def ability(self, kind: type[A]) -> A:
        """Return an ability of this system that the cell's scenario or its fault needs."""
        if kind not in abilities_for(self.cell.scenario):
            raise LookupError(
                f"the fault {self.cell.scenario.fault.id} does not list {kind.__name__} among "
                "its needs"
            )
        found = self.abilities.get(kind)
        if found is None:
            raise LookupError(f"{self.cell.id} has no {kind.__name__}")
        return found  # type: ignore[return-value]  # by its own key

    # --- for abilities ----------------------------------------------------------------------------

    def approach(
        self, trigger: Trigger | AtWrite, since: Trigger, then: Callable[[Fired], None]
    ) -> None:
        """Count ``trigger`` from ``since``, which is armed. When ``since`` has fired, call
        ``then``; then its process goes on.
        """
        self._waiting[trigger] = since, then

    def put_beside(self, rule: Rule) -> None:
        """Arm a rule that is not a trigger. It is disarmed after all others."""
        self.wire.arm(self.cell.id, rule)
        self._rules.insert(0, rule.id)

    def undo(self, done: Callable[[], None]) -> None:
        """Register a function to be called when the controls are disarmed, after all rules."""
        self._undone.append(done)

    # --- inside -----------------------------------------------------------------------------------

    @property
    def _fire_s(self) -> float:
        return max(FIRE_S, self.watching.fire_s)

    @property
    def _failpoints(self) -> Path:
        return self.scene.failpoints

    def _arm_failpoint(self, trigger: InProgram, stop: Stop) -> None:
        if stop is Stop.HOLD:
            self._held[trigger] = HELD_PROGRAM + trigger.name
        action, more = self.nodes.arm(trigger, stop)
        history = self.scene.history_folder / f"failpoint{SUFFIX}"
        of = {"record": self.load.target.id, **more}
        failpoint.arm(
            self._failpoints, trigger.name, action=action, history=history, cell=self.cell.id, **of
        )

    def _arm_in_calm(self, trigger: OnWire, rule: Rule) -> None:
        await_calm(self.scene, trigger)
        self._put(trigger, replace(rule, role=str(trigger.role)))

    def _put(self, trigger: OnWire, rule: Rule) -> None:
        self.wire.arm(self.cell.id, rule)
        self._rules.append(rule.id)
        self._rule_of[trigger] = rule.id

    def _approach(self, trigger: Trigger | AtWrite) -> None:
        """Wait until a process is stopped at the trigger's ``since``, call the function registered
        for it, resume the process.
        """
        since, then = self._waiting.pop(trigger)
        near = self.await_fired(since)
        then(near)
        if near.hold is None:
            self.target(since.role, near.node).resume()
        else:
            self.resolve(near.hold, How.RELEASE)

    def _fired(self, trigger: Trigger | AtWrite, *, alone: bool = False) -> Fired | None:
        """Return the trigger if it has fired. ``alone``: start no program again that has ended."""
        self.watching.look()
        if not isinstance(trigger, OnWire):
            found = self.nodes.standing(trigger)
            return (
                replace(found, hold=self._held.get(trigger))
                if found and isinstance(trigger, InProgram)
                else found
            )
        hit = self._next_hit(trigger) if alone else self._beside(lambda: self._next_hit(trigger))()
        return None if hit is None else Fired(hit.record, self.nodes.hit(trigger, hit), hit.held)

    def _beside(self, look: Callable[[], A]) -> Callable[[], A]:
        """Return a function that also supervises the programs, behind the fault. Before it a
        program that ends voids the cell.
        """

        def supervised() -> A:
            if self.has_fired:
                self.watching.supervise()
            return look()

        return supervised

    def _next_hit(self, trigger: OnWire) -> kinds.Rule | None:
        """Return the next hit of a trigger's rule that was not returned yet, if there is one.

        The hit is read from the history. The wire writes the line when it has held the frame and
        frozen the client, and before it does anything else. So a command that follows from the line
        meets a frame that is held.

        Raises:
            WireError: the cell has no wire.
        """
        rule = self._rule_of[trigger]
        hits = [
            e
            for e in self.scene.so_far.of(kinds.Rule)
            if e.rule == rule and e.phase == RulePhase.HIT
        ]
        if len(hits) == self._taken[rule]:
            self.wire.check()
            return None
        self._taken[rule] += 1
        return hits[self._taken[rule] - 1]


def await_calm(scene: CellScene, trigger: OnWire) -> None:
    """Wait until a program says nothing more about earlier records to the server at which a trigger
    is to fire, or for ``CALM_WITHIN_S``. Meanwhile the wire holds the frame that the trigger counts
    from.
    """

    def calm() -> bool:
        said = (e.t for e in scene.so_far.of(kinds.Frame) if is_meant(e))
        return time.monotonic_ns() - max(said, default=0) > CALM_S * 1e9

    def is_meant(frame: kinds.Frame) -> bool:
        return (frame.role, frame.node) == (trigger.role, trigger.node)

    with suppress(WaitTimeoutError):
        wait_until(calm, within_s=CALM_WITHIN_S, because=f"the {trigger.role} to be calm")
