"""The bench: what a fault sees of the running cell it is applied to. Faults know this page and nothing of the system."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from harness.core.scenario import Role

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from harness.core.cell import Load
    from harness.core.writes import Point
    from harness.toxiproxy import Toxic
    from harness.wire.messages import Traffic
    from harness.wire.rules import Api, Direction, How, Rule


@dataclass(frozen=True, slots=True)
class OnWire:
    """A trigger on the wire: the ``occurrence``-th frame of an API that is about the record named by ``offset``.

    ``offset`` counts records from the target (0: the target itself, 1: the one after it, -1: the one before it).
    ``since`` is for frames that name no record: they count from when that trigger has fired, and of the process where it
    was. (A process that has the target in hand, or a frame about it, stands still there until the rule is armed.)
    """

    role: Role
    api: Api
    direction: Direction
    offset: int = 0
    occurrence: int = 1
    since: Trigger | None = None


@dataclass(frozen=True, slots=True)
class InProgram:
    """A trigger inside a program: a failpoint that is reached with the target in hand."""

    role: Role
    name: str


Trigger: TypeAlias = OnWire | InProgram


@dataclass(frozen=True, slots=True)
class AtWrite:
    """A trigger at a durable write of a stage: a thread gets to ``point``, counted from when ``since`` has fired."""

    role: Role
    point: Point
    since: OnWire


@dataclass(frozen=True, slots=True)
class Fired:
    """A trigger that fired: at which record, in which process, and what the wire holds now (null: nothing)."""

    record: str | None
    node: str | None
    hold: str | None


class Blow(StrEnum):
    """What happens to a container, of all that only a container can suffer."""

    MEMORY = "memory"
    """It hits a limit of its memory; the kernel ends it. It is started again, with more."""
    CONTAINER = "container"
    """SIGKILL; another container takes its place on the same volume."""
    VOLUME = "volume"
    """SIGKILL; its volume is lost; another container begins with an empty one, and an operator makes the topics again."""
    NETWORK = "network"
    """It is taken from the network, until it has given up its connections; then it is given back."""
    DISK = "disk"
    """Its disk is full: it ends by itself, and is started again when there is room. (``Deployment.SMALL``)"""


class NotFiredError(Exception):
    """A trigger did not fire: the fault ends there. It never says that it has healed, and the judge voids the cell."""


class Target(Protocol):
    """A node that can be crashed."""

    @property
    def name(self) -> str:
        """Its name in the cell."""

    @property
    def role(self) -> Role:
        """What it does."""

    def kill(self) -> None:
        """SIGKILL, and wait until it is reaped. Where it has died already, wait for that."""

    def pause(self) -> None:
        """SIGSTOP."""

    def resume(self) -> None:
        """SIGCONT."""

    def restart(self) -> None:
        """Start it again and wait until it is ready."""


class Server(Target, Protocol):
    """A server that can be ended in order."""

    def end(self) -> None:
        """SIGTERM, and wait until it has handed over what it serves and is gone."""


class Stage(Target, Protocol):
    """A stage of a pipeline that is somebody else's."""

    def tell_to_end(self) -> None:
        """SIGTERM to all of its processes. Does not wait."""

    def await_end(self) -> None:
        """Wait until it is gone; after the grace that orchestrators give it is killed."""


