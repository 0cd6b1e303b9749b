"""The kinds of history events, who writes them, and their fields.

This page is the contract between everything that observes and everything that judges. Every event
also has ``t`` (monotonic ns), ``w`` (wall ns), ``cell`` and ``by`` (the writer). Each count has one
authority: the outbox for *offered*, the wire for *sent*, the program for *acked* and *refused*, the
observer for *stored*, the sink for *recorded*. Lines of other writers about the same thing are
lower bounds.
"""

from __future__ import annotations

from typing import Final

# --- the authorities, written by the observer when the system is at rest --------------------------
OFFERED: Final = "offered"
"""``record, key, position``: one line per record of the source."""
REMOVED: Final = "removed"
"""``place, record, why``: one line per copy that the broker has taken away; ``why`` is a
:class:`~harness.model.places.Removal`.

Of a log also ``topic, partition, epoch, offset, visible``: the copy as the observer read it before
the broker removed it.

Older histories write the event ``deleted`` for a copy that retention removed.
"""
MOVED: Final = "moved"
"""``place, to, record``: the broker, or a client's library, has moved a copy to another place (dead
letters, a topic for later attempts, another server). It is one copy, not two. Another line about
``to`` says what became of it: stored there, removed from there, or moved on.
"""
CURSOR: Final = "cursor"
"""``position, where``: the next position that the producer would take from the source; records from
it on are left in source.
"""
STORED: Final = "stored"
"""``hop, place, waiting, record, key, intact, visible, attempt, foreign``: one line per copy that a
broker has, or is known to have had. Of a log also ``topic, partition, epoch, offset, producer_id``;
every offset must have its line, or the log was not read whole. Of a queue also ``queue``, its name.

``hop`` is ``topic`` (a topic or queue between producer and consumer), ``sink`` (a log that is the
sink) or ``aside`` (dead letters). ``place`` and ``waiting``: see :mod:`harness.model.places`.
``visible``: the copy is committed; in a log, a read-committed reader sees it. ``record`` is null if
the payload is not one of lostack's. ``foreign`` is true if such a payload is no error, because
programs may write other things beside their records. ``text``, for a declared pipeline, is the
beginning of a payload that was never offered. ``parts`` and ``counts``, if they are not 1: in how
many parts the broker keeps the message, and as how many messages it counts it while it waits. A
waiting part of a message that is incomplete has a line of its own, which is ``foreign``.
"""
LOG: Final = "log"
"""``hop, topic, partition, start, stable, end, last_data``: offsets at rest; ``last_data`` is the
last visible copy, or -1.

One line for every partition of every log of the plan. ``hop`` may also be ``cursor``: a topic that
keeps the source's cursor. The copies in that topic have no lines.
"""
COUNTED: Final = "counted"
"""``hop, queue, ready, in_flight, scheduled``: how many messages the broker itself counts in a
queue at rest: waiting for a consumer, with a consumer that has not acknowledged them, and scheduled
for later. No message is in two of these counts.

One line for every queue of the pipeline, dead letters and later attempts included. ``hop`` as in
``stored``.
"""
SETTLED: Final = "settled"
"""``open``: how many transactions of other connections were open, or prepared, when the observer
read the database. Only of a database server.
"""
POSITION: Final = "position"
"""``partition, offset, where``: the position saved by the consuming side, wherever its semantic
keeps it (-1: none).
"""
RECORDED: Final = "recorded"
"""``record, key, intact, order, place, attempt``: one line per row of the sink. ``place`` is that
of the copy from which the row was made; of a log also ``partition, epoch, offset``. ``text`` as in
``stored``.

Rows of a record without a ``place`` count as one copy that was delivered again. So where a sink
does not name the copy, the observer matches the n-th row of a record with its n-th copy.
"""
FOLDED: Final = "folded"
"""``key, version, record, times``: how often a record is included in one version of a key's value,
if the sink holds aggregated values instead of records. The highest version of a value counts. If
one version has two lines about a record, the later line counts; so no two values of a key may share
a version number.
"""
TOTAL: Final = "total"
"""``key, expected, found, missing, extra, alone``: a total in a declared pipeline's output differs
from the total of its key's records (``key`` is empty if one total covers all records). At least
``missing`` records were not counted, or ``extra`` were counted again, but the total does not say
which. ``alone``: the one record that would explain the difference by itself, or null. Each record
also has a ``folded`` line, with ``times`` 1.
"""
INVARIANT: Final = "invariant"
"""``asked, equals, found, holds``: a declared pipeline's own check of its results: the query, the
value that it must return, the value that it returned, and whether they agree.
"""
UNNAMED: Final = "unnamed"
"""``count, text``: how many rows of a declared pipeline's output have no id, and the beginning of
the first of them. Such rows do not count as results.
"""
UNFILLED: Final = "unfilled"
"""``count, text, columns``: how many rows of a declared pipeline's output are empty in ``columns``
(from 1), in which no row was empty without a fault; and the beginning of the first of them. Such
rows do not count as results. Their records have no other row.
"""
ABSORBED: Final = "absorbed"
"""``record, place``, of a log ``partition, epoch, offset``: a copy that reached the sink and was
rightly not recorded.
"""
AUTHORITIES: Final = (
    OFFERED,
    CURSOR,
    STORED,
    LOG,
    COUNTED,
    POSITION,
    RECORDED,
    FOLDED,
    TOTAL,
    INVARIANT,
)
"""Events that are true only of a system at rest, after the drain. ``absorbed`` is not among them:
it is true at any time.
"""

