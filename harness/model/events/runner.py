"""Events of the runner."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, TypeAlias, TypedDict

from harness.model.events.base import Event
from harness.model.harms import Damage

Member: TypeAlias = tuple[int, str, str]
"""A process of a node: its pid, why it belongs to the node (see
``runtimes/process/members.py``), and its command.
"""
Count: TypeAlias = int | float
"""How many there were of something. A simulated run writes 3.0, where a real one writes 3."""


class CellPhase(StrEnum):
    """How far a cell is."""

    BEGUN = "begun"
    PREPARED = "prepared"
    LOADED = "loaded"
    FAULTED = "faulted"
    DRAINED = "drained"
    OBSERVED = "observed"
    ENDED = "ended"


class NodePhase(StrEnum):
    """What happens to a process of a node."""

    STARTED = "started"
    JOINED = "joined"
    """A second process belongs to the node's main process, and dies with it."""
    READY = "ready"
    KILLED = "killed"
    TOLD = "told"
    """The process got SIGTERM."""
    PAUSED = "paused"
    RESUMED = "resumed"
    REPLACED = "replaced"
    """Another process took over the node's work while the node was paused."""
    GONE = "gone"
    """The stage lives, but one of its processes, which had fetched records, has ended by itself."""
    EXITED = "exited"


class FaultPhase(StrEnum):
    """How far a fault is, and what a system says of itself beside that."""

    AIMED = "aimed"
    """A record is aimed at, the ``number``-th (from 0) of several."""
    ARMED = "armed"
    FIRED = "fired"
    APPLIED = "applied"
    HEALED = "healed"
    GIVEN_UP = "given-up"
    """Something that it needs never came: ``because`` says what."""
    FORGOT = "forgot"
    """The system has forgotten something, as the fault says."""
    CARRIED_ON = "carried-on"
    """A journal's acknowledgements of ``records`` were carried over to another file."""
    UNINDEXED = "unindexed"
    """A journal's index was deleted."""
    CHECKPOINT = "checkpoint"
    """How far a checkpoint of a job is."""
    READERS = "readers"
    """How far readers of committed records see."""


class NetworkPhase(StrEnum):
    """Whether the wire makes a node's network bad."""

    ON = "on"
    OFF = "off"


class DrainPhase(StrEnum):
    """How far the drain is."""

    BEGUN = "begun"
    COMPLETED = "completed"
    FAILED = "failed"


class Cell(Event, frozen=True, kw_only=True):
    """How far the run of the cell is."""

    phase: CellPhase
    seal: str | None = None
    """Of ``begun``: the seal of the plan."""
    files: Mapping[str, Mapping[str, object]] | None = None
    """Of ``ended``, which is the last line: the files of the history, see
    :mod:`harness.model.ending`.
    """


class Node(Event, frozen=True, kw_only=True):
    """What happened to a process of a node."""

    node: str
    role: str
    incarnation: int
    phase: NodePhase
    pid: int | None = None
    status: int | None = None
    signal: int | None = None
    asked: bool = False
    """The process ended after it was told to, by itself or killed after a grace period."""
    of: int | None = None
    """Of ``joined``: the node's main process."""
    members: tuple[Member, ...] = ()
    """The node's other processes, which were killed or stopped with it."""
    left: tuple[Member, ...] = ()
    """The node's other processes that are still alive."""
    command: str | None = None
    """Of ``gone``: what the process was."""
    stood_by: bool = False
    """The process was started earlier and waited idle for its turn."""
    supervised: bool = False
    """A supervisor started a program again that had ended by itself."""
    known_as: str | None = None
    """Of ``started``: the name that an engine gives the process."""
    member: int | None = None
    """The number of the member that the process is of, where lostack starts several (``scale``)."""


class NodeFields(TypedDict, total=False):
    """What may be said of a process besides whose it is: fields of :class:`Node`."""

    status: int | None
    signal: int | None
    asked: bool
    of: int | None
    members: tuple[Member, ...]
    left: tuple[Member, ...]
    command: str
    stood_by: bool
    supervised: bool
    known_as: str
    member: int | None


class Owner(Event, frozen=True, kw_only=True):
    """Which process of a stage owns a connection, as the kernel says."""

    conn: int | None
    role: str
    pid: int
    command: str


class Durable(Event, frozen=True, kw_only=True):
    """A thread of a stage is held before or after a durable write."""

    role: str
    incarnation: int
    side: str
    """``before`` or ``after`` the write."""
    call: str
    occurrence: int
    """The number of the write among the thread's such calls since tracing began."""
    number: int
    """The number of the write among the stage's."""
    files: tuple[str, ...]
    thread: int
    pid: int
    result: str | None = None
    """The kernel's return value, if the call is done."""
    made: dict[str, int]
    """How many times each call had begun before."""
    at: int
    """Wall ns, by the tracer's clock."""


