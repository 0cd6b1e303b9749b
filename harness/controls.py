"""The controls of a running cell: eight verbs that every system has, and the triggers.

A fault uses only this module and :mod:`harness.abilities`; it knows no system.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from harness.model.scenario import Role

if TYPE_CHECKING:
    from harness.model.cell import Load
    from harness.model.writes import Point
    from harness.wire.rules import Direction, How, Rule, StepName

A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class OnWire:
    """A trigger on the wire: the ``occurrence``-th frame of an API that is about the record named by ``offset``.

    ``offset`` counts records from the target (0: the target itself, 1: the one after it, -1: the one before it). ``since`` is
    for frames that name no record, such as a heartbeat: they are counted from another trigger on. If that is a frame, the wire
    counts from the frame behind it. If it is a failpoint, the process stands still there until the rule is armed. If both
    triggers have the same role, they mean the same process.
    """

    role: Role
    api: StepName
    direction: Direction
    offset: int = 0
    occurrence: int = 1
    since: Trigger | None = None

    @property
    def at_target(self) -> bool:
        """Whether the frame, or what it is counted from, is about the target itself."""
        return not self.offset and not (isinstance(self.since, OnWire) and self.since.offset)


@dataclass(frozen=True, slots=True)
class InProgram:
    """A trigger inside a program: a failpoint that the program reaches with the target."""

    role: Role
    name: str


Trigger: TypeAlias = OnWire | InProgram


@dataclass(frozen=True, slots=True)
class AtWrite:
    """A trigger at a durable write of a stage: a thread reaches ``point``, counted from when ``since`` has fired."""

    role: Role
    point: Point
    since: OnWire


class Stop(StrEnum):
    """How a program stops at a failpoint."""

    KILL = "kill"
    """It kills itself."""
    PAUSE = "pause"
    """It stops itself."""
    HOLD = "hold"
    """The program stands still; its client library goes on."""
    FAIL = "fail"
    """It goes on, and the work on the record fails."""


@dataclass(frozen=True, slots=True)
class Fired:
    """A trigger that fired: the record, the process, and what is held there now (null: nothing)."""

    record: str | None
    node: str | None
    hold: str | None


class NotFiredError(Exception):
    """A trigger did not fire. The fault ends without a ``healed`` event, and the judge voids the cell."""


class Target(Protocol):
    """A node that can be crashed."""

    @property
    def name(self) -> str:
        """Its name in the cell."""

    @property
    def role(self) -> Role:
        """What it does."""

    def kill(self) -> None:
        """Send SIGKILL, and wait until the process is reaped. If it has died already, only wait."""

    def pause(self) -> None:
        """Send SIGSTOP."""

    def resume(self) -> None:
        """Send SIGCONT."""

    def restart(self) -> None:
        """Start it again and wait until it is ready."""


class Controls(Protocol):
    """The running cell, as a fault sees it."""

    load: Load

    def arm(self, trigger: Trigger, act: Rule | Stop) -> None:
        """Arm a trigger: on the wire with a rule, in a program with how it stops.

        The rule has everything but client and record, which come from the trigger.
        """

    def await_fired(self, trigger: Trigger | AtWrite) -> Fired:
        """Wait (bounded) until the trigger fires.

        Raises:
            NotFiredError: the trigger did not fire in time.
        """

    def resolve(self, hold: str | None, how: How) -> bool:
        """Release or discard what is held. Return whether it arrived (its client may have hung up)."""

    def target(self, role: Role, node: str | None = None) -> Target:
        """Return the node of a role (``node`` says which, where there are several)."""

    def say(self, phase: str, **fields: Any) -> None:
        """Write a ``fault`` event: armed, fired, applied, forgot or healed."""

    def settle(self) -> None:
        """Wait until everything that is acknowledged has been recorded, and its position saved."""

    def await_exhausted(self) -> None:
        """Wait until the source has nothing left to give."""

    def disarm(self) -> None:
        """Disarm what has not fired, and discard what is still held."""

    def ability(self, kind: type[A]) -> A:
        """Return an ability of :mod:`harness.abilities` that the fault needs.

        Raises:
            LookupError: the system does not have it.
        """


__all__ = ["AtWrite", "Controls", "Fired", "InProgram", "NotFiredError", "OnWire", "Role", "Stop", "Target", "Trigger"]
