"""The kinds of history events, who writes them, and their fields.

This page is the contract between everything that observes and everything that judges. Every event also has
``t`` (monotonic ns), ``w`` (wall ns), ``cell`` and ``by`` (the writer). Which writer is the authority for which hop is
section 3 of the design: the outbox for *offered*, the wire for *sent*, the program for *acked* and *refused*, the
observer for *stored*, the sink for *recorded*. Ledger and wire lines about the rest are lower bounds.
"""

from __future__ import annotations

from typing import Final

# --- the authorities, written by the observer when the system is at rest ------------------------------------------
OFFERED: Final = "offered"
"""``record, key, position``: one line per record of the source."""
REMOVED: Final = "removed"
"""``place, record, why``: one line per copy that the broker has taken away; ``why`` is a :class:`~harness.model.places.Removal`.

Of a log also ``topic, partition, epoch, offset, visible``: what stood there, read before.

Earlier histories say ``deleted``, for retention.
"""
MOVED: Final = "moved"
"""``place, to, record``: the broker, or a client's library, has moved a copy to another place (dead letters, a topic for later
attempts, another server): one copy, not two. Who knows where it arrived says so by a line about ``to``: that it is stored there,
was removed from there, or has moved on."""
CURSOR: Final = "cursor"
"""``position, where``: the next position the source would be asked for; records at or above it are left in source."""
STORED: Final = "stored"
"""``hop, place, waiting, record, key, intact, visible, attempt, foreign``: one line per copy that a broker has, or is known to
have had, whatever it is. Of a log also ``topic, partition, epoch, offset, producer_id``: where copies are missing, it was not
read whole. Of a queue also ``queue``, its name.

``hop`` is ``topic`` (a topic or queue between producer and consumer), ``sink`` (a log that is the sink) or ``aside`` (dead
letters). ``place`` and ``waiting``: see :mod:`harness.model.places`. ``visible``: it is committed; in a log, a read-committed
reader sees it. ``record`` is null where the payload is none of ours; ``foreign`` is true where that is nobody's fault, for
programs may write other things beside their records. ``text`` is the beginning of what was never offered to a declared pipeline.
"""
LOG: Final = "log"
"""``hop, topic, partition, start, stable, end, last_data``: offsets at rest; ``last_data`` is the last visible copy, or -1.

One for every partition of every log of the plan. ``hop`` may also be ``cursor``: a topic that keeps the source's cursor, whose
copies are not written down.
"""
COUNTED: Final = "counted"
"""``hop, queue, ready, in_flight, scheduled``: how many messages the broker itself counts in a queue at rest: to be given to a
consumer, with one that has not acknowledged them, and to be given when their time comes. None of them is in two of these counts.

One for every queue of the pipeline, dead letters and later attempts among them; ``hop`` as of what is stored there.
"""
SETTLED: Final = "settled"
"""``open``: how many transactions of others were open, or prepared, in the sink when it was read; of a server only."""
POSITION: Final = "position"
"""``partition, offset, where``: the position saved by the consuming side, wherever its semantic keeps it (-1: none)."""
RECORDED: Final = "recorded"
"""``record, key, intact, order, place, attempt``: one line per row of the sink, and the copy that it was made of; of a log also
``partition, epoch, offset``. ``text`` as of what is stored.

Rows of a record whose ``place`` is null count as made of one copy, delivered again. So where a sink does not say it, the observer
takes the n-th row of a record for one of its n-th copy.
"""
FOLDED: Final = "folded"
"""``key, version, record, times``: how often a record is folded into one version of the value of a key, where the sink holds
values and not records. The highest version of a value counts. What is told twice of one version is told once: the later line
about a record holds, so no two values of a key may share a number."""
TOTAL: Final = "total"
"""``key, expected, found, missing, extra, alone``: a total in a declared pipeline's output is not that of the records of its key
(of one total of all: an empty text): so many, at least, were not counted, or again, and it cannot be told which. ``alone``: the
one that would explain it by itself, or null. Told as folded in once they all are."""
INVARIANT: Final = "invariant"
"""``asked, equals, found, holds``: what a declared pipeline says of its results beside their ids, and what was found."""
UNNAMED: Final = "unnamed"
"""``count, text``: so many rows of a declared pipeline's output have no id, and are no results; how the first of them begins."""
UNFILLED: Final = "unfilled"
"""``count, text, columns``: so many rows of a declared pipeline's output have nothing in ``columns`` (from 1) in which every row
had something without a fault, and are no results; how the first of them begins. Of their records there is no other row."""
ABSORBED: Final = "absorbed"
"""``record, place``, of a log ``partition, epoch, offset``: a copy that reached the sink and was rightly not recorded."""
AUTHORITIES: Final = (OFFERED, CURSOR, STORED, LOG, COUNTED, POSITION, RECORDED, FOLDED, TOTAL, INVARIANT)
"""What is true only of a system at rest: after the drain. (What was absorbed stays absorbed, whenever it was seen.)"""