# --- the ledgers, written by the programs ---------------------------------------------------------
READY: Final = "ready"
"""``role``: a program is up and doing its work (connected, partitions assigned)."""
RESUMED: Final = "resumed"
"""``where, partition, position``: the position from which a started program goes on (partition
null: the source's cursor).
"""
TAKEN: Final = "taken"
"""``record``: the program has taken the record from the source."""
ACKED: Final = "acked"
"""``record, attempt, partition, offset``: the program was told that the record is stored."""
REFUSED: Final = "refused"
"""``record, attempt, error``: the program was told an error that means *not stored*."""
UNKNOWN: Final = "unknown"
"""``record, attempt, error``: the program cannot know whether the record is stored (a time-out, a
cut connection).
"""
DELIVERED: Final = "delivered"
"""``record, redelivered``, of a log ``partition, epoch, offset``: the program was given the record.
``redelivered``: the broker's own flag or count, where it has one.
"""
TRANSACTION: Final = "transaction"
"""``transaction, outcome, error, told_by``: the outcome of a transaction, as the program was told
it: begun, committed, aborted, unknown or fenced. ``told_by`` is ``library`` if the client's library
reports the outcome without an answer of the broker; the outcome is then in doubt.

``transaction`` is ``<incarnation>.<number>``, the first two words of every attempt made in it.
"""
DOUBT: Final = "doubt"
"""``record, error``: the connection to the database was lost before a COMMIT was answered. The
program does not know whether the record's result is there.
"""
SAVED: Final = "saved"
"""``partition, offset, error``, of a queue ``record, error``: the program saved its position, or
acknowledged a message. If ``error`` is not null, the program tried to and failed. Of a share group
also ``how``: accept, release or reject.
"""
BATCH: Final = "batch"
"""``phase, batch, partition, offset, position``: a batch reads a partition from ``offset`` up to,
not including, ``position``.

``phase`` says how far the engine is with the batch: before-offset-log, after-offset-log,
before-sink-log, after-sink-log, before-commit-log, after-commit-log.
"""
STATE: Final = "state"
"""``batch, key, records, news``: all records in the state of a key after a batch, and those that
this batch added (``news``).

A key whose state the batch did not change has no line.
"""
FAILPOINT: Final = "failpoint"
"""``name, record, hit, action, pid``: written by the program right before it acts on itself."""
STOPPED: Final = "stopped"
"""``because``: a program ended by itself, for this reason."""

