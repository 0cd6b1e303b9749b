"""What would mend a broken promise: the setting or recipe, and the row of the matrix that shows that it works."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.core.semantics import Anomaly, Semantic, forbids

if TYPE_CHECKING:
    from harness.saved import CellResult

_PRODUCER_LOSES = (
    "send with acks=all and retries, save the source's cursor only behind the acknowledgement, and look at what a send "
    "returns before the next record"
)
_PRODUCER_DUPLICATES = (
    "enable.idempotence=true absorbs the client's own repeats; over a restart only a cursor written in the same Kafka "
    "transaction does (transactional.id, and isolation.level=read_committed at the reader)"
)
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
_CONSUMING_AT = ("consumer-at-", "processor-at-")
_CONSUMING = ("commit-lost", "commit-ack-lost", "delivery-lost", "broker-crash-before-position", "zombie-consumer")


def fix_of(result: CellResult) -> str | None:
    """Say what would keep the promise at this failure point; ``None`` where none was broken by loss or duplicates."""
    plan, account = result.plan, result.judgement.account
    consuming = plan.failure_point in _CONSUMING or plan.failure_point.startswith(_CONSUMING_AT)
    parts = []
    if account.lost and forbids(plan.semantic, Anomaly.LOST):
        parts.append(_CONSUMER_LOSES if consuming else _PRODUCER_LOSES)
    if account.duplicated and forbids(plan.semantic, Anomaly.DUPLICATED):
        at_most = plan.semantic is Semantic.AT_MOST_ONCE
        producer = "send once: retries=0 and no resending of what may have been stored" if at_most else _PRODUCER_DUPLICATES
        if plan.failure_point == "zombie-processor":
            producer = _ZOMBIE_DUPLICATES
        parts.append((_SAVE_FIRST if at_most else _CONSUMER_DUPLICATES) if consuming else producer)
    if not parts:
        return None
    row = _ROWS.get(plan.failure_point, plan.failure_point)
    return f"{'; and '.join(parts)}. It works: lostack run --only {row}/{plan.semantic}"
