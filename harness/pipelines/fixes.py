"""Suggests what would repair a broken promise: the setting or recipe, and the cell of lostack's own
that shows that it works.
"""

from __future__ import annotations

from collections import defaultdict
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from harness.model.scenario import Predicted, Role
from harness.model.semantics import Anomaly, Semantic, forbids
from harness.model.states import LastHop, State
from harness.pipelines.at_services import ANSWER_LOST, AT_SERVICE
from harness.pipelines.failure_points import NO_FAULT
from harness.pipelines.firsts import APPEARS, COMPACTED, FILLED, MADE_ANEW, STARTS_LATE
from harness.pipelines.outputs import OutputKind
from harness.pipelines.points import INPUT_ENDS
from harness.pipelines.practice import UNSEEN
from harness.pipelines.writes import AT_WRITE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from harness.judge.record_row import RecordRow
    from harness.judge.verdict import Judgement
    from harness.model.scenario import Scenario
    from harness.pipelines.practice import ClientPractice


class Advice(Enum):
    """What would keep a promise."""

    COMMIT_BEHIND_WORK = auto()
    """The reading side lost a record that the broker had."""
    BEGIN_AT_START = auto()
    """A reader skipped records where its group had no position, or one out of range."""
    KNOW_THE_TOPIC = auto()
    """A reader took its position in a deleted topic for one in the topic made anew."""
    READ_PAST_GAPS = auto()
    """A reader of a compacted topic took offsets for numbers without gaps."""
    ONE_TRANSACTION_OR_REPEATABLE = auto()
    """A stage died between two durable writes, or between two steps at a service."""
    ACKNOWLEDGE_BEHIND_WORK = auto()
    LIVE_LONGER = auto()
    MORE_DELIVERIES = auto()
    REJECT_TO_DEAD_LETTERS = auto()
    DEAD_LETTERS_EXIST = auto()
    PLACES_EXIST = auto()
    KEEP_LONGER = auto()
    KEYS_OF_THEIR_OWN = auto()
    A_ROW_FOR_EACH = auto()
    """Only the last record of each key is in the output."""
    NEVER_PURGE = auto()
    NEW_IDS = auto()
    ACKNOWLEDGED_SENDS = auto()
    """The sending side lost a record."""
    FLUSH_AT_THE_END = auto()
    READ_DEAD_LETTERS = auto()
    METADATA_AT_THE_POLL = auto()
    """A member that had lost its partitions committed them all the same."""
    COMMIT_BEFORE_WORK = auto()
    """At most once: a record was delivered again."""
    RECORD_ONCE_IN_DATABASE = auto()
    RECORD_ONCE_IN_TOPIC = auto()
    RECORD_ONCE_IN_FILES = auto()
    RECORD_ONCE_IN_TABLE = auto()
    RECORD_ONCE_BY_SINK = auto()
    SEND_ONCE = auto()
    """At most once: a record was stored twice."""
    RECOGNISE_REPEATS = auto()
    """A record was stored twice."""


