"""Suggests what would repair a broken promise: the setting or recipe, and the cell of lostack's own
that shows that it works.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.model.scenario import Predicted, Role
from harness.model.semantics import Anomaly, Semantic, forbids
from harness.model.states import LastHop, State
from harness.pipelines.cells import NO_FAULT
from harness.pipelines.declaration import OutputKind
from harness.pipelines.points import INPUT_ENDS
from harness.pipelines.practice import UNSEEN
from harness.pipelines.writes import AT_WRITE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from harness.judge.verdict import Judgement
    from harness.model.scenario import Scenario
    from harness.pipelines.practice import Practice

_MARK_BEHIND = (
    "save the source's cursor, or the mark that a record is sent, only behind the acknowledgement, "
    "and look at what a send returns before the next record"
)
_PRODUCER_LOSES = f"send with acks=all and retries, {_MARK_BEHIND}"
_FLUSH = (
    "flush before the program ends, and wait until everything is delivered (flush(), or close() "
    "with time enough): at the end of its input, and when it is told to end (a handler of "
    "SIGTERM)"
)
_ENDS = ("told-to-end-while-sending", INPUT_ENDS)
"""Failure points at which a producer is asked to end, and loses only records whose delivery it did
not wait for.
"""
_CURSOR_INSIDE = (
    "after a restart only a cursor written in the same Kafka transaction helps (transactional.id, "
    "and isolation.level=read_committed at the reader)"
)
_PRODUCER_DUPLICATES = f"enable.idempotence=true absorbs the client's own retries; {_CURSOR_INSIDE}"
_SEND_ONCE = "send once: retries=0 and no resending of what may have been stored"
_CONSUMER_LOSES = (
    "enable.auto.commit=false, and commit the position only when the result is recorded"
)
_QUEUE_PRODUCER_LOSES = (
    "send durable messages, wait for the broker's answer to each (a receipt) before the source's "
    "cursor passes it, and send again what was not answered"
)
_QUEUE_PRODUCER_DUPLICATES = (
    "give each record an id by which the broker, or the program that records it, recognises a "
    "repeat"
)
_QUEUE_SEND_ONCE = "send once: no resending of what may have been stored"
_QUEUE_CONSUMER_LOSES = (
    "acknowledge a message when its result is recorded: not when it is dispatched, and not "
    "automatically"
)
_QUEUE_ACKNOWLEDGE_FIRST = "acknowledge a message, and wait for the confirmation, before the work"
_KEY = (
    "a unique key on the id in the output's table, and an insert that keeps an existing row (or "
    "an upsert)"
)
_IN_DATABASE = f"record each id once: {_KEY}, or result and position in one database transaction"
_IN_TOPIC = (
    "send the offsets in the transaction of the results (transactional.id), and let every reader "
    "of the results use isolation.level=read_committed"
)
_IN_FILES = (
    "record each id once: name a file after its partition and first offset, write it whole, and "
    "rename it into its place, so that a repeat replaces it; or write into a table that has a "
    "unique key on the id"
)
_RECORDED_ONCE = {
    OutputKind.SQLITE: _IN_DATABASE,
    OutputKind.COMMAND: _IN_DATABASE,
    OutputKind.TOPIC: _IN_TOPIC,
    OutputKind.LINES: _IN_FILES,
    OutputKind.PARQUET: _IN_FILES,
    OutputKind.STDOUT: _IN_FILES,
}
"""What keeps a consuming stage from recording twice, by the kind of its output (a command is taken
to query a database).
"""
_AT_WRITE = (
    "write the result and its position in one transaction, or make the write idempotent and "
    f"save the position behind it ({_KEY})"
)
_ZOMBIE_DUPLICATES = (
    "take group_metadata() with the records, at poll time, drop what is in hand when partitions "
    "are revoked or lost, and abort where the offsets are refused"
)
_SAVE_FIRST = (
    "commit the position, and wait for the confirmation, before the work (auto-commit does not "
    "wait)"
)
_ROWS = {
    "transaction-crash-before-commit": "producer-crash-before-commit",
    "transaction-crash-before-commit-ack": "producer-crash-before-commit-ack",
}
_DELETED = (
    "let the broker keep records for longer than their reader may be away (retention.ms and "
    "retention.bytes of the topic), and never delete records that are yet to be read"
)
_READ = "read the dead letters before they are purged, and send again the messages that can succeed"
_BETWEEN = {
    LastHop.GIVEN_UP: _QUEUE_CONSUMER_LOSES,
    LastHop.EXPIRED: (
        "let messages live for longer than their reader may be away, or expire into the dead "
        f"letters: {_READ}"
    ),
    LastHop.LIMIT: "allow more deliveries of a message, with a pause before each, and let a "
    "full queue block its senders instead of dropping messages; a message that "
    f"still fails goes to the dead letters: {_READ}",
    LastHop.REJECTED: (
        "return a message that may succeed later to the queue, and reject others only into dead "
        f"letters: {_READ}"
    ),
    LastHop.DEAD_LETTER: (
        f"make sure that the dead-letter queue exists and accepts messages: {_READ}"
    ),
    LastHop.MOVED: "make sure that the place to which messages are moved exists and is read (a "
    "retry queue, another server), and remove a message from its old place only "
    "when it has arrived there",
    LastHop.DELETED: _DELETED,
    LastHop.COMPACTED: (
        "give each record a key of its own where its log is compacted, or do not compact it"
    ),
    LastHop.PURGED: "never empty a queue that is yet to be read",
    LastHop.DUPLICATE: (
        "never use a record's id again: the broker takes a message with a known id for a "
        "duplicate and drops it"
    ),
}
"""What would have kept a record that was lost between producer and consumer, by the place where it
was last seen.
"""
_AT_A_QUEUE = {
    _PRODUCER_LOSES: _QUEUE_PRODUCER_LOSES,
    _PRODUCER_DUPLICATES: _QUEUE_PRODUCER_DUPLICATES,
    _SEND_ONCE: _QUEUE_SEND_ONCE,
    _CONSUMER_LOSES: _QUEUE_CONSUMER_LOSES,
    _SAVE_FIRST: _QUEUE_ACKNOWLEDGE_FIRST,
}
"""The advice for queues in place of advice that only fits Kafka."""
_WITH_THE_CONSUMER = (LastHop.SKIPPED, LastHop.DELIVERED)
"""Places where a record was last seen that the broker had stored and the reading side has lost."""


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


def _fitted(part: str, seen: Practice, sender: str, readers: Collection[str]) -> str:
    """Return advice without what the wire saw the programs do already."""
    if part == _PRODUCER_LOSES and seen.asks_for_all(sender):
        return f"it asks for acks=all already (seen on the wire), so {_MARK_BEHIND}"
    if part == _PRODUCER_LOSES and (less := seen.less(sender)) is not None:
        return f"send with acks=all and retries (the wire saw acks={less}), {_MARK_BEHIND}"
    if part == _PRODUCER_DUPLICATES and sender in seen.transactional:
        told = "it sends in transactions already (seen on the wire): write the source's cursor "
        told += "in the same one, and read it back from there after a restart"
        return f"{told}{_committed(seen, readers)}"
    if part == _PRODUCER_DUPLICATES and sender in seen.idempotent:
        return f"enable.idempotence is on already (seen on the wire); {_CURSOR_INSIDE}"
    if part == _IN_TOPIC and seen.offsets_sent:
        told = "it sends the offsets in a transaction already (seen on the wire): take "
        told += "group_metadata() at poll time, keep the transactional.id over restarts"
        return f"{told}, and let every reader of the results use isolation.level=read_committed"
    return part


def _committed(seen: Practice, readers: Collection[str]) -> str:
    """Ask readers for ``read_committed`` that were not seen to use it."""
    if all(seen.committed_only.get(role) == frozenset({True}) for role in readers):
        return ""
    wrong = [role for role in readers if False in seen.committed_only.get(role, ())]
    saw = f" (the {' and the '.join(wrong)} was seen to read uncommitted ones)" if wrong else ""
    return f"; let readers use isolation.level=read_committed{saw}"


def fix_of(
    judgement: Judgement, scenarios: Iterable[Scenario], seen: Practice = UNSEEN
) -> str | None:
    """Say what would keep the promise; ``None`` if it was not broken by loss or duplicates.
    ``scenarios``: lostack's own. ``seen``: what the wire saw of the programs' settings.

    The records show which stage must change: by where they were last seen, and by whether they were
    stored or delivered twice.
    """
    plan, account = judgement.plan, judgement.account
    kind, roles = (
        OutputKind(plan.settings["output"]["kind"]),
        [stage["role"] for stage in plan.settings["stages"]],
    )
    at_most, parts = plan.semantic is Semantic.AT_MOST_ONCE, []
    at_write = plan.failure_point == AT_WRITE and _RECORDED_ONCE[kind] is _IN_DATABASE
    if account.lost and forbids(plan.semantic, Anomaly.LOST):
        hops = {row["last_hop"] for row in account.rows if row["state"] == State.LOST}
        parts += (
            [_AT_WRITE if at_write else _CONSUMER_LOSES] if hops & {*_WITH_THE_CONSUMER} else []
        )
        parts += [advice for hop, advice in _BETWEEN.items() if hop in hops]
        loses = _FLUSH if plan.failure_point in _ENDS else _PRODUCER_LOSES
        parts += [loses] if hops - {*_WITH_THE_CONSUMER, *_BETWEEN} else []
    if account.set_aside and not plan.dead_letters and forbids(plan.semantic, Anomaly.LOST):
        parts.append(_READ)
    if account.duplicated and forbids(plan.semantic, Anomaly.DUPLICATED):
        if plan.failure_point == "zombie-processor":
            parts.append(_ZOMBIE_DUPLICATES)
        else:
            again = _AT_WRITE if at_write else _RECORDED_ONCE[kind]
            parts += (
                [_SAVE_FIRST if at_most else again]
                if any(row["delivered_twice"] for row in account.rows)
                else []
            )
            parts += (
                [_SEND_ONCE if at_most else _PRODUCER_DUPLICATES]
                if any(row["stored_twice"] for row in account.rows)
                else []
            )
    if not parts:
        return None
    on_kafka = plan.settings.get("system", "kafka") == "kafka"
    sender = Role.PRODUCER if Role.PRODUCER in roles or not roles else roles[0]
    readers = [role for role in dict.fromkeys(roles) if role != sender]
    told = "; and ".join(
        dict.fromkeys(
            _fitted(part, seen, sender, readers) if on_kafka else _AT_A_QUEUE.get(part, part)
            for part in parts
        )
    )
    if (
        account.duplicated
        and forbids(plan.semantic, Anomaly.DUPLICATED)
        and _RECORDED_ONCE[kind] is _IN_DATABASE
        and _KEY not in told
    ):
        told += f"; or let the output absorb duplicates from any stage: {_KEY}"
    row = _ROWS.get(plan.failure_point, plan.failure_point)
    # where the fault had no part in it, the failure point has none either
    ours = (
        judgement.verdict.by_fault
        and row != NO_FAULT
        and not {*_BETWEEN.values(), _READ}.intersection(parts)
    )
    shown = _shown(row, plan.semantic, roles, scenarios) if ours and on_kafka else None
    whose = f". To see that this works with lostack's own programs, run: lostack run --only {shown}"
    return f"{told}{whose if shown else ''}"
