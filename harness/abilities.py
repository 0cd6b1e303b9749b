"""Abilities: what only some systems can do to a running cell. A fault names in ``needs`` those that
it uses.

If a system lacks an ability that a cell's fault needs, the cell does not apply. The plan says so
before the run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from harness.controls import Target
from harness.model.bursts import Backlog, Overlap
from harness.model.rebalances import Regrouping
from harness.model.takeovers import Takeover
from harness.model.turns import NextTarget

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from harness.controls import AtWrite, InHand, OnWire
    from harness.model.harms import Damage, Harm
    from harness.model.scenario import Role, Scenario
    from harness.services.toxiproxy import Toxic
    from harness.wire.messages import Traffic
    from harness.wire.rules import StepName


@runtime_checkable
class NeedsAbilities(Protocol):
    """A fault that does more than the eight verbs of :class:`~harness.controls.Controls`."""

    def needs(self) -> tuple[type, ...]:
        """Return the abilities that the fault uses."""


def needs_of(fault: object) -> tuple[type, ...]:
    """Return the abilities that a fault needs; an empty tuple if it names none."""
    return fault.needs() if isinstance(fault, NeedsAbilities) else ()


def abilities_for(scenario: Scenario) -> tuple[type, ...]:
    """Return the abilities that a scenario needs: those of its fault, and of its broker."""
    own = (BrokerSettings,) if scenario.broker_settings else ()
    return (*needs_of(scenario.fault), *own)


class GivingUp(Protocol):
    """Watch a client whose peer is silent."""

    def await_given_up(self, *, supervised: bool = True) -> bool:
        """Wait until the client no longer waits for its silent peer: it has closed the connection,
        or has an answer from another one. Return whether the silent connection lives.

        ``supervised``: programs that end meanwhile are started again. Where all of them wait for
        the peer that would only use up how often each may be started.

        Raises:
            NotFiredError: the client still waits.
        """


class Beginning(Protocol):
    """Start a stage that was left out when the others started."""

    def begin(self, role: Role) -> None:
        """Start the stage of this role, and wait until it is ready."""


class NewPartitions(Protocol):
    """Give a topic more partitions while its readers are away."""

    def add(self) -> None:
        """Add partitions to the topic between sender and reader: most keys move to new ones."""

    def await_filled(self) -> None:
        """Wait until an added partition has a record. All records may flow meanwhile.

        Raises:
            NotFiredError: none has one.
        """


class NewTopic(Protocol):
    """Delete a topic and make it anew while nobody uses it, or make it late."""

    def appear(self, role: Role) -> None:
        """Start a reader without its topic; create that, and let it have a record first."""

    def await_done(self) -> None:
        """Wait until the readers have recorded all of the topic, and saved that."""

    def make_anew(self) -> None:
        """Delete the topic between sender and reader, and create it again."""

    def await_filled(self, *, longer: bool | None) -> None:
        """Wait until a log of it has records, and is ``longer`` than before, or shorter."""


class PowerLoss(Protocol):
    """Revert the files of a dead broker to what it had flushed to disk."""

    def await_flush_known(self) -> None:
        """Wait until the broker has recorded up to where it has flushed each log, in a write that
        began after this call.
        """

    def forget_unflushed(self, *, internal_topics: bool) -> None:
        """Revert the topic's files to their flushed state, while the broker is down.

        ``internal_topics``: revert those of the broker's internal topics, too.
        """


class TracedWrites(Protocol):
    """Lose the power of a broker whose calls to the kernel are traced."""

    def check(self) -> None:
        """Make sure that the broker is traced.

        Raises:
            CellFailure: it is not. The message says why.
        """

    def lose(self) -> None:
        """Make the files of the dead broker what the kernel was told to flush.

        Raises:
            CellFailure: what was flushed cannot be told.
        """


@runtime_checkable
class BrokerSettings(Protocol):
    """Start the broker of a cell with settings that the scenario names."""

    @property
    def told(self) -> Mapping[str, str]:
        """The settings of a cell that the running broker was started with."""


class FilesAtRest(Protocol):
    """Damage a file of a dead broker."""

    def damage(self, damage: Damage, before: int) -> None:
        """Damage the one file that has a record: the ``before``-th before the target in the source.

        Raises:
            CellFailure: the broker lives, or the record is not in one place of one file.
        """


class Replication(Protocol):
    """Keep followers from replicating their leader's log."""

    def stall(self) -> None:
        """Let no follower replicate anything from the target record on, until disarmed."""

    def await_shrunk(self) -> None:
        """Wait until a replica of the target's partition has left the in-sync replicas (ISR)."""


class Leadership(Protocol):
    """Choose which replica leads a partition, as an administrator does."""

    def move(self) -> None:
        """Make another in-sync replica of the target's partition its leader; wait for it."""

    def prefer_another(self) -> None:
        """Make another replica the preferred leader of each partition. The current leaders stay."""

    def elect_preferred(self) -> None:
        """Make the preferred replica of the target's partition its leader; wait for it."""


class Server(Target, Protocol):
    """A broker that can be shut down in order."""

    def end(self) -> None:
        """Send SIGTERM, and wait until the broker has handed over its partitions and has ended."""