LOST: Final = {
    LastHop.SKIPPED: Advice.COMMIT_BEHIND_WORK,
    LastHop.DELIVERED: Advice.COMMIT_BEHIND_WORK,
    LastHop.GIVEN_UP: Advice.ACKNOWLEDGE_BEHIND_WORK,
    LastHop.EXPIRED: Advice.LIVE_LONGER,
    LastHop.LIMIT: Advice.MORE_DELIVERIES,
    LastHop.REJECTED: Advice.REJECT_TO_DEAD_LETTERS,
    LastHop.DEAD_LETTER: Advice.DEAD_LETTERS_EXIST,
    LastHop.MOVED: Advice.PLACES_EXIST,
    LastHop.DELETED: Advice.KEEP_LONGER,
    LastHop.COMPACTED: Advice.KEYS_OF_THEIR_OWN,
    LastHop.PURGED: Advice.NEVER_PURGE,
    LastHop.DUPLICATE: Advice.NEW_IDS,
    LastHop.NEVER_SENT: Advice.ACKNOWLEDGED_SENDS,
    LastHop.SENT: Advice.ACKNOWLEDGED_SENDS,
    LastHop.ACKED: Advice.ACKNOWLEDGED_SENDS,
    LastHop.ABORTED: Advice.ACKNOWLEDGED_SENDS,
}
"""What would have kept a lost record, by where it was last seen; in the order in which it is said.
"""
DELIVERED_TWICE: Final = {
    OutputKind.SQLITE: Advice.RECORD_ONCE_IN_DATABASE,
    OutputKind.COMMAND: Advice.RECORD_ONCE_IN_DATABASE,
    OutputKind.TOPIC: Advice.RECORD_ONCE_IN_TOPIC,
    OutputKind.LINES: Advice.RECORD_ONCE_IN_FILES,
    OutputKind.PARQUET: Advice.RECORD_ONCE_IN_FILES,
    OutputKind.DELTA: Advice.RECORD_ONCE_IN_TABLE,
    OutputKind.ICEBERG: Advice.RECORD_ONCE_BY_SINK,
    OutputKind.STDOUT: Advice.RECORD_ONCE_IN_FILES,
}
"""What keeps a consuming stage from recording twice, by the kind of its output (a command is taken
to query a database).
"""
BETWEEN: Final = frozenset(LOST.values()) - {Advice.COMMIT_BEHIND_WORK, Advice.ACKNOWLEDGED_SENDS}
"""Advice about what happens to a record between the stages."""
NOT_OURS: Final = BETWEEN | {Advice.READ_DEAD_LETTERS, Advice.A_ROW_FOR_EACH}
"""Advice that lostack's own programs at the failure point do not show."""
ENDS: Final = frozenset(
    {"told-to-end-while-sending", "told-to-end-while-sending-then-killed", INPUT_ENDS}
)
"""Failure points at which a producer is asked to end, and loses only records whose delivery it did
not wait for.
"""
WITHOUT_POSITION: Final = frozenset(
    {STARTS_LATE, FILLED, MADE_ANEW, APPEARS, "positions-expired", "retention-passes-position"}
)
"""Failure points at which a reader has no position, or one out of range."""
OWN_POINTS: Final = {
    "transaction-crash-before-commit": "producer-crash-before-commit",
    "transaction-crash-before-commit-ack": "producer-crash-before-commit-ack",
}
"""The scenarios of lostack's own programs that have another name than the failure point."""