# --- the wire -------------------------------------------------------------------------------------
FRAME: Final = "frame"
"""``conn, role, node, client, dir, api, version, corr, size``: the header of one frame. If the wire
has read the frame, also ``records``, the records in it (no field: none), and of an answer
``error``, its error code (0: none). ``answered``: false if the request asks for no answer, or if
the frame alone does not show that it asks for one (no field: true). ``software``: the name that the
client's library gives itself; only of the request that contains this name. ``named_member``: true
if a member joins its group under a name of its own (a static member), which outlives its process.
``acks``: what a Produce request asks for (-1: all). ``committed_only``: whether a Fetch request of
a reader asks for committed records only (``isolation.level=read_committed``).
"""
SENT: Final = "sent"
"""``record, topic, partition, request, producer_id, producer_epoch, sequence, transactional,
transactional_id, attempt``: the wire forwarded a request with this record.
"""
UNSENT: Final = "unsent"
"""Like ``sent``, but the wire dropped or discarded the request."""
PRODUCE_ANSWER: Final = "produce_answer"
"""``record, request, error, base_offset, reached``: an answer to a Produce request. ``reached``:
the client got the answer.
"""
FETCHED: Final = "fetched"
"""``record, topic, partition, offset, epoch, conn, reached``: a record in the answer to a fetch.
For a share group also ``deliveries``: the number of this delivery.
"""
REPLICATED: Final = "replicated"
"""``record, topic, partition, offset, epoch, conn, follower, reached``: like ``fetched``, in the
answer to a broker that keeps a replica.
"""
COMMITTED: Final = "committed"
"""``topic, partition, offset, request, reached``: a position in a commit request."""
COMMIT_ANSWER: Final = "commit_answer"
"""``topic, partition, error, reached``: the answer to a commit request."""
ACKNOWLEDGED: Final = "acknowledged"
"""``record, request, how, transactional_id, outcome, reached``: a reader acknowledged a message to
a queue's broker, or got the answer. ``how``: ack, nack, or discard (the reader cannot decode the
message); of a share group ack, release, reject or renew. ``outcome``: null for the request; taken
or refused for the answer.
"""
SHARE_STATE: Final = "share_state"
"""``record, request, state, outcome, reached``: a broker asked the share coordinator to save a
record's state (``available``, ``acknowledged`` or ``archived``), or got the answer. ``outcome`` as
in ``acknowledged``.
"""
INIT_PRODUCER: Final = "init_producer"
"""``transactional_id, timeout_ms, request, reached``: a producer asked for its id. With a
transactional id (else null) this ends the transaction that an earlier producer left open under the
same transactional id. The broker aborts an open transaction after ``timeout_ms``.
"""
END_TXN: Final = "end_txn"
"""``transactional_id, producer_id, producer_epoch, commit, request, reached``: a request to commit
or abort a transaction.
"""
END_TXN_ANSWER: Final = "end_txn_answer"
"""``error, reached``: the answer to an ``end_txn`` request."""
ENDING: Final = "ending"
"""``record, request, outcome, reached``: a request to end the record's transaction, or its answer.
``outcome`` as in ``acknowledged``.
"""
ASKED_AGAIN: Final = "asked_again"
"""``record, api, what, times, reached``: in the record's transaction a partition, a group or a
position was added more than once (AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit). Refused
requests do not count.
"""
MARKED_AGAIN: Final = "marked_again"
"""``record, api, what, times, reached``: the coordinator asked more than once for the marker of the
record's transaction to be written into a log.
"""
DATABASE_COMMIT: Final = "database_commit"
"""``record, request, outcome, reached``: a database was asked to commit the transaction with the
record (outcome null), or it answered: committed, rolled back, or refused.
"""
RULE: Final = "rule"
"""``rule, phase, ...``: a wire rule was armed, hit (with ``action``, and the id of the hold in
``held``), held, released, discarded, detached, delivered, delayed, dropped, cut, answered,
unanswered, disarmed.

``answered``: the wire has refused the request in the broker's name (``error, forward, reached``).
With ``forward`` the broker got the request as well, and ``said`` is the error code of its own
answer, which the client never got (0: none; null: unread). ``held`` has ``silence_s`` if the peer
closes a silent connection after that many seconds.
"""
CONN: Final = "conn"
"""``phase, conn, role, node, client``: phase is open (with ``peer``, the client's port, and
``protocol``, what is spoken), close, refused or opaque (bytes that are no frames).
"""
UNDECODABLE: Final = "undecodable"
"""``api, version, because``: the wire could not decode a frame that it needed to read. Voids the
cell. ``first``: a client's first bytes, in hex digits, if they are of another protocol.
"""

