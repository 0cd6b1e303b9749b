"""Events of the wire."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from harness.model.events.base import Event, OfCopy
from harness.model.kinds import Direction


class RulePhase(StrEnum):
    """What becomes of a rule."""

    ARMED = "armed"
    HIT = "hit"
    HELD = "held"
    RELEASED = "released"
    DISCARDED = "discarded"
    DETACHED = "detached"
    DELIVERED = "delivered"
    DELAYED = "delayed"
    DROPPED = "dropped"
    CUT = "cut"
    ANSWERED = "answered"
    """The wire has refused the request in the broker's name."""
    UNANSWERED = "unanswered"
    DISARMED = "disarmed"


class ConnPhase(StrEnum):
    """What happens to a connection."""

    OPEN = "open"
    LEFT = "left"
    """The client has closed its side while the wire held an answer from it: nobody waits for that
    any more.
    """
    CLOSE = "close"
    REFUSED = "refused"
    OPAQUE = "opaque"
    """Its bytes are no frames."""


class Outcome(StrEnum):
    """How a broker has answered."""

    TAKEN = "taken"
    REFUSED = "refused"


class CommitOutcome(StrEnum):
    """How a database has answered a COMMIT."""

    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"
    REFUSED = "refused"


class OfFrame(Event, frozen=True, kw_only=True):
    """An event about a frame: its header, and what a protocol says of it. No field has a meaning in
    every protocol but the first seven.
    """

    conn: int | None = None
    role: str | None = None
    node: str | None = None
    client: str | None = None
    dir: Direction | None = None
    api: str | None = None
    size: int | None = None
    version: int | str | None = None
    corr: int | None = None
    """What pairs a request with its answer."""
    answered: bool | None = None
    """False if the request asks for no answer, or if the frame alone does not show that it asks for
    one (no field: it does). Of a rule that was ``delivered``: whether the broker has answered.
    """
    unfinished: bool = False
    """Whether more frames of its message follow. Rules act at the last one only."""
    records: tuple[str, ...] | None = None
    """If the wire has read the frame: the records in it (no field: none)."""
    error: int | str | None = None
    """If the wire has read the frame: an answer's error code (0: none)."""
    software: str | None = None
    """The name that the client's library gives itself; only of the request that contains it."""
    named_member: bool = False
    """True if a member joins its group under a name of its own (a static member), which outlives
    its process.
    """
    session_ms: int | None = None
    """The session time-out that a JoinGroup request names."""
    acks: int | None = None
    """What a Produce request asks for (-1: all)."""
    renamed: int | None = None
    """In an answer: the number of brokers whose addresses the wire replaced by its own. The client
    got these bytes; ``size`` is that of the broker's answer.
    """
    assigned: tuple[str, ...] | None = None
    """Of an answer that tells a member of a group its partitions from now on: these, as
    ``topic/partition``.
    """
    committed_only: bool | None = None
    """Whether a Fetch request of a reader asks for committed records only
    (``isolation.level=read_committed``).
    """
    topic: str | None = None
    transaction: int | str | None = None
    producer: int | str | None = None
    sequence: int | None = None
    message: int | str | None = None
    part: int | None = None
    place: str | None = None
    places: tuple[str | None, ...] | None = None
    """Null: a message that the client names is none of the broker's."""
    consumer: int | str | None = None
    redelivered: bool | int | None = None
    discards: bool = False
    subscription: int | str | None = None
    shared: bool | int | None = None
    commit: bool | None = None
    address: str | None = None
    handle: int | None = None
    destination: str | None = None
    channel: int | None = None
    path: str | None = None
    message_id: str | None = msgspec.field(default=None, name="message-id")
    receipt: str | None = None


class Frame(OfFrame, frozen=True, kw_only=True):
    """The header of one frame."""


class OfSend(Event, frozen=True, kw_only=True):
    """An event about a record in a request to a broker."""

    record: str
    topic: str | None = None
    partition: int | None = None
    request: str
    producer_id: int | None = None
    producer_epoch: int | None = None
    sequence: int | None = None
    base: int | None = None
    transactional: bool = False
    transactional_id: str | None = None
    attempt: str | None = None


