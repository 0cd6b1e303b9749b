"""Abilities: what only some systems can do to a running cell. A fault names them in ``needs``.

If a system lacks an ability that a cell's fault needs, the cell does not apply, which is said when the plan is made.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from harness.controls import Target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from harness.controls import AtWrite
    from harness.model.scenario import Role
    from harness.services.toxiproxy import Toxic
    from harness.wire.messages import Traffic


@runtime_checkable
class NeedsAbilities(Protocol):
    """A fault that does more than the eight verbs of :class:`~harness.controls.Controls`."""

    def needs(self) -> tuple[type, ...]:
        """Return the abilities that it asks for."""


def needs_of(fault: object) -> tuple[type, ...]:
    """Return the abilities that a fault needs; none where it names none."""
    return fault.needs() if isinstance(fault, NeedsAbilities) else ()


class PowerLoss(Protocol):
    """Files of a dead server can be reverted to what was flushed."""

    def await_flush_known(self) -> None:
        """Wait until the broker has written down how far it has flushed everything that is stored now."""

    def forget_unflushed(self, *, internal_topics: bool) -> None:
        """Revert the topic's files to their flushed state, while the broker is down; ``internal_topics`` too."""


class Replication(Protocol):
    """Followers copy from their leader, and can be kept from it."""

    def stall(self) -> None:
        """Let no follower copy anything, from the target on until the controls are disarmed."""

    def await_shrunk(self) -> None:
        """Wait until a replica of the target's partition is no longer counted as in sync."""


class Leadership(Protocol):
    """An administrator can say which replica leads."""

    def move(self) -> None:
        """Let another replica, in sync, lead the target's partition, and wait until it does."""

    def prefer_another(self) -> None:
        """Make another replica the preferred leader of each partition. The present leaders go on leading."""

    def elect_preferred(self) -> None:
        """Let the preferred replica lead the target's partition, and wait until it does."""


class Server(Target, Protocol):
    """A server that can be ended in order."""

    def end(self) -> None:
        """Send SIGTERM, and wait until it has handed over its work and has ended."""


class RestartInTurn(Protocol):
    """Brokers can be restarted in order, one after the other, while the others serve."""

    def next_broker(self) -> Server:
        """Return the broker whose turn it is: the target's leader first, the coordinators last."""


class Checkpoint(Protocol):
    """A query keeps a checkpoint, and it can be lost."""

    def lose(self) -> None:
        """Remove the checkpoint of the query, while its driver is down."""


class Retention(Protocol):
    """Records that a query is about to read can be deleted."""

    def expire(self) -> None:
        """Delete from the topic what the query has planned to read, and all before it, as retention would."""


class RecordLocks(Protocol):
    """Records are locked for one reader for a while."""

    def await_expired(self) -> None:
        """Wait until the lock of the reader that had a record when the fault fired has expired."""

    def await_gone_on(self, node: Target) -> None:
        """Wait until a program that was kept busy asks for more records, and so has finished those that it had."""


class SavedPositions(Protocol):
    """A group saves positions with the broker."""

    def forget(self) -> None:
        """Delete the reader's group with all positions that it has saved, while no member of it lives."""

    def await_reading(self, node: Target, *, anew: bool = False) -> None:
        """Wait until a restarted reader asks for records, and so knows its position, or has ended.

        ``anew``: the reader was not restarted. Wait for two requests from now on, for the first of them was answered then.
        """


class Membership(Protocol):
    """Readers are members of a group, which removes silent ones."""

    def await_expired(self, role: Role) -> None:
        """Wait until the group has removed the paused, or cut off, member of a role."""

    def await_put_out(self, node: Target) -> None:
        """Wait until a process that was paused on the wire, and woken, has been told that the group has put it out."""


class Rebalance(Protocol):
    """A group rebalances when a member joins or leaves."""

    def join(self, role: Role) -> None:
        """Start one more process of a role, and wait until its group knows of it (it has no place there yet)."""

    def await_asked(self, role: Role, sleeper: Target) -> None:
        """Wait until another process of the role than the paused one has asked for saved positions, after the fault."""


class SessionClock(Protocol):
    """Readers count by their own clock how long they have not been answered."""

    def outlast(self) -> None:
        """Wait for as long as a consumer's session lasts by the consumer's own clock, which cannot be observed."""


class Transactions(Protocol):
    """A coordinator aborts what a process has left open."""

    def await_aborted(self, node: Target) -> None:
        """Wait until the coordinator has aborted the transaction that a stopped process has left open."""


class Supervision(Protocol):
    """Programs that end by an error are restarted."""

    def supervise(self, node: Target) -> None:
        """Wait until a process has ended or has done all of its work. If it ended by an error, restart it."""