# --- the runner -----------------------------------------------------------------------------------
CELL: Final = "cell"
"""``phase``: begun (with the ``seal`` of its plan), prepared, loaded, faulted, drained, observed,
ended (with the ``files`` of the history, see :mod:`harness.model.ending`; it is the last line).
"""
NODE: Final = "node"
"""``node, role, incarnation, phase, pid, status, signal``: phase is started, joined, ready, killed,
told, paused, resumed, replaced, gone or exited.

``told``: the process got SIGTERM. ``asked`` is true if the process ended after that, by itself or
killed after a grace period. ``joined``: a second process ``pid`` belongs to the node's main process
``of``, and dies with it. ``members``: the node's other processes, which were killed or stopped with
it, each as ``pid, how, command``. ``how`` says why a process belongs to the node (see
``runtimes/process/members.py``). ``left``: the other processes that are still alive, likewise.
``replaced``: another process took over the node's work while the node was paused. ``gone``: the
stage lives, but one of its processes (``pid, command``), which had fetched records, has ended by
itself. ``stood_by`` is true if the process was started earlier and waited idle for its turn.
``supervised`` is true if a supervisor started a program again that had ended by itself.
"""
OWNER: Final = "owner"
"""``conn, role, pid, command``: which process of a stage owns a connection, as the kernel says."""
DURABLE: Final = "durable"
"""``role, incarnation, side, call, occurrence, number, files, thread, pid, result, made, at``: a
thread of a stage is held ``before`` or ``after`` (``side``) a durable write. The write is the
thread's ``occurrence``-th such call since tracing began, and the stage's ``number``-th. ``made``:
how many times each call had begun before. ``result``: the kernel's return value, if the call is
done. ``at``: wall ns, by the tracer's clock.
"""
WRITES: Final = "writes"
"""``role, made, records, because, files``: the durable writes of a stage in a run without a fault,
after it was given the target. ``made``: how often each thread made each call. ``files``: the files
that the stage wrote. ``records``: how many records came from then on. ``because``: why the writes
could not be traced, or null.
"""
STRANGER: Final = "stranger"
"""``conn, role, pid, command``: a connection on a stage's route belongs to a process that is not
part of the stage (pid 0: a process that this user cannot see). Voids the cell, because the stage
did not send or receive what passed there.
"""
INPUT_ENDED: Final = "input_ended"
"""``role, incarnation, given``: the stage's standard input was closed after ``given`` lines, the
last one included.
"""
FAULT: Final = "fault"
"""``phase, fault, role, node, pid, record``: phase is armed, fired, applied or healed."""
ADDED: Final = "added"
"""``topic, partition, before``: a partition that was added while the pipeline ran, to a topic that
had ``before`` of them.
"""
LEADERSHIP: Final = "leadership"
"""``topic, partition, leader, number, epoch, replicas, isr, controller``: the cluster's own
metadata, with node names. ``number`` is the leader's broker id; a follower's broker id is
``follower`` in ``replicated``. The harness asks the cluster before it crashes a broker, and after
the broker is back.
"""
REPLICA: Final = "replica"
"""``node, topic, partition, offset, epoch, record``: a copy in the log files of one broker, read at
rest, past the broker.
"""
ALONE: Final = "alone"
"""``record``: just before a broker was killed, the record had been sent and the wire had seen no
follower fetch it.
"""
NETWORK: Final = "network"
"""``phase, role, node, toxics`` when the wire makes a node's network bad (phase on). When the wire
ends that (phase off) also its counts of the traffic between the node and the broker meanwhile:
``seconds, sent, received, reads, answers, opened, left, lost, longest_s, rate`` (see
:class:`harness.wire.messages.Traffic`).
"""
ENGINE: Final = "engine"
"""``said, node, ...``: what the container engine reports of a node after a container's fault was
applied or healed; see :mod:`harness.proofs.engine`.
"""
UNGOVERNED: Final = "ungoverned"
"""``record``: the leader acknowledged the record while the only controller was dead."""
FLUSHED: Final = "flushed"
"""``partition, offset``: at a power loss, the offset up to which the topic's partition
was flushed.
"""
DRAIN: Final = "drain"
"""``phase, stage, because``: phase is begun, completed or failed; ``stage`` is the one that made no
progress. ``at_once`` is true if the drain did not wait for its deadline, because a program cannot
be restarted or reports itself that it has stopped.

Of a declared pipeline's completed drain also ``rested`` (for how many seconds nothing had
happened), ``rest`` (how many were required), ``why`` (see ``harness/systems/declared/silence.py``),
``gap`` (seconds: the longest silence after which something about a record still happened) and
``missing`` (how many records were not in the output).
"""
HELD_BACK: Final = "held_back"
"""``log, seconds``: during a drain the last stable offset of a log stayed behind its end for at
least that many seconds.
"""
EXPELLED: Final = "expelled"
"""``group, members, role``: lostack removed dead members from a group, as their session time-outs
would have done.
"""
FAILED: Final = "failed"
"""``because``: the harness could not run the cell to its end. Voids the cell."""

KINDS: Final = frozenset(
    value for name, value in vars().copy().items() if name.isupper() and isinstance(value, str)
)
"""Every kind of event. A line of any other kind voids its cell, because the judge does not know
what it means.
"""

FIRST_WAVE, SECOND_WAVE, TARGET_WAVE = "first-wave", "second-wave", "target-wave"
LAST_WAVE, BEHIND_WAVE = "last-wave", "behind-wave"
WAVES: Final = (FIRST_WAVE, SECOND_WAVE, TARGET_WAVE, LAST_WAVE, BEHIND_WAVE)
"""The names of wire rules that hold back what a producer sends, so that other records pass before a
fault and after it. They are not part of any fault.
"""

MOST_WORDS: Final = 200
"""A reason quotes at most so many characters of a program's error."""


def last_words(because: object) -> str:
    r"""Return one line of the error with which a program ended: its root cause (the last ``Caused
    by:``), else its first line.

    >>> last_words("QueryError: failed\n  at some.frame\nCaused by: it was gone")
    'Caused by: it was gone'
    >>> last_words("fenced")
    'fenced'
    """
    first, *rest = str(because).splitlines() or [""]
    return [first, *(line for line in rest if line.startswith("Caused by: "))][-1][:MOST_WORDS]