_MARK_BEHIND = (
    "save the source's cursor, or the mark that a record is sent, only behind the acknowledgement, "
    "and look at what a send returns before the next record"
)
_CURSOR_INSIDE = (
    "after a restart only a cursor written in the same Kafka transaction helps (transactional.id, "
    "and isolation.level=read_committed at the reader)"
)
_KEY = (
    "a unique key on the id in the output's table, and an insert that keeps an existing row (or "
    "an upsert)"
)
_ACKNOWLEDGE_BEHIND_WORK = (
    "acknowledge a message when its result is recorded: not when it is dispatched, and not "
    "automatically"
)
_READ = "read the dead letters before they are purged, and send again the messages that can succeed"
WORDS: Final = {
    Advice.COMMIT_BEHIND_WORK: (
        "commit the position only when the result is recorded, and nowhere else (so with "
        "enable.auto.commit=false, if it is not set yet)"
    ),
    Advice.BEGIN_AT_START: (
        "let a reader begin with the oldest record where its group has no position, or one that is "
        "out of range (auto.offset.reset=earliest; several libraries have latest by default)"
    ),
    Advice.KNOW_THE_TOPIC: (
        "keep the topic's id beside a position that is not saved with a group, and begin with the "
        "oldest record where the id is another one, or the position is out of range"
    ),
    Advice.READ_PAST_GAPS: (
        "take whatever record comes next: in a compacted topic offsets are missing, so its offset "
        "need not be the saved position; save its offset plus one, and count nothing by offsets"
    ),
    Advice.ONE_TRANSACTION_OR_REPEATABLE: (
        "write the result and its position in one transaction, or make the write idempotent and "
        f"save the position behind it ({_KEY})"
    ),
    Advice.ACKNOWLEDGE_BEHIND_WORK: _ACKNOWLEDGE_BEHIND_WORK,
    Advice.LIVE_LONGER: (
        "let messages live for longer than their reader may be away, or expire into the dead "
        f"letters: {_READ}"
    ),
    Advice.MORE_DELIVERIES: (
        "allow more deliveries of a message, with a pause before each, and let a full queue block "
        "its senders instead of dropping messages; a message that still fails goes to the dead "
        f"letters: {_READ}"
    ),
    Advice.REJECT_TO_DEAD_LETTERS: (
        "return a message that may succeed later to the queue, and reject others only into dead "
        f"letters: {_READ}"
    ),
    Advice.DEAD_LETTERS_EXIST: (
        f"make sure that the dead-letter queue exists and accepts messages: {_READ}"
    ),
    Advice.PLACES_EXIST: (
        "make sure that the place to which messages are moved exists and is read (a retry queue, "
        "another server), and remove a message from its old place only when it has arrived there"
    ),
    Advice.KEEP_LONGER: (
        "let the broker keep records for longer than their reader may be away (retention.ms and "
        "retention.bytes of the topic), and never delete records that are yet to be read"
    ),
    Advice.KEYS_OF_THEIR_OWN: (
        "give each record a key of its own where its log is compacted, or do not compact it"
    ),
    Advice.A_ROW_FOR_EACH: (
        "the output has the last record of each key alone, and does not show what became of the "
        "others: let it have a row for each (a history beside the table, by a trigger if need be)"
    ),
    Advice.NEVER_PURGE: "never empty a queue that is yet to be read",
    Advice.NEW_IDS: (
        "never use a record's id again: the broker takes a message with a known id for a "
        "duplicate and drops it"
    ),
    Advice.ACKNOWLEDGED_SENDS: f"send with acks=all and retries, {_MARK_BEHIND}",
    Advice.FLUSH_AT_THE_END: (
        "flush before the program ends, and wait until everything is delivered (flush(), or "
        "close() with time enough): at the end of its input, and when it is told to end (a handler "
        "of SIGTERM)"
    ),
    Advice.READ_DEAD_LETTERS: _READ,
    Advice.METADATA_AT_THE_POLL: (
        "take group_metadata() with the records, at poll time, drop what is in hand when "
        "partitions are revoked or lost, and abort where the offsets are refused"
    ),
    Advice.COMMIT_BEFORE_WORK: (
        "commit the position, and wait for the confirmation, before the work (auto-commit does not "
        "wait)"
    ),
    Advice.RECORD_ONCE_IN_DATABASE: (
        f"record each id once: {_KEY}, or result and position in one database transaction"
    ),
    Advice.RECORD_ONCE_IN_TOPIC: (
        "send the offsets in the transaction of the results (transactional.id), and let every "
        "reader of the results use isolation.level=read_committed"
    ),
    Advice.RECORD_ONCE_IN_FILES: (
        "record each id once: name a file after its partition and first offset, write it whole, "
        "and rename it into its place, so that a repeat replaces it; or write into a table that "
        "has a unique key on the id"
    ),
    Advice.RECORD_ONCE_IN_TABLE: (
        "record each batch once: write it with an application id of the query's own and the "
        "batch's number (txnAppId and txnVersion), so that the table leaves out a batch that runs "
        "again; a query with a new checkpoint needs a new application id"
    ),
    Advice.RECORD_ONCE_BY_SINK: (
        "record each batch once: let the sink keep the position in the snapshot that it commits, "
        "as the table's own streaming sinks do, and start a job again with the checkpoint that it "
        "had; or merge by the id instead of appending"
    ),
    Advice.SEND_ONCE: "send once: retries=0 and no resending of what may have been stored",
    Advice.RECOGNISE_REPEATS: (
        f"enable.idempotence=true absorbs the client's own retries; {_CURSOR_INSIDE}"
    ),
}
"""How each advice is said."""
AT_A_QUEUE: Final = {
    Advice.COMMIT_BEHIND_WORK: _ACKNOWLEDGE_BEHIND_WORK,
    Advice.ACKNOWLEDGED_SENDS: (
        "send durable messages, wait for the broker's answer to each (a receipt) before the "
        "source's cursor passes it, and send again what was not answered"
    ),
    Advice.COMMIT_BEFORE_WORK: (
        "acknowledge a message, and wait for the confirmation, before the work"
    ),
    Advice.SEND_ONCE: "send once: no resending of what may have been stored",
    Advice.RECOGNISE_REPEATS: (
        "give each record an id by which the broker, or the program that records it, recognises a "
        "repeat"
    ),
}
"""How advice is said for a queue, where Kafka's words do not fit."""
_POSITIONS = (
    "the worker saves a position only behind acknowledgements, so look at the positions that the "
    "connector gives: each must lead to the next record and no further, also where several "
    "records have one place in the source's log (then take a release that counts them), and what "
    "they lead to must still be there when the worker comes back (a replication slot, a file)"
)
OF_SENDER: Final = {
    Advice.ACKNOWLEDGED_SENDS: _POSITIONS,
    Advice.FLUSH_AT_THE_END: _POSITIONS,
    Advice.SEND_ONCE: (
        "a worker sends again what it has saved no position of, and no setting turns that off: "
        "promise at-least-once"
    ),
    Advice.RECOGNISE_REPEATS: (
        "exactly.once.source.support=enabled of the worker sends records and positions in one "
        "transaction, where the connector supports that; let readers use "
        "isolation.level=read_committed"
    ),
}
"""How advice is said to who runs a source connector, and not to who wrote a producer."""
OF_READER: Final = {
    Advice.COMMIT_BEHIND_WORK: (
        "the worker commits a position behind flush(), so let the connector return from it only "
        "when all that it was given is written; with errors.tolerance=all it drops what it cannot "
        "convert, unless errors.deadletterqueue.topic.name says where to"
    ),
    Advice.COMMIT_BEFORE_WORK: (
        "a worker commits a position behind the work, and no setting turns that round: promise "
        "at-least-once"
    ),
}
"""How advice is said to who runs a sink connector."""
_IN_TRANSACTIONS: Final = (
    "the connector saves its positions in transactions of its own already (seen on the wire), "
    "beside what it says in them: whoever reads that must begin at its start where it has no "
    "position yet (auto.offset.reset=earliest)"
)


