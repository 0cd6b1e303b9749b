"""The controls of a running cell: eight verbs that every system has, and the triggers that start a
fault.

A fault uses only this module and :mod:`harness.abilities`, so it works with every system.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, Final, Protocol, TypeAlias, TypeVar, runtime_checkable

from harness.model.scenario import Fault, Role
from harness.model.waiting import POLL_S, WaitTimeoutError, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.model.cell import Load
    from harness.model.writes import FirstWrites, Point
    from harness.wire.rules import Direction, How, Rule, StepName

A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class OnWire:
    """A trigger on the wire: the ``occurrence``-th frame of an API that is about the record named
    by ``offset``.

    ``offset`` counts records from the target (0: the target itself, 1: the one after it, -1: the
    one before it). ``since`` is for frames that name no record, such as a heartbeat: they are
    counted after another trigger has fired. If ``since`` is a frame, counting starts with the next
    frame. If it is a failpoint, the process waits there until this trigger is armed. If both
    triggers have the same role, they are about the same process. ``node``: only frames of
    connections to this server count; ``since`` is then held until the program has said there what
    it has to say about earlier records. ``least``: smaller frames (bytes) do not count.
    """

    kind: ClassVar[str] = "rule"
    """What shows that it fired: see :class:`harness.model.scenario.Evidence`."""

    role: Role
    api: StepName
    direction: Direction
    offset: int = 0
    occurrence: int = 1
    since: Trigger | None = None
    node: str | None = None
    least: int | None = None

    @property
    def at_target(self) -> bool:
        """Whether the frame, and the trigger that it is counted from, are about the
        target itself.
        """
        return not self.offset and not (isinstance(self.since, OnWire) and self.since.offset)


@dataclass(frozen=True, slots=True)
class InProgram:
    """A trigger inside a program: a failpoint that the program reaches with the target."""

    kind: ClassVar[str] = "failpoint"

    role: Role
    name: str


Trigger: TypeAlias = OnWire | InProgram


@dataclass(frozen=True, slots=True)
class AtWrite:
    """A trigger at a durable write of a stage: a thread reaches ``point``. Writes are counted after
    ``since`` has fired.
    """

    role: Role
    point: Point
    since: OnWire


@dataclass(frozen=True, slots=True)
class InHand:
    """The target in hand of a reading stage: where it comes in (``at``), where the work on it goes
    out, and where the position behind it is saved (``saves``).

    Work goes out at durable writes (``writes``), in requests that bring results to a broker or
    another server (``sends``), or in both ways. Before the target comes in, the stage must have
    done nothing for ``quiet_s`` (seconds). A commit may take ``within_s`` (seconds). ``unseen``:
    the servers to which work may go that nobody can hold.
    """

    at: OnWire
    saves: OnWire
    writes: FirstWrites | None = None
    sends: tuple[OnWire, ...] = ()
    within_s: float = 2.0
    quiet_s: float = 0.3
    unseen: tuple[str, ...] = ()


@runtime_checkable
class AtRole(Protocol):
    """A fault that names the role of a stage, and has no trigger of its own."""

    @property
    def role(self) -> Role:
        """The role of the stage at which it strikes."""


def trigger_of(fault: Fault) -> Trigger | None:
    """Return the trigger at which a fault strikes; ``None``: it has none, as at a durable write."""
    at = getattr(fault, "at", None)
    return at if isinstance(at, OnWire | InProgram) else None


def role_of(fault: Fault) -> Role:
    """Return the role of the stage at which a fault strikes.

    Raises:
        TypeError: it strikes at no stage, as the baseline does.
    """
    found = trigger_of(fault) or fault
    if not isinstance(found, AtRole):
        raise TypeError(f"the fault {fault.id} strikes at no stage")
    return found.role


class Stop(StrEnum):
    """How a program stops at a failpoint."""

    KILL = "kill"
    """The program kills itself (SIGKILL)."""
    PAUSE = "pause"
    """The program stops itself (SIGSTOP)."""
    HOLD = "hold"
    """The calling thread waits; the threads of the client library go on."""
    FAIL = "fail"
    """The program goes on, and its work on the record fails."""


@dataclass(frozen=True, slots=True)
class Fired:
    """A trigger that fired: the record, the process's node, and the name of the hold if a frame is
    held there.
    """

    record: str | None
    node: str | None
    hold: str | None


class NotFiredError(Exception):
    """A trigger did not fire. The fault ends without a ``healed`` event, and the judge voids the
    cell. If it is told as text why, so does the verdict.
    """

    @property
    def because(self) -> str | None:
        """Why, if that was told."""
        return next((said for said in self.args if isinstance(said, str)), None)


def await_met(
    condition: Callable[[], A | None],
    within_s: float,
    because: str,
    *,
    poll_s: float = POLL_S,
    advance: Callable[[], object] = lambda: None,
) -> A:
    """Wait as :func:`harness.model.waiting.wait_until` does, for what a fault needs.

    Raises:
        NotFiredError: ``condition`` did not return something true in time.
    """
    try:
        return wait_until(
            condition, within_s=within_s, because=because, poll_s=poll_s, advance=advance
        )
    except WaitTimeoutError as error:
        raise NotFiredError(str(error)) from error


class Target(Protocol):
    """A node that can be killed, paused and restarted."""

    @property
    def name(self) -> str:
        """The node's name in the cell."""

    @property
    def role(self) -> Role:
        """The node's role."""

    def kill(self) -> None:
        """Send SIGKILL, and wait until the process is reaped. A process that has died already is
        only waited for.
        """

    def pause(self) -> None:
        """Send SIGSTOP."""

    def resume(self) -> None:
        """Send SIGCONT."""

    def restart(self) -> None:
        """Start the node again and wait until it is ready."""


