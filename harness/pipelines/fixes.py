"""What would mend a broken promise: the setting or recipe, and the row of the matrix that shows that it works."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.model.scenario import Predicted, Role
from harness.model.semantics import Anomaly, Semantic, forbids
from harness.model.states import LastHop, State
from harness.pipelines.cells import INPUT_ENDS, NO_FAULT
from harness.pipelines.declaration import OutputKind
from harness.pipelines.writes import AT_WRITE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from harness.judge.verdict import Judgement
    from harness.model.scenario import Scenario

_PRODUCER_LOSES = (
    "send with acks=all and retries, save the source's cursor only behind the acknowledgement, and look at what a send "
    "returns before the next record"
)
_FLUSH = (
    "flush before the program ends, and wait until everything is delivered (flush(), or close() with time enough): at the end of "
    "its input, and when it is told to end (a handler of SIGTERM)"
)
_ENDS = ("told-to-end-while-sending", INPUT_ENDS)
"""Points at which a producer ends in order, and loses only what it did not wait for."""
_PRODUCER_DUPLICATES = (
    "enable.idempotence=true absorbs the client's own repeats; over a restart only a cursor written in the same Kafka "
    "transaction does (transactional.id, and isolation.level=read_committed at the reader)"
)
_SEND_ONCE = "send once: retries=0 and no resending of what may have been stored"
_CONSUMER_LOSES = "enable.auto.commit=false, and commit the position only when the result is recorded"
_QUEUE_PRODUCER_LOSES = (
    "send durable messages, wait for the broker's answer to each (a receipt) before the source's cursor passes it, and send "
    "again what was not answered"
)
_QUEUE_PRODUCER_DUPLICATES = "give each record an id by which the broker, or whoever records it, knows a second message of it"
_QUEUE_SEND_ONCE = "send once: no resending of what may have been stored"
_QUEUE_CONSUMER_LOSES = "acknowledge a message when its result is recorded: not when it is dispatched, and not automatically"
_QUEUE_ACKNOWLEDGE_FIRST = "acknowledge a message, and see that confirmed, before the work"
_KEY = "a unique key on the id in the output's own table, and an insert that leaves what is there (or an upsert)"
_IN_DATABASE = f"record each id once: {_KEY}, or result and position in one database transaction"
_IN_TOPIC = (
    "send the offsets in the transaction of the results (transactional.id), and let whoever reads them "
    "do so with isolation.level=read_committed"
)
_IN_FILES = (
    "record each id once: name a file after its partition and first offset, write it whole, and rename it into its place, so "
    "that a repeat replaces it; or write into a table that has a unique key on the id"
)
_RECORDED_ONCE = {
    OutputKind.SQLITE: _IN_DATABASE, OutputKind.COMMAND: _IN_DATABASE, OutputKind.TOPIC: _IN_TOPIC, OutputKind.LINES: _IN_FILES,
    OutputKind.PARQUET: _IN_FILES, OutputKind.STDOUT: _IN_FILES,
}  # fmt: skip
"""What keeps a consuming stage from recording twice, by where it records; a command asks a database."""
_AT_WRITE = (
    f"write the result and its position in one transaction, or make the write idempotent and save the position behind it ({_KEY})"
)
_ZOMBIE_DUPLICATES = (
    "take group_metadata() with the records, at poll time, drop what is in hand when partitions are revoked or lost, and "
    "abort where the offsets are refused"
)
_SAVE_FIRST = "commit the position, and see the commit confirmed, before the work (auto-commit does not)"
_ROWS = {
    "transaction-crash-before-commit": "producer-crash-before-commit",
    "transaction-crash-before-commit-ack": "producer-crash-before-commit-ack",
}
_DELETED = (
    "let the broker keep records for longer than their reader may be away: retention.ms and retention.bytes of the topic, and "
    "nobody deletes records that are yet to be read"
)
_READ = "let somebody read the dead letters before they are purged, and send again what can succeed"
_BETWEEN = {
    LastHop.GIVEN_UP: _QUEUE_CONSUMER_LOSES,
    LastHop.EXPIRED: f"let messages live for longer than their reader may be away, or expire into the dead letters: {_READ}",
    LastHop.LIMIT: "let a message be delivered more often, with a pause before each time, and let a full queue hold back who "
    f"sends instead of dropping; what is given up all the same goes to the dead letters: {_READ}",
    LastHop.REJECTED: f"give back to the queue what may succeed later, and reject into the dead letters only: {_READ}",
    LastHop.DEAD_LETTER: f"see that the dead letters exist and take what is sent there: {_READ}",
    LastHop.MOVED: "see that the place that messages are moved to exists and is read (a queue for later attempts, another "
    "server), and let them be removed where they were only when they have arrived there",
    LastHop.DELETED: _DELETED,
    LastHop.COMPACTED: "give each record a key of its own where its log is compacted, or do not compact it",
    LastHop.PURGED: "nobody empties a queue that is yet to be read",
    LastHop.DUPLICATE: "give each record an id of its own, that is never used again, where the broker looks for duplicates",
}
"""What would have kept a record that was lost between producer and consumer, by where it was last seen."""
_AT_A_QUEUE = {
    _PRODUCER_LOSES: _QUEUE_PRODUCER_LOSES, _PRODUCER_DUPLICATES: _QUEUE_PRODUCER_DUPLICATES, _SEND_ONCE: _QUEUE_SEND_ONCE,
    _CONSUMER_LOSES: _QUEUE_CONSUMER_LOSES, _SAVE_FIRST: _QUEUE_ACKNOWLEDGE_FIRST,
}  # fmt: skip
"""What is said in place of what only Kafka has, where a broker of queues is between the stages."""
_WITH_THE_CONSUMER = (LastHop.SKIPPED, LastHop.DELIVERED)
"""Where a record was last seen that was stored, and that the reading side has lost."""


def _shown(row: str, semantic: Semantic, roles: Collection[str], scenarios: Iterable[Scenario]) -> str | None:
    """Return the words that run a cell of our own at this point, of the pipeline that is most like the user's; or ``None``."""
    alike = ("topic-to-topic", "plain") if Role.PROCESSOR in roles else ("plain",)
    ours = {scenario.pipeline.name: scenario.expect.get(semantic) for scenario in scenarios if scenario.id == row}
    kept = (name for name in alike if isinstance(one := ours.get(name), Predicted) and not one.control)
    return next((f"{name}/{row}/{semantic}" for name in kept), None)


