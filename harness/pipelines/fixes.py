"""What would mend a broken promise: the setting or recipe, and the row of the matrix that shows that it works."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness import registry
from harness.core.scenario import Predicted
from harness.core.semantics import Anomaly, Semantic, forbids
from harness.core.states import LastHop, State
from harness.pipelines.cells import INPUT_ENDS, NO_FAULT

if TYPE_CHECKING:
    from harness.saved import CellResult

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
_CONSUMER_DUPLICATES = (
    "record each id once: a unique key on it in the result's own transaction (an upsert), or result and position in one "
    "database transaction; from topic to topic, send the offsets in the transaction of the results"
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
_WITH_THE_CONSUMER = (LastHop.SKIPPED, LastHop.DELIVERED)
"""Where a record was last seen that was stored, and that the reading side has lost."""


def _is_shown(row: str, semantic: Semantic) -> bool:
    """Whether there is a cell of our own at this point."""
    expectations = (scenario.expect.get(semantic) for scenario in registry.scenarios() if scenario.id == row)
    return any(isinstance(one, Predicted) and not one.control for one in expectations)


def fix_of(result: CellResult) -> str | None:
    """Say what would keep the promise; ``None`` where none was broken by loss or duplicates.

    Whose part it is, the records say: where they were last seen, and whether they were stored or delivered twice.
    """
    plan, account = result.plan, result.judgement.account
    at_most, parts = plan.semantic is Semantic.AT_MOST_ONCE, []
    if account.lost and forbids(plan.semantic, Anomaly.LOST):
        hops = set(account.records.loc[account.records["state"] == State.LOST, "last_hop"])
        parts += [_CONSUMER_LOSES] if hops & {*_WITH_THE_CONSUMER} else []
        parts += [_DELETED] if LastHop.DELETED in hops else []
        loses = _FLUSH if plan.failure_point in _ENDS else _PRODUCER_LOSES
        parts += [loses] if hops - {*_WITH_THE_CONSUMER, LastHop.DELETED} else []
    if account.duplicated and forbids(plan.semantic, Anomaly.DUPLICATED):
        if plan.failure_point == "zombie-processor":
            parts.append(_ZOMBIE_DUPLICATES)
        else:
            parts += [_SAVE_FIRST if at_most else _CONSUMER_DUPLICATES] if account.records["delivered_twice"].any() else []
            parts += [_SEND_ONCE if at_most else _PRODUCER_DUPLICATES] if account.records["stored_twice"].any() else []
    if not parts:
        return None
    row = _ROWS.get(plan.failure_point, plan.failure_point)
    # where the fault had no part in it, the failure point has none either
    ours = result.verdict.by_fault and row != NO_FAULT and _DELETED not in parts and _is_shown(row, plan.semantic)
    shown = f". lostack's own pipeline keeps it: lostack run --only {row}/{plan.semantic}" if ours else ""
    return f"{'; and '.join(parts)}{shown}"