def _shown(
    row: str, semantic: Semantic, roles: Collection[str], scenarios: Iterable[Scenario]
) -> str | None:
    """Return the options that run lostack's own cell at this point, of the most similar pipeline;
    ``None`` if there is none.
    """
    alike = ("topic-to-topic", "plain") if Role.PROCESSOR in roles else ("plain",)
    ours = {
        scenario.pipeline.name: scenario.expect.get(semantic)
        for scenario in scenarios
        if scenario.id == row
    }
    kept = (
        name for name in alike if isinstance(one := ours.get(name), Predicted) and not one.control
    )
    return next((f"{name}/{row}/{semantic}" for name in kept), None)


def _at_connectors(
    seen: ClientPractice, readers: Collection[str], connectors: Collection[str]
) -> dict[Advice, str]:
    """Return how advice is said to who runs these roles as connectors of Kafka Connect."""
    words: dict[Advice, str] = {}
    if Role.PRODUCER in connectors:
        words |= OF_SENDER
        if (less := seen.less(Role.PRODUCER)) is not None:
            told = f"send with acks=all (the wire saw acks={less}): {_POSITIONS}"
            words[Advice.ACKNOWLEDGED_SENDS] = told
        if Role.PRODUCER in seen.transactional:
            told = "records and positions are in one transaction already (seen on the wire): let "
            told += "the connector go on from the position that the worker gives it"
            words[Advice.RECOGNISE_REPEATS] = f"{told}{_committed(seen, readers)}"
    if Role.CONSUMER in connectors:
        words |= OF_READER
        if Role.CONSUMER in seen.offsets_sent:
            words[Advice.COMMIT_BEHIND_WORK] = _IN_TRANSACTIONS
    return words