class RestartInTurn(Protocol):
    """Restart the brokers one after the other while the others serve (a rolling restart)."""

    def next_broker(self) -> Server:
        """Return the next broker to restart: the target's leader first, coordinators last."""


class Checkpoint(Protocol):
    """Delete the checkpoint of a streaming query."""

    def lose(self) -> None:
        """Delete the query's checkpoint while its driver is down."""


class Retention(Protocol):
    """Delete records that a reader is about to read."""

    def expire(self) -> None:
        """Delete what a query has planned to read, or a consumer was given, and all before it."""


class LogCompaction(Protocol):
    """Have a topic compacted while its reader is down."""

    def await_recorded(self) -> None:
        """Wait until all that readers of the topic were given is recorded."""

    def compact(self) -> None:
        """Let later records come, and compact the log until the target is gone."""


class RecordLocks(Protocol):
    """Wait for the locks by which a broker lends records to one reader for a limited time."""

    def await_expired(self) -> None:
        """Wait until the lock on the record that a reader held when the fault fired has expired."""

    def await_gone_on(self, node: Target) -> None:
        """Wait until a busy program asks for more records: it has finished those it had."""


class SavedPositions(Protocol):
    """Delete, or wait for, the positions that a consumer group has saved with the broker."""

    def forget(self) -> None:
        """Delete the reader's group with all its saved positions, while no member lives."""

    def await_reading(self, node: Target, *, anew: bool = False) -> None:
        """Wait until a restarted reader asks for records (so it knows its position), or has ended.

        ``anew``: the reader was not restarted. Wait for two requests from now on: the second shows
        that the first was answered.
        """


class Membership(Protocol):
    """Wait until a consumer group removes a silent member."""

    def await_expired(self, role: Role) -> None:
        """Wait until the group has removed the role's member that was paused or cut off."""

    def await_put_out(self, node: Target) -> None:
        """Wait until a woken process, its frame still held, is told that its group removed it."""


class Rebalance(Protocol):
    """Make a consumer group rebalance by another member."""

    @property
    def joins(self) -> StepName:
        """The request by which a member joins its group."""

    def join(self, role: Role) -> None:
        """Start one more process of a role; wait until its group knows of it (not partitions)."""

    def await_asked(self, role: Role, sleeper: Target) -> None:
        """Wait until another process of the role than the paused ``sleeper`` has asked for saved
        positions after the fault.
        """


class SessionClock(Protocol):
    """Wait out the session time-out that a reader measures by its own clock."""

    def outlast(self) -> None:
        """Wait for the length of a consumer's session: its own clock cannot be observed."""


class Transactions(Protocol):
    """Wait for the coordinator to abort a transaction that a paused process left open."""

    def await_aborted(self, node: Target) -> None:
        """Wait until the coordinator has aborted the open transaction of a stopped process."""


class Supervision(Protocol):
    """Restart programs that end by an error, as a supervisor does."""

    def supervise(self, node: Target) -> None:
        """Wait until a process has ended or has finished its work. If it ended by an error, restart
        it.
        """


class Succession(Protocol):
    """Start another process in place of a paused one, which becomes a zombie when it wakes."""

    def stand_in(self, role: Role) -> None:
        """Start another process of the role in place of the paused one; wait till ready."""

    def await_zombie(self, node: Target) -> None:
        """Wait until a process that was replaced, and then woken, has gone on working
        or has ended.
        """


class BadNetwork(Protocol):
    """Make the network between clients and their broker slow or lossy."""

    def worsen(self, roles: Iterable[Role], toxics: Iterable[Toxic]) -> None:
        """Add toxics between these roles' clients and the broker, and count the traffic from then
        on.
        """

    def mend(self, roles: Iterable[Role], toxics: Iterable[Toxic]) -> None:
        """Remove the toxics, and write the traffic that passed meanwhile into the history."""

    def await_traffic(self, role: Role, enough: Callable[[Traffic], bool], because: str) -> None:
        """Wait until ``enough`` returns true for the traffic since the toxics were added.
        ``because``: what is awaited.
        """


class Ledger(Protocol):
    """Wait for what programs record about the outcomes of their sends."""

    def await_told_unknown(self) -> None:
        """Wait until a program has recorded that the outcome of sending the target is unknown (a
        time-out, a cut connection).
        """


class Partitions(Protocol):
    """Add partitions to a topic."""

    def add(self) -> None:
        """Add partitions to the topic, as an administrator does: as many as are needed for the
        target to go into a new one.
        """

    def await_known(self, node: Target) -> None:
        """Wait until the client of a process knows how many partitions the topic has now."""

    def await_shared_out(self) -> None:
        """Wait until the group's members report that all the added partitions are
        assigned to them.
        """


class Containers(Protocol):
    """Apply faults that need containers."""

    def apply(self, harm: Harm, role: Role) -> str:
        """Apply the fault to a role's container; return the node's name."""

    def mend(self, harm: Harm, role: Role) -> None:
        """Heal the fault, and wait until the container is ready."""