@runtime_checkable
class Awaited(Target, Protocol):
    """A node whose restart has two halves. In between somebody else can act on who begins again."""

    def begin_again(self) -> None:
        """Start it again; do not wait until it is ready."""

    def await_back(self) -> None:
        """Wait until it is ready."""


class Controls(Protocol):
    """The running cell, as a fault sees it."""

    @property
    def load(self) -> Load:
        """The records of the cell."""

    def arm(self, trigger: Trigger, act: Rule | Stop) -> None:
        """Arm a trigger: one on the wire with a rule, one in a program with the way in which it
        stops.

        Client and record of the rule are filled in from the trigger.
        """

    def await_fired(
        self, trigger: Trigger | AtWrite, unless: Callable[[], object] | None = None
    ) -> Fired:
        """Wait (bounded) until the trigger fires.

        ``unless`` ends the wait as soon as it returns something true. Meanwhile no program that
        has ended is started again.

        Raises:
            NotFiredError: the trigger did not fire in time, or ``unless`` came first.
        """

    def resolve(self, hold: str | None, how: How) -> bool:
        """Release or discard a held frame. Return whether it arrived (its client may have closed
        the connection).
        """

    def target(self, role: Role, node: str | None = None) -> Target:
        """Return the node of a role. ``node``: its name, if the role has several."""

    def say(self, phase: str, **fields: object) -> None:
        """Write a ``fault`` event with its phase (armed, fired, applied, forgot or healed) into the
        history.
        """

    def settle(self) -> None:
        """Wait until every acknowledged record has been recorded in the sink, and its position
        saved.
        """

    def await_exhausted(self) -> None:
        """Wait until the producer has taken every record from the source."""

    def disarm(self) -> None:
        """Disarm the triggers that have not fired, and discard the frames that are still held."""

    def ability(self, kind: type[A]) -> A:
        """Return an ability of :mod:`harness.abilities` that the fault needs.

        Raises:
            LookupError: the system lacks this ability.
        """


@runtime_checkable
class Injectable(Fault, Protocol):
    """A fault with its verbs. Those of :mod:`harness.faults` and of the systems have them all."""

    def arm(self, controls: Controls) -> None:
        """Arm the fault's triggers, and say ``armed``."""

    def inject(self, controls: Controls) -> None:
        """Wait until the trigger fires, do what the fault does, and heal it again.

        Raises:
            NotFiredError: the trigger did not fire in time.
        """


class InjectableOnWire(Injectable, Protocol):
    """A fault whose trigger is on the wire."""

    @property
    def at(self) -> OnWire:
        """Its trigger."""


def injectable(fault: Fault) -> Injectable:
    """Return a declared fault with its verbs.

    Raises:
        TypeError: its class lacks one of them.
    """
    if not isinstance(fault, Injectable):
        lacks = [name for name in _OF_A_FAULT if not hasattr(fault, name)]
        raise TypeError(f"{type(fault).__name__} is no fault: it has no {' and no '.join(lacks)}")
    return fault


_OF_A_FAULT: Final = ("id", "evidence", "arm", "inject")


__all__ = [
    "AtWrite",
    "Awaited",
    "Controls",
    "Fired",
    "InHand",
    "InProgram",
    "Injectable",
    "InjectableOnWire",
    "NotFiredError",
    "OnWire",
    "Role",
    "Stop",
    "Target",
    "Trigger",
    "injectable",
]