# --- the ledgers, written by the programs ----------------------------------------------------------------------
READY: Final = "ready"
"""``role``: a program is up and doing its work (connected, partitions assigned)."""
RESUMED: Final = "resumed"
"""``where, partition, position``: from where a started program goes on (partition null: the source's cursor)."""
TAKEN: Final = "taken"
"""``record``: the program has the record in hand, from the source."""
ACKED: Final = "acked"
"""``record, attempt, partition, offset``."""
REFUSED: Final = "refused"
"""``record, attempt, error``: a listed error that is returned before the append."""
UNKNOWN: Final = "unknown"
"""``record, attempt, error``: anything that is not certain."""
DELIVERED: Final = "delivered"
"""``record, redelivered``, of a log ``partition, epoch, offset``; ``redelivered``: what the broker says of it, where it does."""
TRANSACTION: Final = "transaction"
"""``transaction, outcome, error, told_by``: what the program was told; outcome is begun, committed, aborted, unknown or fenced.
``told_by`` is ``library`` where the client's library says so of its own accord: what the broker did is then in doubt.

``transaction`` is ``<incarnation>.<number>``, the first two words of every attempt made in it.
"""
DOUBT: Final = "doubt"
"""``record, error``: the connection to the database was lost while a COMMIT was not answered: nobody told the program whether
the record's result is there."""
SAVED: Final = "saved"
"""``partition, offset, error``, of a queue ``record, error``: the program saved its position, or acknowledged a message (error
null), or tried to; of a share group also ``how``: accept, release or reject."""
BATCH: Final = "batch"
"""``phase, batch, partition, offset, position``: a batch reads a partition from ``offset`` up to, not including, ``position``.

``phase`` is the place in the engine's own order: before-offset-log, after-offset-log, before-sink-log, after-sink-log,
before-commit-log, after-commit-log.
"""
STATE: Final = "state"
"""``batch, key, records, news``: what the state of a key holds after a batch that touched it, and what of that the batch added.

A key that no batch touched is in no batch's state, and has not changed.
"""
FAILPOINT: Final = "failpoint"
"""``name, record, hit, action, pid``: written by the program right before it acts on itself."""
STOPPED: Final = "stopped"
"""``because``: a program ended by itself and says why."""