def _fitted(advice: Advice, seen: ClientPractice, sender: str, readers: Collection[str]) -> str:
    """Return advice without what the wire saw the programs do already."""
    match advice:
        case Advice.ACKNOWLEDGED_SENDS if seen.asks_for_all(sender):
            return f"it asks for acks=all already (seen on the wire), so {_MARK_BEHIND}"
        case Advice.ACKNOWLEDGED_SENDS if (less := seen.less(sender)) is not None:
            return f"send with acks=all and retries (the wire saw acks={less}), {_MARK_BEHIND}"
        case Advice.RECOGNISE_REPEATS if sender in seen.transactional:
            told = "it sends in transactions already (seen on the wire): write the source's cursor "
            told += "in the same one, and read it back from there after a restart"
            return f"{told}{_committed(seen, readers)}"
        case Advice.RECOGNISE_REPEATS if sender in seen.idempotent:
            return f"enable.idempotence is on already (seen on the wire); {_CURSOR_INSIDE}"
        case Advice.RECORD_ONCE_IN_TOPIC if seen.offsets_sent:
            told = "it sends the offsets in a transaction already (seen on the wire): take "
            told += "group_metadata() at poll time, keep the transactional.id over restarts"
            return f"{told}, and let every reader of the results use isolation.level=read_committed"
    return WORDS[advice]


def _committed(seen: ClientPractice, readers: Collection[str]) -> str:
    """Ask readers for ``read_committed`` that were not seen to use it."""
    if all(seen.committed_only.get(role) == frozenset({True}) for role in readers):
        return ""
    wrong = [role for role in readers if False in seen.committed_only.get(role, ())]
    saw = f" (the {' and the '.join(wrong)} was seen to read uncommitted ones)" if wrong else ""
    return f"; let readers use isolation.level=read_committed{saw}"


def _against_loss(judgement: Judgement, *, at_write: bool) -> Iterator[Advice]:
    """Yield what would have kept the lost records."""
    plan, account = judgement.plan, judgement.account
    if account.lost:
        hops = {row["last_hop"] for row in account.rows if row["state"] == State.LOST}
        last_alone = _last_alone(account.rows)
        for hop, advice in ((hop, advice) for hop, advice in LOST.items() if hop in hops):
            if last_alone and hop in (LastHop.SKIPPED, LastHop.DELIVERED):
                yield Advice.A_ROW_FOR_EACH
            elif plan.failure_point == COMPACTED and hop in (LastHop.SKIPPED, LastHop.DELIVERED):
                yield Advice.READ_PAST_GAPS
            elif at_write and hop in (LastHop.SKIPPED, LastHop.DELIVERED):
                yield Advice.ONE_TRANSACTION_OR_REPEATABLE
            elif hop is LastHop.SKIPPED and plan.failure_point in WITHOUT_POSITION:
                yield Advice.BEGIN_AT_START
            elif hop is LastHop.SKIPPED and str(plan.failure_point).startswith(MADE_ANEW):
                yield Advice.KNOW_THE_TOPIC
            elif advice is Advice.ACKNOWLEDGED_SENDS and plan.failure_point in ENDS:
                yield Advice.FLUSH_AT_THE_END
            else:
                yield advice
    if account.set_aside and not plan.dead_letters:
        yield Advice.READ_DEAD_LETTERS


