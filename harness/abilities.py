"""What only some systems can do to a running cell: abilities, which a fault names in ``needs``.

Where a system lacks one that a cell's fault needs, the cell is not applicable, and that is said when the plan is made.
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
    """Return the abilities that a fault needs; none where it says nothing of them."""
    return fault.needs() if isinstance(fault, NeedsAbilities) else ()


class PowerLoss(Protocol):
    """Files of a dead server can be reverted to what was flushed."""

    def await_flush_known(self) -> None:
        """Wait until the broker has written down how far everything that is stored now is flushed."""

    def forget_unflushed(self, *, internal_topics: bool) -> None:
        """Revert the topic's files to their flushed state, while the broker is down; ``internal_topics`` too."""


class Replication(Protocol):
    """Followers copy what their leader has, and can be kept from it."""

    def stall(self) -> None:
        """From the target on, let no follower have what its leader has, until the controls are disarmed."""

    def await_shrunk(self) -> None:
        """Wait until a replica of the target's partition is no longer counted as in sync."""


class Leadership(Protocol):
    """An administrator can say which replica leads."""

    def move(self) -> None:
        """Let another replica, in sync, lead the target's partition, and wait until it does."""

    def prefer_another(self) -> None:
        """Make another replica the preferred leader of each partition; who leads goes on leading."""

    def elect_preferred(self) -> None:
        """Let the preferred replica lead the target's partition, and wait until it does."""


class Server(Target, Protocol):
    """A server that can be ended in order."""

    def end(self) -> None:
        """SIGTERM, and wait until it has handed over what it serves and is gone."""


class RestartInTurn(Protocol):
    """Brokers can be restarted in order, one after the other, while the others serve."""

    def next_broker(self) -> Server:
        """Return the broker whose turn it is: the target's leader first, who coordinates last."""


class Checkpoint(Protocol):
    """A query keeps a checkpoint, and it can be lost."""

    def lose(self) -> None:
        """Remove the checkpoint of the query, while its driver is down."""


class Retention(Protocol):
    """Records that a query is about to read can be deleted."""

    def expire(self) -> None:
        """Delete from the topic what the query has planned to read, and all before it, as retention would."""


class RecordLocks(Protocol):
    """A record is a reader's own for a while."""

    def await_expired(self) -> None:
        """Wait until whoever was given a record when the fault fired has it no longer."""

    def await_gone_on(self, node: Target) -> None:
        """Wait until a program that was kept busy until now asks for more: it has done with what it had."""


class SavedPositions(Protocol):
    """A group saves positions with the broker."""

    def forget(self) -> None:
        """Delete all that the reader's group has saved, and the group with it, while none of its members lives."""

    def await_reading(self, node: Target, *, anew: bool = False) -> None:
        """Wait until a reader that was started again asks for records, and so knows from where on; or has ended.

        ``anew``: one that was not; it asks twice from now on, and so has been answered once.
        """


class Membership(Protocol):
    """Readers are members of a group, which puts out those that are silent."""

    def await_expired(self, role: Role) -> None:
        """Wait until the group has put out the paused, or cut off, member of a role."""

    def await_put_out(self, node: Target) -> None:
        """Wait until a process that was paused on the wire, and woken, has been told that the group has put it out."""


class Rebalance(Protocol):
    """A group shares its work anew when one more joins it, or one is gone."""

    def join(self, role: Role) -> None:
        """Start one more process of a role, and wait until its group knows of it (it has no place there yet)."""

    def await_asked(self, role: Role, sleeper: Target) -> None:
        """Wait until another process of a role than the one that sleeps has asked for saved positions, after the fault."""


class SessionClock(Protocol):
    """Readers count by a clock of their own how long they have not been answered."""

    def outlast(self) -> None:
        """Wait for as long as a consumer's session lasts by its own clock, of which nobody else is told."""


class Transactions(Protocol):
    """A coordinator aborts what a process has left open."""

    def await_aborted(self, node: Target) -> None:
        """Wait until the coordinator has aborted the transaction that a stopped process has left open."""


class Supervision(Protocol):
    """What has ended by an error is started again."""

    def supervise(self, node: Target) -> None:
        """Wait until a process has ended, or done all there is to do; where it ended by an error, start it again."""


class Succession(Protocol):
    """Another process can take the place of one that is paused."""

    def stand_in(self, role: Role) -> None:
        """Start another process of a role in the place of one that is paused, and wait until it is ready."""

    def await_zombie(self, node: Target) -> None:
        """Wait until a process that was replaced and woken has gone on, or has ended."""


class BadNetwork(Protocol):
    """The way between a client and its broker can be made bad."""

    def worsen(self, roles: Iterable[Role], toxics: Iterable[Toxic]) -> None:
        """Put toxics on the way between the cell's clients of these roles and the broker, and count from there on."""

    def mend(self, roles: Iterable[Role], toxics: Iterable[Toxic]) -> None:
        """Take them off, and write down what passed meanwhile."""

    def await_traffic(self, role: Role, enough: Callable[[Traffic], bool], because: str) -> None:
        """Wait until what has passed since the network was made bad is ``enough``."""


class Ledger(Protocol):
    """Programs write down what they are told."""

    def await_told_unknown(self) -> None:
        """Wait until a program was told that the fate of the target is not known."""


class Partitions(Protocol):
    """A topic can be given more partitions."""

    def add(self) -> None:
        """Give the topic more, as an administrator does: as many as it takes to put the target into a new one."""

    def await_known(self, node: Target) -> None:
        """Wait until the client of a process knows how many partitions the topic has now."""

    def await_shared_out(self) -> None:
        """Wait until the members of the group, as they say, have been given all the partitions that were added."""


class Harm(StrEnum):
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


class Containers(Protocol):
    """Nodes are containers."""

    def apply(self, harm: Harm, role: Role) -> str:
        """Do to a container what only a container can suffer; return its node's name."""

    def mend(self, harm: Harm, role: Role) -> None:
        """Heal that, and wait until the node is ready."""


class Stage(Target, Protocol):
    """A stage of a pipeline, with all its processes."""

    def tell_to_end(self) -> None:
        """SIGTERM to all of its processes. Does not wait."""

    def await_end(self) -> object:
        """Wait until it is gone; after the grace that orchestrators give it is killed."""


class Termination(Protocol):
    """A stage can be told to end, as orchestrators tell it."""

    def stage(self, role: Role, node: str | None = None) -> Stage:
        """Return the stage of a role, whole."""


class LocalState(Protocol):
    """A process keeps a state on its local disk, and can make it anew of what it has written to a log."""

    def lose(self, node: Target) -> None:
        """Remove the state of a process that is dead."""

    def hold_restoring(self, node: Target) -> None:
        """Keep from a dead process, when it is back, the first answer with what it makes its state of."""

    def restart_into(self, node: Target) -> str:
        """Start it, and wait until that answer is held; return what names it."""

    def await_sent(self, node: Target) -> None:
        """Wait until a process has sent what its state had of the target when it was started."""


class Input(Protocol):
    """The end of the producer's input can be brought about."""

    def end(self) -> None:
        """Give the producer all records that are left, and the end of its input; wait until it has them."""


class DurableWrites(Protocol):
    """A stage can be held at its durable writes."""

    def arm(self, trigger: AtWrite) -> None:
        """Arm what the durable writes count from; they are counted, and one is held, when that has fired."""


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
    DurableWrites: "holds a stage of somebody else's at its durable writes",
}
"""Every ability, and what a system does that has it, as it is said of one that has not."""