# --- the wire ----------------------------------------------------------------------------------------------------
FRAME: Final = "frame"
"""``conn, role, node, client, dir, api, version, corr, size``: header of one frame. Where the wire has read it also ``records``,
which it is about (none: the field is not there), and of an answer ``error``, why it refuses (0: it does not).
``software``: how the client's library calls itself, in the request that says it (Kafka: ApiVersions)."""
SENT: Final = "sent"
"""``record, topic, partition, request, producer_id, producer_epoch, sequence, transactional, transactional_id, attempt``: in a
request that was forwarded."""
UNSENT: Final = "unsent"
"""Like ``sent``: in a request that was dropped or discarded."""
PRODUCE_ANSWER: Final = "produce_answer"
"""``record, request, error, base_offset, reached``."""
FETCHED: Final = "fetched"
"""``record, topic, partition, offset, epoch, conn, reached``; by a share group also ``deliveries``: the how-manieth it is."""
REPLICATED: Final = "replicated"
"""``record, topic, partition, offset, epoch, conn, follower, reached``: like ``fetched``, by a broker that keeps a replica."""
COMMITTED: Final = "committed"
"""``topic, partition, offset, request, reached``: a position in a commit request."""
COMMIT_ANSWER: Final = "commit_answer"
"""``topic, partition, error, reached``."""
ACKNOWLEDGED: Final = "acknowledged"
"""``record, request, how, transactional_id, outcome, reached``: a reader told a queue's broker of a message that it was given
(``how``: ack or nack; of a share group ack, release, reject or renew; outcome null), or was answered: taken, or refused."""
SHARE_STATE: Final = "share_state"
"""``record, request, state, outcome, reached``: a broker had written down what has become of a record of a share group
(``state``: available, acknowledged or archived; outcome null), or was answered: taken, or refused."""
INIT_PRODUCER: Final = "init_producer"
"""``transactional_id, timeout_ms, request, reached``: a producer asked to begin; with a transactional id (null: without) that
ends what another one had left open under it. A transaction left open ends by itself when ``timeout_ms`` are over."""
END_TXN: Final = "end_txn"
"""``transactional_id, producer_id, producer_epoch, commit, request, reached``."""
END_TXN_ANSWER: Final = "end_txn_answer"
"""``error, reached``."""
ENDING: Final = "ending"
"""``record, request, outcome, reached``: the end of a record's transaction was asked for (outcome null), or answered:
taken, or refused."""
ASKED_AGAIN: Final = "asked_again"
"""``record, api, what, times, reached``: of the record's transaction something was asked more than once, refusals not counted:
that a partition, a group or a position takes part in it (AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit)."""
MARKED_AGAIN: Final = "marked_again"
"""``record, api, what, times, reached``: the coordinator asked more than once that the end of the record's transaction be
written into a log."""
DATABASE_COMMIT: Final = "database_commit"
"""``record, request, outcome, reached``: a database was asked to commit what holds the record (outcome null), or answered:
committed, rolled back, or refused."""
RULE: Final = "rule"
"""``rule, phase, ...``: what became of a wire rule: armed, hit (with ``action`` and what is ``held``), held, released, discarded,
detached, delivered, delayed, dropped, cut, answered, unanswered, disarmed.

``answered``: the wire has refused the request in the broker's name: ``error, forward, reached``; with ``forward`` the broker had
it, and ``said`` (0: none; null: unread) what its client never heard. ``held`` has ``silence_s`` where its peer hangs up after
so long.
"""
CONN: Final = "conn"
"""``phase, conn, role, node, client``: phase is open (with ``peer``, the client's port), close, refused or opaque (bytes that
are no frames)."""
UNDECODABLE: Final = "undecodable"
"""``api, version, because``: the wire needed to look into a frame and could not. Voids the cell."""