class Stage(Target, Protocol):
    """A stage of a pipeline, with all its processes."""

    def tell_to_end(self) -> None:
        """Send SIGTERM to all processes of the stage, without waiting."""

    def await_end(self) -> object:
        """Wait until the stage has ended; kill it after the usual grace period of an
        orchestrator.
        """

    def ended(self) -> object:
        """Return how it ended; something false while it runs."""


class Termination(Protocol):
    """Stop a stage by SIGTERM, as orchestrators do."""

    def stage(self, role: Role, node: str | None = None) -> Stage:
        """Return the stage of a role, with all its processes."""


class LocalState(Protocol):
    """Delete the local state of a process that can restore it from a log."""

    def lose(self, node: Target) -> None:
        """Delete the local state of a dead process."""

    def hold_restoring(self, node: Target) -> None:
        """Prepare to hold the first answer that carries state to a dead process after
        its restart.
        """

    def restart_into(self, node: Target) -> str:
        """Start the process, and wait until its first answer with state is held; return the hold's
        name.
        """

    def await_sent(self, node: Target) -> None:
        """Wait until a process has sent what its state held about the target when the process was
        started.
        """


class Input(Protocol):
    """End the producer's input."""

    def end(self) -> None:
        """Give the producer all remaining records and the end of its input; wait until it has read
        them.
        """


class DurableWrites(Protocol):
    """Hold a stage at one of its durable writes (fsync, rename, ...)."""

    def arm(self, trigger: AtWrite) -> None:
        """Hold the write that ``trigger`` names, counted from when its ``since`` has fired."""


class HeldWork(Protocol):
    """Hold the work of a stage on its way out."""

    def hold(self, work: InHand) -> None:
        """Hold what the stage writes and sends from now on: the target is on its way to it."""

    def await_held(self, work: InHand) -> bool:
        """Wait until work is held; say whether any is."""

    def await_overtaken(self, work: InHand) -> bool:
        """Return whether a commit covered the target before its work was done."""

    def release(self, how: str | None = None) -> None:
        """Let the work be done. ``how``: what was awaited, if it was not a commit."""

    def discard(self) -> None:
        """Discard the work; its stage is dead."""


class SavedMarks(Protocol):
    """See whether a producer marks records of its source as sent."""

    def arm(self, sends: OnWire) -> None:
        """Arm the rule that holds the producer's first request until the producer is watched."""

    def watch(self) -> None:
        """Wait for the producer's first request, and watch from then on what the producer saves."""

    def await_saved(self, hold: str | None, within_s: float) -> bool:
        """Look for ``within_s`` seconds, while the wire holds the request with the target. Return
        whether the producer saved anything, or its source was told that the record is taken over.
        """

    def release(self) -> None:
        """Say that no mark was saved: the request goes on."""


class Refusal(Protocol):
    """Make the broker refuse a message."""

    def refuse_next(self) -> None:
        """Make the broker refuse the next message that is sent to the cell's queue, once.

        Raises:
            OSError: the broker cannot be reached.
        """


ABILITIES: dict[type, str] = {
    PowerLoss: "loses what was not flushed",
    BrokerSettings: "starts its broker with the settings that a scenario names",
    TracedWrites: "shows what its broker tells the kernel to flush",
    FilesAtRest: "keeps each message in one place of one file",
    Replication: "has followers that can be kept from copying",
    Leadership: "can be told which replica leads",
    RestartInTurn: "has brokers that are restarted in turn",
    Takeover: "has several brokers that take over from each other",
    Checkpoint: "keeps a checkpoint that can be lost",
    Retention: "deletes what a reader is about to read",
    LogCompaction: "compacts the topics that are declared so",
    RecordLocks: "lends records to readers for a limited time",
    SavedPositions: "saves the positions of a group",
    Membership: "has consumer groups that remove silent members",
    Rebalance: "has consumer groups that rebalance",
    Regrouping: "starts and ends single members of a user's own stage",
    SessionClock: "has readers that measure their session by their own clock",
    Transactions: "aborts a transaction that was left open",
    Supervision: "restarts programs that end by an error",
    Succession: "starts another process in place of a paused one",
    BadNetwork: "can be reached through a slow or lossy network",
    Ledger: "has programs that record what they are told about each send",
    Partitions: "gives a topic more partitions",
    Containers: "runs in containers",
    Termination: "tells a stage to end",
    LocalState: "keeps state on a local disk and can restore it",
    Input: "can end the input of a user's own producer",
    Refusal: "has a broker that refuses a message when it is told to",
    DurableWrites: "can hold a user's own stage at its durable writes",
    SavedMarks: "shows what a user's own producer saves",
    HeldWork: "can hold the work of a user's own stage on its way out",
    GivingUp: "shows when a client gives up a silent peer",
    NewPartitions: "adds partitions to a topic while its readers are away",
    NewTopic: "makes a topic anew, or late",
    Beginning: "can start a stage later than the others",
    Backlog: "lets records gather before their reader starts",
    NextTarget: "aims at another record when one was struck",
    Overlap: "shows when two requests of a client are under way",
}
"""Every ability, and what a system that has it does, for messages about a missing ability."""