class Sent(OfSend, frozen=True, kw_only=True):
    """The wire forwarded a request with this record."""


class Unsent(OfSend, frozen=True, kw_only=True):
    """Like ``sent``, but the wire dropped or discarded the request."""


class ProduceAnswer(Event, frozen=True, kw_only=True):
    """An answer to a Produce request."""

    record: str
    request: str
    error: int | str | None
    """0: none. Null: the wire could not read it."""
    repeated: bool = False
    """The broker says, by an error, that it stored the record before: it is no refusal."""
    base_offset: int | None = None
    offset: int | None = None
    place: str | msgspec.UnsetType | None = msgspec.UNSET
    """The place that the broker names. Null: it names none, because it had the record already. No
    field: an answer of its protocol names no place.
    """
    reached: bool | None = None
    """The client got the answer."""


class Fetched(OfCopy, frozen=True, kw_only=True):
    """A record in the answer to a fetch."""

    record: str
    topic: str | None = None
    conn: int | None = None
    reached: bool | None = None
    redelivered: bool | None = None
    place: str | None = None
    deliveries: int | None = None
    """Of a share group: the number of this delivery."""


class Replicated(Event, frozen=True, kw_only=True):
    """Like ``fetched``, in the answer to a broker that keeps a replica."""

    record: str
    topic: str
    partition: int
    offset: int
    epoch: int | None = None
    conn: int | None = None
    follower: int | None = None
    reached: bool | None = None


class Committed(Event, frozen=True, kw_only=True):
    """A position in a commit request."""

    topic: str | None = None
    partition: int
    offset: int
    request: str | None = None
    group: str | None = None
    transactional_id: str | None = None
    reached: bool | None = None


class CommitAnswer(Event, frozen=True, kw_only=True):
    """The answer to a commit request."""

    topic: str | None = None
    partition: int
    error: int
    offset: int | None = None
    request: str | None = None
    group: str | None = None
    reached: bool | None = None


class Acknowledged(Event, frozen=True, kw_only=True):
    """A reader acknowledged a message to a queue's broker, or got the answer."""

    record: str
    request: str | None = None
    how: str | None = None
    """ack, nack, or discard (the reader cannot decode the message); of a share group ack, release,
    reject or renew.
    """
    transactional_id: str | None = None
    outcome: Outcome | None = None
    """Null for the request."""
    reached: bool | None = None


class ShareState(Event, frozen=True, kw_only=True):
    """A broker asked the share coordinator to save a record's state, or got the answer."""

    record: str
    request: str | None = None
    state: str
    """``available``, ``acknowledged`` or ``archived``."""
    outcome: Outcome | None = None
    """Null for the request."""
    reached: bool | None = None


class InitProducer(Event, frozen=True, kw_only=True):
    """A producer asked for its id. With a transactional id this ends the transaction that an
    earlier producer left open under the same transactional id.
    """

    transactional_id: str | None = None
    timeout_ms: int
    """The broker aborts an open transaction after that."""
    request: str | None = None
    reached: bool | None = None


class EndTxn(Event, frozen=True, kw_only=True):
    """A request to commit or abort a transaction."""

    transactional_id: str
    producer_id: int | None = None
    producer_epoch: int | None = None
    commit: bool
    request: str | None = None
    reached: bool | None = None


class EndTxnAnswer(Event, frozen=True, kw_only=True):
    """The answer to an ``end_txn`` request."""

    error: int
    request: str | None = None
    transactional_id: str | None = None
    reached: bool | None = None


class Ending(Event, frozen=True, kw_only=True):
    """A request to end the record's transaction, or its answer."""

    record: str
    request: str | None = None
    outcome: Outcome | None = None
    """Null for the request."""
    reached: bool | None = None


class OfRepetition(Event, frozen=True, kw_only=True):
    """An event about something of the record's transaction that was asked for more than once."""

    record: str
    api: str
    what: str
    times: int
    reached: bool | None = None