# --- the runner --------------------------------------------------------------------------------------------------
CELL: Final = "cell"
"""``phase``: begun (with the ``seal`` of its plan), prepared, loaded, faulted, drained, observed, ended."""
NODE: Final = "node"
"""``node, role, incarnation, phase, pid, status, signal``: phase is started, joined, ready, killed, told, paused, resumed,
replaced, gone or exited.

``told``: it was told to end (SIGTERM). ``asked`` is true where one that was told has ended, in order or, after a grace, killed.
``joined``: a second process of the node, ``pid``, belongs to the one it is known by, ``of``, and dies with it.
``members`` of one that exited, or was paused: its other processes, which were killed, or stopped, with it, each as ``pid, how,
command``; ``how`` is by what it belongs to it (see ``runtimes/process/members.py``). ``left``, likewise: those that live on.
``replaced``: another process has taken its place while it was paused.
``gone``: of a stage that lives, a process (``pid, command``) that had fetched has ended by itself; only its parent knows how.
``stood_by`` is true where the process was there before, with nothing begun, and was told that its turn has come.
``supervised`` is true where a declared pipeline's supervisor started again what had ended by itself.
"""
OWNER: Final = "owner"
"""``conn, role, pid, command``: which process of a stage a connection belongs to, as the kernel says."""
DURABLE: Final = "durable"
"""``role, incarnation, side, call, occurrence, number, files, thread, pid, result, made, at``: a thread of a stage (of process
``pid``) is held on one ``side`` (before or after) of a durable write: its ``occurrence``-th such call since it is traced, the
``number``-th of the stage. ``made``: how many of each call had begun before. ``result``: what the kernel said, of one that is
done. ``at``: wall ns, as the tracer has it."""
WRITES: Final = "writes"
"""``role, made, records, because, files``: what a stage wrote durably in a run without a fault, since the target was given to it,
of ``records`` that were to come: how often each of its threads ``made`` each call, and the ``files`` that it wrote into.
``because``: why nobody could look, or null."""
STRANGER: Final = "stranger"
"""``conn, role, pid, command``: a connection on a stage's route that no process of the stage holds; who does (pid 0: somebody
who is not to be seen). Voids the cell: what it takes or gives is nothing that the stage did."""
INPUT_ENDED: Final = "input_ended"
"""``role, incarnation, given``: its standard input was closed behind the last line, of so many as were ``given``."""
FAULT: Final = "fault"
"""``phase, fault, role, node, pid, record``: phase is armed, fired, applied or healed."""
ADDED: Final = "added"
"""``topic, partition, before``: a partition that was added while the pipeline ran, to a topic that had ``before`` of them."""
LEADERSHIP: Final = "leadership"
"""``topic, partition, leader, number, epoch, replicas, isr, controller``: what the cluster itself says, by node names (``number``
is the leader's, as a ``follower`` says its own), asked before a broker of it is crashed and after it is back."""
REPLICA: Final = "replica"
"""``node, topic, partition, offset, epoch, record``: a copy in the log files of one broker, read at rest, past the broker."""
ALONE: Final = "alone"
"""``record``: when a broker was about to be killed, the record had been sent, and no follower had been seen to fetch it."""
NETWORK: Final = "network"
"""``phase, role, node, toxics`` when the network is made bad (phase on); when it is mended (phase off) also what the wire
counted between it and the broker meanwhile: ``seconds, sent, received, reads, answers, opened, left, lost, longest_s,
rate`` (see :class:`harness.wire.messages.Traffic`)."""
ENGINE: Final = "engine"
"""``said, node, ...``: what the container engine says of a node when a fault that only a container can suffer was applied, or
was healed; see :mod:`harness.proofs.engine`."""
UNGOVERNED: Final = "ungoverned"
"""``record``: it was acknowledged by its leader while the only controller was dead."""
FLUSHED: Final = "flushed"
"""``partition, offset``: at a power loss, the offset up to which the topic's partition was flushed."""
DRAIN: Final = "drain"
"""``phase, stage, because``: phase is begun, completed or failed; ``stage`` is the one that stopped. ``at_once`` is true where
nobody waited for the deadline: a program that cannot be started again, or that says itself that it goes no further.

Of a declared pipeline that completed also ``rested`` (for how many seconds nothing had happened), ``rest`` (how many were asked
for), ``why`` so many (see ``harness/systems/declared/silence.py``), ``gap`` (the longest silence after which something about a
record still happened) and ``missing`` (how many records were not in the output).
"""
HELD_BACK: Final = "held_back"
"""``log, seconds``: for so long, at least, the last stable offset of a log was seen to stay behind its end during a drain."""
EXPELLED: Final = "expelled"
"""``group, members, role``: dead members of a group were put out of it, as their session time-outs would have done."""
FAILED: Final = "failed"
"""``because``: the harness could not run the cell to its end. Voids the cell."""

KINDS: Final = frozenset(
    value for name, value in vars().copy().items() if name.isupper() and isinstance(value, str)
)  # fmt: skip
"""Every kind there is. A line of any other kind says something that nobody takes into account: its cell is void."""

FIRST_WAVE, SECOND_WAVE, TARGET_WAVE = "first-wave", "second-wave", "target-wave"
LAST_WAVE, BEHIND_WAVE = "last-wave", "behind-wave"
WAVES: Final = (FIRST_WAVE, SECOND_WAVE, TARGET_WAVE, LAST_WAVE, BEHIND_WAVE)
"""The names of rules that hold back what a producer sends, so that there is load before a fault and behind it. They are no part
of any fault."""

MOST_WORDS: Final = 200
"""How many characters of what a program said a reason has."""


def last_words(because: object) -> str:
    r"""Return one line of what a program wrote down of its end: where an error has causes, the first of them all.

    >>> last_words("QueryError: failed\n  at some.frame\nCaused by: it was gone")
    'Caused by: it was gone'
    >>> last_words("fenced")
    'fenced'
    """
    first, *rest = str(because).splitlines() or [""]
    return [first, *(line for line in rest if line.startswith("Caused by: "))][-1][:MOST_WORDS]