class Writes(Event, frozen=True, kw_only=True):
    """The durable writes of a stage in a run without a fault, after it was given the target."""

    role: str
    made: dict[str, Any]
    """How often each thread made each call."""
    records: int
    """How many records came from then on."""
    because: str | None = None
    """Why the writes could not be traced, or null."""
    files: tuple[str, ...] = ()
    """The files that the stage wrote, and will write in another run, too."""
    unrepeated: tuple[str, ...] = ()
    """The files that the stage wrote whose names no other run has; ``made`` does not count them."""


class WorkPhase(StrEnum):
    """What becomes of work that a fault keeps from leaving its stage."""

    WATCHED = "watched"
    """Nothing else is in hand any more; whatever the stage writes or sends from now on is held."""
    HELD = "held"
    COVERED = "covered"
    """What must wait for the work has not: it was stored, while the work was not done."""
    RELEASED = "released"
    DISCARDED = "discarded"


class Work(Event, frozen=True, kw_only=True):
    """What became of the work of a stage that a fault holds on its way out."""

    role: str
    phase: WorkPhase
    how: str | None = None
    """Of ``held``: ``write`` (a thread before a write) or ``frame`` (a request, by the wire). Of
    ``covered``: what was stored. Of ``released``: ``mark``, if a producer's mark was awaited.
    """
    call: str | None = None
    files: tuple[str, ...] = ()
    thread: int | None = None
    pid: int | None = None
    held: str | None = None
    """Of a frame: the id of its hold."""
    waited_s: float | None = None
    """Of ``released``: for how long what was awaited did not come."""


class RegroupPhase(StrEnum):
    """What lostack does to the members of a group."""

    STARTED = "started"
    """It has started another member."""
    TOLD = "told"
    """It has told a member to end."""
    ENDED = "ended"
    """That member has ended."""
    CHANGED = "changed"
    """The group has the request by which a member joins, a member was told to end, or was put out:
    the group shares out its partitions anew from here on.
    """


class Regroup(Event, frozen=True, kw_only=True):
    """What lostack does to the members of a group, all of whose processes live."""

    role: str
    phase: RegroupPhase
    change: str | None = None
    """Of ``changed``: what was done."""
    number: int | None = None
    """The number of the member that was started or told to end."""
    pid: int | None = None
    group: str | None = None
    """Of ``changed``, as the next two: the group, and the member that had the target."""
    member: str | None = None
    conn: int | None = None
    """The connection on which it talks to its group."""


class Elsewhere(Event, frozen=True, kw_only=True):
    """The servers that a stage spoke to past the wire in a run without a fault."""

    role: str
    servers: tuple[str, ...]
    """TCP addresses, and ``unix:`` with the path of a Unix socket."""


class Stranger(Event, frozen=True, kw_only=True):
    """A connection on a stage's route belongs to a process that is not part of the stage. Voids the
    cell, because the stage did not send or receive what passed there.
    """

    conn: int
    role: str
    pid: int
    """0: a process that this user cannot see."""
    command: str


class InputEnded(Event, frozen=True, kw_only=True):
    """The stage's standard input was closed after ``given`` lines, the last one included."""

    role: str
    incarnation: int
    given: int


class Fault(Event, frozen=True, kw_only=True):
    """How far the fault is."""

    phase: str
    """A :class:`FaultPhase`. It is any text, because a fault of somebody else's may say more."""
    fault: str | None = None
    role: str | None = None
    node: str | None = None
    pid: int | None = None
    record: str | None = None
    file: str | None = None
    """Of ``forgot``, as the next five: what was emptied."""
    bytes_before: int | None = None
    bytes_after: int | None = None
    group: str | None = None
    positions: dict[str, int] | None = None
    records: int | tuple[str, ...] | None = None
    number: int | None = None
    """Of ``checkpoint``, as the next three: its number."""
    status: str | None = None
    acknowledged: int | None = None
    """How many subtasks have acknowledged it."""
    of: int | None = None
    """How many subtasks there are."""
    because: str | None = None
    """Of ``given-up``."""
    unseen: int | None = None
    """Of ``readers``: how many offsets they cannot see because of an open transaction."""
    instance: str | None = None
    """Of ``forgot``: the instance whose state was lost."""


class Leadership(Event, frozen=True, kw_only=True):
    """The cluster's own metadata, with node names. The harness asks the cluster before it crashes a
    broker, and after the broker is back.
    """

    topic: str
    partition: int
    leader: str
    number: int
    """The leader's broker id. A follower's broker id is ``follower`` in ``replicated``."""
    epoch: int
    replicas: tuple[str, ...]
    isr: tuple[str, ...]
    controller: str