class AskedAgain(OfRepetition, frozen=True, kw_only=True):
    """In the record's transaction a partition, a group or a position was added more than once
    (AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit). Refused requests do not count.
    """


class MarkedAgain(OfRepetition, frozen=True, kw_only=True):
    """The coordinator asked more than once for the marker of the record's transaction to be written
    into a log.
    """


class DatabaseCommit(Event, frozen=True, kw_only=True):
    """A database was asked to commit the transaction with the record, or it answered."""

    record: str
    request: str | None = None
    outcome: CommitOutcome | None = None
    """Null for the request."""
    reached: bool | None = None


class GroupMember(Event, frozen=True, kw_only=True):
    """What an answer of the broker says of a member of a consumer group: that it has joined or
    left, has other partitions, or is refused. A heartbeat that changes nothing has no line.
    """

    conn: int
    request: str | None = None
    api: str
    group: str
    member: str
    """The id that the broker gave it."""
    generation: int | None = None
    """The group's generation; in the newer protocol the member's epoch."""
    error: int = 0
    owned: tuple[str, ...] | None = None
    """Of a member that joins: the partitions that it has not given up before."""
    assigned: tuple[str, ...] | None = None
    """Its partitions from now on, as ``topic/partition``. Null: this answer does not say."""
    instance: str | None = None
    """Of a classic member that joins: the name that it keeps from one life to the next
    (``group.instance.id``).
    """
    poll_ms: int | None = None
    """Of a member that joins: how long its group waits for it in a rebalance, which is its
    ``max.poll.interval`` in most clients.
    """
    assignor: str | None = None
    """Of a classic member that joins: by which assignor its group shares out its partitions."""
    reached: bool | None = None


class Rule(OfFrame, frozen=True, kw_only=True):
    """What became of a wire rule."""

    rule: str
    phase: RulePhase
    action: str | None = None
    """Of ``armed``, and of ``hit``."""
    direction: Direction | None = None
    """Of ``armed``, as the fields up to ``since``: what the rule selects, and what it does."""
    record: str | None = None
    transactional_id: str | None = None
    carrying: str | None = None
    """Which record is meant, in JSON."""
    occurrence: int | None = None
    least: int | None = None
    limit: int | None = 1
    """How often the rule fires (null: every time)."""
    granted: bool = False
    after: str | None = None
    delay_s: float | None = None
    freeze: str | None = None
    half: bool = False
    """Of ``armed``: half of a held request goes on at once."""
    since: str | None = None
    held: str | None = None
    """The id of the hold."""
    silence_s: float | None = None
    """Of ``held``: the peer closes a silent connection after that many seconds."""
    passed: int | None = None
    """Of ``held``: how many bytes of the request have gone on already; nothing more is read."""
    seen: int | None = None
    """Of ``disarmed``, as the next two: how many frames fitted by their headers."""
    matched: int | None = None
    """How many frames fitted whole."""
    fired: int | None = None
    """How often the rule has acted."""
    forward: bool = False
    """The broker got the refused request as well."""
    reached: bool | None = None
    """Of ``answered``: the client got the answer."""
    said: int | str | None = None
    """Of ``answered``: the error code of the broker's own answer, which the client never got (0:
    none; null: unread).
    """
    because: str | None = None


class Conn(Event, frozen=True, kw_only=True):
    """A connection through the wire."""

    phase: ConnPhase
    conn: int
    role: str | None = None
    node: str | None = None
    client: str | None = None
    peer: int | None = None
    """Of ``open``: the client's port."""
    protocol: str | None = None
    """Of ``open``: what is spoken."""
    because: str | None = None
    ended_by: str | None = None
    """Of ``close``: client, broker or wire."""


class Undecodable(OfFrame, frozen=True, kw_only=True):
    """The wire could not decode a frame that it needed to read. Voids the cell."""

    because: str | None = None
    first: str | None = None
    """A client's first bytes, in hex digits, if they are of another protocol."""