class Bench(Protocol):
    """The running cell."""

    load: Load

    def arm(self, trigger: OnWire, rule: Rule) -> None:
        """Arm a rule of the wire; ``rule`` has everything but client and record, which come from the trigger."""

    def arm_failpoint(self, trigger: InProgram, action: str) -> None:
        """Arm a failpoint at the target; ``action``: kill, pause or hold (the program stands still, its client does not)."""

    def arm_write(self, trigger: AtWrite) -> None:
        """Arm what the durable writes count from; they are counted, and one is held, when that has fired."""

    def let_go(self, trigger: InProgram) -> None:
        """Let a program go on that is held at a failpoint."""

    def await_fired(self, trigger: Trigger | AtWrite) -> Fired:
        """Wait (bounded) until the trigger fires. Raises NotFiredError where it does not."""

    def resolve(self, hold: str | None, how: How) -> bool:
        """Say what becomes of what the wire holds; whether it got to where it was to go (its client may have hung up)."""

    def target(self, role: Role, node: str | None = None) -> Target:
        """Return the node of a role (``node`` says which, where there are several)."""

    def stage(self, role: Role, node: str | None = None) -> Stage:
        """Return the stage of a role, as one that can be told to end."""

    def end_input(self) -> None:
        """Give the producer all records that are left, and the end of its input; wait until it has them."""

    def say(self, phase: str, **fields: Any) -> None:
        """Write a ``fault`` event: armed, fired, applied, forgot or healed."""

    def await_flush_known(self) -> None:
        """Wait until the broker has written down how far everything that is stored now is flushed."""

    def forget_unflushed(self, *, internal_topics: bool) -> None:
        """Revert the topic's files to their flushed state, while the broker is down; ``internal_topics`` too."""

    def await_exhausted(self) -> None:
        """Wait until the source has nothing left to give."""

    def settle(self) -> None:
        """Wait until everything that is acknowledged has been recorded, and its position saved."""

    def lose_checkpoint(self) -> None:
        """Remove the checkpoint of the query, while its driver is down."""

    def expire(self) -> None:
        """Delete from the topic what the query has planned to read, and all before it, as retention would."""

    def forget_positions(self) -> None:
        """Delete all that the reader's group has saved, and the group with it, while none of its members lives."""

    def await_reading(self, node: Target, *, anew: bool = False) -> None:
        """Wait until a reader that was started again asks for records, and so knows from where on; or has ended.

        ``anew``: one that was not; it asks twice from now on, and so has been answered once.
        """

    def await_aborted(self, node: Target) -> None:
        """Wait until the coordinator has aborted the transaction that a stopped process has left open."""

    def supervise(self, node: Target) -> None:
        """Wait until a process has ended, or done all there is to do; where it ended by an error, start it again."""

    def await_asked(self, role: Role, sleeper: Target) -> None:
        """Wait until another process of a role than the one that sleeps has asked for saved positions, after the fault."""

    def join(self, role: Role) -> None:
        """Start one more process of a role, and wait until its group knows of it (it has no place there yet)."""

    def stand_in(self, role: Role) -> None:
        """Start another process of a role in the place of one that is paused, and wait until it is ready."""

    def await_zombie(self, node: Target) -> None:
        """Wait until a process that was replaced and woken has gone on, or has ended."""

    def await_session_expired(self, role: Role) -> None:
        """Wait until the group has put out the paused, or cut off, member of a role."""

    def outlast_session(self) -> None:
        """Wait for as long as a consumer's session lasts by its own clock, of which nobody else is told."""

    def await_put_out(self, node: Target) -> None:
        """Wait until a process that was paused on the wire, and woken, has been told that the group has put it out."""

    def worsen_network(self, roles: Iterable[Role], toxics: Iterable[Toxic]) -> None:
        """Put toxics on the way between the cell's clients of these roles and the broker, and count from there on."""

    def mend_network(self, roles: Iterable[Role], toxics: Iterable[Toxic]) -> None:
        """Take them off, and write down what passed meanwhile."""

    def await_traffic(self, role: Role, enough: Callable[[Traffic], bool], because: str) -> None:
        """Wait until what has passed since the network was made bad is ``enough``."""

    def stall_replication(self) -> None:
        """From the target on, let no follower have what its leader has, until :meth:`disarm`."""

    def await_shrunk(self) -> None:
        """Wait until a replica of the target's partition is no longer counted as in sync."""

    def move_leader(self) -> None:
        """Let another replica, in sync, lead the target's partition, as an administrator does, and wait until it does."""

    def prefer_another(self) -> None:
        """Make another replica the preferred leader of each partition; who leads goes on leading."""

    def elect_preferred(self) -> None:
        """Let the preferred replica lead the target's partition, and wait until it does."""

    def next_broker(self) -> Server:
        """Return the broker whose turn it is to be restarted: the target's leader first, who coordinates last."""

    def add_partitions(self) -> None:
        """Give the topic more partitions, as an administrator does: as many as it takes to put the target into a new one."""

    def await_metadata(self, node: Target) -> None:
        """Wait until the client of a process knows how many partitions the topic has now."""

    def await_shared_out(self) -> None:
        """Wait until the members of the group, as they say, have been given all the partitions that were added."""

    def strike(self, blow: Blow, role: Role) -> str:
        """Do to a container what only a container can suffer; return its node's name."""

    def mend(self, blow: Blow, role: Role) -> None:
        """Heal that, and wait until the node is ready."""

    def disarm(self) -> None:
        """Take back what has not fired, and discard what is still held."""

    def await_told(self) -> None:
        """Wait until a program was told that the fate of the target is not known."""


__all__ = ["AtWrite", "Bench", "Blow", "Fired", "InProgram", "OnWire", "Role", "Target", "Trigger"]