def _last_alone(rows: Iterable[RecordRow]) -> bool:
    """Whether of each of several keys the last record is recorded, and all others are lost."""
    by_key: dict[object, list[State]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row["position"]):
        by_key[row["key"]].append(row["state"])
    return len(by_key) > 1 and all(
        last == State.RECORDED and {*others} <= {State.LOST} for *others, last in by_key.values()
    )


def _against_duplicates(
    judgement: Judgement, kind: OutputKind, *, at_write: bool
) -> Iterator[Advice]:
    """Yield what would have kept the records from being recorded twice."""
    plan, rows = judgement.plan, judgement.account.rows
    if not judgement.account.duplicated:
        return
    if plan.failure_point == "zombie-processor":
        yield Advice.METADATA_AT_THE_POLL
        return
    at_most = plan.semantic is Semantic.AT_MOST_ONCE
    if any(row["delivered_twice"] for row in rows):
        again = Advice.ONE_TRANSACTION_OR_REPEATABLE if at_write else DELIVERED_TWICE[kind]
        yield Advice.COMMIT_BEFORE_WORK if at_most else again
    if any(row["stored_twice"] for row in rows):
        yield Advice.SEND_ONCE if at_most else Advice.RECOGNISE_REPEATS


def fix_of(
    judgement: Judgement, scenarios: Iterable[Scenario], seen: ClientPractice = UNSEEN
) -> str | None:
    """Say what would keep the promise; ``None`` if it was not broken by loss or duplicates.
    ``scenarios``: lostack's own. ``seen``: what the wire saw of the programs' settings.

    The records show which stage must change: by where they were last seen, and by whether they were
    stored or delivered twice.
    """
    plan, account = judgement.plan, judgement.account
    kind = OutputKind(plan.settings["output"]["kind"])
    stages = plan.settings["stages"]
    roles = [stage["role"] for stage in stages]
    connectors = {stage["role"] for stage in stages if stage.get("connector")}
    in_database = DELIVERED_TWICE[kind] is Advice.RECORD_ONCE_IN_DATABASE
    at_write = plan.failure_point in {AT_WRITE, AT_SERVICE, ANSWER_LOST} and in_database
    advice: dict[Advice, None] = {}
    if forbids(plan.semantic, Anomaly.LOST):
        advice |= dict.fromkeys(_against_loss(judgement, at_write=at_write))
    if forbids(plan.semantic, Anomaly.DUPLICATED):
        advice |= dict.fromkeys(_against_duplicates(judgement, kind, at_write=at_write))
    if not advice:
        return None
    on_kafka = plan.settings.get("system", "kafka") == "kafka"
    sender = Role.PRODUCER if Role.PRODUCER in roles or not roles else roles[0]
    readers = [role for role in dict.fromkeys(roles) if role != sender]
    fit = _at_connectors(seen, readers, connectors) if on_kafka else AT_A_QUEUE
    words = {
        each: fit[each]
        if each in fit
        else _fitted(each, seen, sender, readers)
        if on_kafka
        else WORDS[each]
        for each in advice
    }
    if Advice.READ_DEAD_LETTERS in words and (topic := next(iter(account.aside_in), None)):
        words[Advice.READ_DEAD_LETTERS] = (
            f'if records may end in {topic}, say so in the declaration (dead_letters = "{topic}"); '
            f"if not, {_READ}"
        )
    told = "; and ".join(dict.fromkeys(words.values()))  # two may be said alike
    twice = account.duplicated and forbids(plan.semantic, Anomaly.DUPLICATED)
    if twice and in_database and _KEY not in told:
        told += f"; or let the output absorb duplicates from any stage: {_KEY}"
    row = OWN_POINTS.get(plan.failure_point, plan.failure_point)
    # where the fault had no part in it, the failure point has none either
    ours = judgement.verdict.by_fault and row != NO_FAULT and on_kafka
    if not ours or connectors or NOT_OURS.intersection(advice):
        return told
    shown = _shown(row, plan.semantic, roles, scenarios)
    whose = f". To see that this works with lostack's own programs, run: lostack run --only {shown}"
    return f"{told}{whose if shown else ''}"