class Replica(Event, frozen=True, kw_only=True):
    """A copy in the log files of one broker, read at rest, past the broker."""

    node: str
    topic: str
    partition: int
    offset: int
    epoch: int
    record: str | None


class Alone(Event, frozen=True, kw_only=True):
    """Just before a broker was killed, the record had been sent and no follower had it: the wire
    had seen none fetch it, or it was in the files of none.
    """

    record: str


class Network(Event, frozen=True, kw_only=True):
    """The wire makes a node's network bad, or ends that.

    When it ends that (phase off), its counts of the traffic between the node and the broker
    meanwhile (see :class:`harness.wire.messages.Traffic`).
    """

    phase: NetworkPhase
    role: str
    node: str
    toxics: tuple[dict[str, object] | str, ...] = ()
    seconds: float | None = None
    sent: Count | None = None
    received: Count | None = None
    reads: Count | None = None
    answers: Count | None = None
    opened: Count | None = None
    left: Count | None = None
    lost: Count | None = None
    longest_s: float | None = None
    rate: float | None = None


class Engine(Event, frozen=True, kw_only=True):
    """What the container engine reports of a node after a container's fault was applied or healed;
    see :mod:`harness.proofs.engine`.
    """

    said: str
    node: str | None = None
    limit: int | None = None
    before: str | None = None
    after: str | None = None
    volume: str | None = None
    bytes: int | None = None
    address: str | None = None
    size: int | None = None
    free: int | None = None
    status: int | None = None
    because: str | None = None


class Ungoverned(Event, frozen=True, kw_only=True):
    """The leader acknowledged the record while the only controller was dead."""

    record: str


class Flushed(Event, frozen=True, kw_only=True):
    """At a power loss, the offset up to which the topic's partition was flushed."""

    partition: int
    offset: int


class Power(Event, frozen=True, kw_only=True):
    """What a loss of power has left of a broker's files, by what the kernel was told to flush."""

    node: str
    names: str
    """Which names survive: ``ext4`` or ``posix``."""
    calls: int
    """How many calls the tracer saw."""
    flushes: int
    """How many of them flushed something, and ended."""
    files: tuple[tuple[str, int | None, int | None], ...] = ()
    """The files that are not as they were: path, size before, size after (null: none)."""
    records: tuple[str, ...] = ()
    """The records whose bytes were flushed."""
    posix: tuple[str, ...] = ()
    """Of ``ext4``: the files that are left here, and are gone where a name survives only if its
    folder was flushed.
    """


class Damaged(Event, frozen=True, kw_only=True):
    """A file of a dead broker was damaged. What it is then was read from the disk again."""

    node: str
    damage: Damage
    path: str
    record: str
    """The record at whose bytes it was damaged."""
    at: int
    """Where those bytes begin."""
    before: int
    """The size of the file before that, in bytes."""
    after: int
    """Its size after that."""
    bits: int
    """In how many bits it differs, as far as both go."""
    behind: tuple[str, ...] = ()
    """The records whose bytes were there or behind, that one among them."""


class Drain(Event, frozen=True, kw_only=True):
    """How far the drain is."""

    phase: DrainPhase
    stage: str | None = None
    """The one that made no progress."""
    because: str | None = None
    at_once: bool = False
    """The drain did not wait for its deadline, because a program cannot be restarted or reports
    itself that it has stopped.
    """
    tail: bool = False
    """No position is saved behind the last records: the next start reads them again."""
    rested: float | None = None
    """Of a declared pipeline's completed drain, as the next four: for how many seconds nothing had
    happened.
    """
    rest: float | None = None
    """How many seconds were required."""
    why: str | None = None
    """See ``harness/systems/declared/learnt/silence.py``."""
    gap: float | None = None
    """Seconds: the longest silence after which something about a record still happened."""
    missing: int | None = None
    """How many records were not in the output."""


class HeldBack(Event, frozen=True, kw_only=True):
    """During a drain the last stable offset of a log stayed behind its end for at least that many
    seconds.
    """

    log: str
    seconds: float
    because: str | None = None
    """Which of the system's settings let readers wait, and which one ends that."""


class Expelled(Event, frozen=True, kw_only=True):
    """lostack removed dead members from a group, as their session time-outs would have done."""

    group: str
    members: int
    role: str
    member: str | None = None
    """The id of the one that was removed; null: all were."""


class Failed(Event, frozen=True, kw_only=True):
    """The harness could not run the cell to its end. Voids the cell."""

    because: str | None = None