class Succession(Protocol):
    """Another process can take the place of one that is paused."""

    def stand_in(self, role: Role) -> None:
        """Start another process of the role in place of the paused one, and wait until it is ready."""

    def await_zombie(self, node: Target) -> None:
        """Wait until a process that was replaced and woken has gone on, or has ended."""


class BadNetwork(Protocol):
    """The network between a client and its broker can be made bad."""

    def worsen(self, roles: Iterable[Role], toxics: Iterable[Toxic]) -> None:
        """Add toxics between the cell's clients of these roles and the broker, and count what passes from then on."""

    def mend(self, roles: Iterable[Role], toxics: Iterable[Toxic]) -> None:
        """Remove the toxics, and write down what passed meanwhile."""

    def await_traffic(self, role: Role, enough: Callable[[Traffic], bool], because: str) -> None:
        """Wait until what has passed since the network was made bad is ``enough``."""


class Ledger(Protocol):
    """Programs write down what they are told."""

    def await_told_unknown(self) -> None:
        """Wait until a program was told that the outcome of the target is unknown."""


class Partitions(Protocol):
    """A topic can be given more partitions."""

    def add(self) -> None:
        """Add partitions to the topic, as an administrator does: as many as put the target into a new one."""

    def await_known(self, node: Target) -> None:
        """Wait until the client of a process knows how many partitions the topic has now."""

    def await_shared_out(self) -> None:
        """Wait until the members of the group, as they say, have been given all the partitions that were added."""


class Harm(StrEnum):
    """A fault that only a container can have."""

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


class Containers(Protocol):
    """Nodes are containers."""

    def apply(self, harm: Harm, role: Role) -> str:
        """Apply the fault to a container; return its node's name."""

    def mend(self, harm: Harm, role: Role) -> None:
        """Heal the fault, and wait until the node is ready."""


class Stage(Target, Protocol):
    """A stage of a pipeline, with all its processes."""

    def tell_to_end(self) -> None:
        """Send SIGTERM to all of its processes. Do not wait."""

    def await_end(self) -> object:
        """Wait until it has ended. After the usual grace period of an orchestrator, kill it."""


class Termination(Protocol):
    """A stage can be asked to end by SIGTERM, as orchestrators do."""

    def stage(self, role: Role, node: str | None = None) -> Stage:
        """Return the stage of a role, whole."""


class LocalState(Protocol):
    """A process keeps state on its local disk, and can restore it from a log."""

    def lose(self, node: Target) -> None:
        """Delete the local state of a dead process."""

    def hold_restoring(self, node: Target) -> None:
        """Hold the first answer with state that a dead process asks for after its restart."""

    def restart_into(self, node: Target) -> str:
        """Start the process, and wait until that answer is held; return the hold's name."""

    def await_sent(self, node: Target) -> None:
        """Wait until a process has sent what its state had of the target when it was started."""


class Input(Protocol):
    """The producer's input can be ended."""

    def end(self) -> None:
        """Give the producer all records that are left, and the end of its input; wait until it has them."""


class DurableWrites(Protocol):
    """A stage can be held at its durable writes."""

    def arm(self, trigger: AtWrite) -> None:
        """Arm the trigger from which durable writes are counted. When it has fired, they are counted, and one is held."""


class Refusal(Protocol):
    """A broker can be told to refuse a message."""

    def refuse_next(self) -> None:
        """Let the broker refuse the next message that is sent to the cell's queue, once.

        Raises:
            OSError: the broker cannot be told.
        """


ABILITIES: dict[type, str] = {
    PowerLoss: "loses what was not flushed",
    Replication: "has followers that can be kept from copying",
    Leadership: "lets another replica lead when it is told to",
    RestartInTurn: "has brokers that are restarted in turn",
    Checkpoint: "keeps a checkpoint that can be lost",
    Retention: "deletes what a query is about to read",
    RecordLocks: "lends records to readers, for a while",
    SavedPositions: "saves the positions of a group",
    Membership: "has groups whose silent members are put out",
    Rebalance: "has groups that share their work anew",
    SessionClock: "has readers with a session of their own",
    Transactions: "aborts a transaction that was left open",
    Supervision: "starts a program again that ended by an error",
    Succession: "lets another process take the place of one that sleeps",
    BadNetwork: "can be led through a bad network",
    Ledger: "has programs that write down what they are told",
    Partitions: "gives a topic more partitions",
    Containers: "runs in containers",
    Termination: "tells a stage to end",
    LocalState: "keeps a state on a local disk, and can make it anew",
    Input: "ends the input of a producer of somebody else's",
    Refusal: "has a broker that refuses a message when it is told to",
    DurableWrites: "holds a stage of somebody else's at its durable writes",
}
"""Every ability, with the words for what a system without it lacks."""
