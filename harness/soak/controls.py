"""The controls that a stream gives to a fault: its triggers count the frames of one partition."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, TypeVar

from harness import failpoint
from harness.controls import Fired, InProgram, NotFiredError, OnWire, Stop
from harness.model import events as kinds
from harness.model.events import RulePhase
from harness.model.history import HISTORY, SUFFIX
from harness.model.scenario import Role
from harness.model.waiting import WaitTimeoutError, wait_until
from harness.protocols.kafka.steps import Api
from harness.soak.flow import RECORD_BYTES
from harness.wire.rules import Direction, How

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from harness.controls import AtWrite, Target, Trigger
    from harness.model.cell import Load
    from harness.model.history import HistoryWriter
    from harness.model.tail import SoFar
    from harness.run.nodes import StageNode
    from harness.soak.drawing import DrawnFault
    from harness.wire.control import WireControl
    from harness.wire.rules import Rule

A = TypeVar("A")
FIRE_S: Final = 60.0
CARRIES_RECORDS: Final = {(Api.PRODUCE, Direction.REQUEST), (Api.FETCH, Direction.RESPONSE)}
"""Frames that may carry records. Those that carry none are recognised by their size, and not
counted.
"""
LEAST_RECORDS: Final = 10


@dataclass
class StreamControls:
    """The controls of one fault in a stream. Implements :class:`harness.controls.Controls`."""

    drawn: DrawnFault
    cell: str
    wire: WireControl
    directory: Path
    failpoints: Path
    history: HistoryWriter
    so_far: SoFar
    stages: Mapping[Role, StageNode]
    """The producer and the consumer of the fault's partition."""
    broker: Callable[[], Target]
    goes_on: Callable[[], bool]
    """Says whether some source has records left."""
    load: Load = field(init=False)
    """Not set: a fault in a stream counts frames and has no target record."""
    _rules: list[str] = field(default_factory=list)
    _armed: list[str] = field(default_factory=list)

    def arm(self, trigger: Trigger, act: Rule | Stop) -> None:
        """Arm a trigger: from now on it counts frames, or passes of a failpoint, of the fault's
        partition.

        Raises:
            TypeError: the act is not of the trigger's kind: rules are for the wire, stops for
                programs.
        """
        if isinstance(trigger, InProgram):
            if not isinstance(act, Stop):
                raise TypeError(f"{act} is a rule of the wire, but {trigger} is in a program")
            history = self.directory / HISTORY / f"failpoint{SUFFIX}"
            failpoint.arm(
                self.failpoints,
                trigger.name,
                record=self.stages[trigger.role].stage.place,
                action=act,
                history=history,
                cell=self.cell,
                hit=self.drawn.hit,
            )
            self._armed.append(trigger.name)
            return
        if isinstance(act, Stop):
            raise TypeError(f"{act} stops a program, but the trigger {trigger} is on the wire")
        least = (
            LEAST_RECORDS * RECORD_BYTES
            if (trigger.api, trigger.direction) in CARRIES_RECORDS
            else None
        )
        client = f"{{key}}.{self.stages[trigger.role].name}"
        self.wire.arm(
            self.cell,
            replace(
                act,
                role=str(trigger.role),
                client=client,
                occurrence=self.drawn.hit,
                least=least,
                granted=False,
            ),
        )
        self._rules.append(act.id)

    def await_fired(
        self, trigger: Trigger | AtWrite, unless: Callable[[], object] | None = None
    ) -> Fired:
        """Wait until the trigger fires: at most FIRE_S seconds, and only while some source has
        records left, and ``unless`` returns nothing true.

        Raises:
            NotFiredError: the trigger did not fire.
        """
        try:
            fired = wait_until(
                lambda: (
                    self._fired(trigger)
                    or not self.goes_on()
                    or (unless is not None and bool(unless()))
                ),
                within_s=FIRE_S,
                because="the fault to fire",
            )
        except WaitTimeoutError:
            fired = None
        fired = fired if isinstance(fired, Fired) else self._fired(trigger)
        if fired is None:
            raise NotFiredError(trigger)
        return fired

    def _fired(self, trigger: Trigger | AtWrite) -> Fired | None:
        if isinstance(trigger, OnWire):
            self.wire.check()
            hits = [e for e in self.so_far.of(kinds.Rule) if e.phase == RulePhase.HIT]
            return Fired(None, str(hits[0].client).split(".")[1], hits[0].held) if hits else None
        stage = self.stages[trigger.role]
        if (
            isinstance(trigger, InProgram)
            and self.so_far.of(kinds.Failpoint)
            and stage.stopped_itself()
        ):
            return Fired(None, stage.name, None)
        return None

    def resolve(self, hold: str | None, how: How) -> bool:
        """Release or discard a held frame. Return whether it arrived."""
        return hold is not None and self.wire.resolve(hold, how).reached

    def target(self, role: Role, node: str | None = None) -> Target:
        """Return the broker, or a program of the fault's partition."""
        del node
        return self.broker() if role is Role.BROKER else self.stages[role]

    def say(self, phase: str, **fields: object) -> None:
        """Write a ``fault`` event."""
        self.history.write(
            kinds.Fault(phase=phase, fault=self.drawn.scenario.fault.id, facts=fields)
        )

    def settle(self) -> None:
        """Refuse: a stream does not rest.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("a stream does not rest")

    def await_exhausted(self) -> None:
        """Refuse: a stream goes on.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("a stream goes on")

    def disarm(self) -> None:
        """Disarm the triggers that have not fired, and discard the frames that are still held."""
        for name in self._armed:
            failpoint.disarm(self.failpoints, name)
        for held in self.wire.holds():
            if held.cell == self.cell:
                self.wire.resolve(held.held, How.DISCARD)
        while self._rules:
            self.wire.disarm(self.cell, self._rules.pop())

    def ability(self, kind: type[A]) -> A:
        """Refuse: a stream has no abilities.

        Raises:
            LookupError: always.
        """
        raise LookupError(f"a stream has no {kind.__name__}")