def fix_of(judgement: Judgement, scenarios: Iterable[Scenario]) -> str | None:
    """Say what would keep the promise; ``None`` where none was broken by loss or duplicates. ``scenarios``: lostack's own.

    Whose part it is, the records say: where they were last seen, and whether they were stored or delivered twice.
    """
    plan, account = judgement.plan, judgement.account
    kind, roles = OutputKind(plan.settings["output"]["kind"]), [stage["role"] for stage in plan.settings["stages"]]
    at_most, parts = plan.semantic is Semantic.AT_MOST_ONCE, []
    at_write = plan.failure_point == AT_WRITE and _RECORDED_ONCE[kind] is _IN_DATABASE
    if account.lost and forbids(plan.semantic, Anomaly.LOST):
        hops = {row["last_hop"] for row in account.rows if row["state"] == State.LOST}
        parts += [_AT_WRITE if at_write else _CONSUMER_LOSES] if hops & {*_WITH_THE_CONSUMER} else []
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
            parts += [_SAVE_FIRST if at_most else again] if any(row["delivered_twice"] for row in account.rows) else []
            parts += [_SEND_ONCE if at_most else _PRODUCER_DUPLICATES] if any(row["stored_twice"] for row in account.rows) else []
    if not parts:
        return None
    on_kafka = plan.settings.get("system", "kafka") == "kafka"
    told = "; and ".join(dict.fromkeys(part if on_kafka else _AT_A_QUEUE.get(part, part) for part in parts))
    if (
        account.duplicated
        and forbids(plan.semantic, Anomaly.DUPLICATED)
        and _RECORDED_ONCE[kind] is _IN_DATABASE
        and _KEY not in told
    ):
        told += f"; or let the output absorb it, wherever it was doubled: {_KEY}"
    row = _ROWS.get(plan.failure_point, plan.failure_point)
    # where the fault had no part in it, the failure point has none either
    ours = judgement.verdict.by_fault and row != NO_FAULT and not {*_BETWEEN.values(), _READ}.intersection(parts)
    shown = _shown(row, plan.semantic, roles, scenarios) if ours and on_kafka else None
    whose = f". That it works is shown by lostack's own programs at this point, not by yours: lostack run --only {shown}"
    return f"{told}{whose if shown else ''}"
