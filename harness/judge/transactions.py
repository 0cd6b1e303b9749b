"""The outcome of transactions: which are in doubt, which are visible although aborted, and which
are visible only in part.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from harness.judge.rows import attempt_of, attempts_of, transaction_of, undecided
from harness.model import events as kinds
from harness.model.events import TransactionOutcome

if TYPE_CHECKING:
    from harness.judge.rows import Rows

LIBRARY: Final = "library"
"""The value of ``told_by`` if the client's library, and not the broker, told the program the
outcome.
"""


def outcomes(rows: Rows) -> dict[str, str | None]:
    """Return the last outcome of each transaction that the program was told; ``begun`` only if it
    was told no other.
    """
    told = list(rows.of(kinds.Transaction))
    begun = [row for row in told if row.outcome == TransactionOutcome.BEGUN]
    rest = (row for row in told if row.outcome != TransactionOutcome.BEGUN)
    return {row.transaction: row.outcome for row in (*begun, *rest) if row.transaction is not None}


def in_doubt(rows: Rows) -> set[str]:
    """Return the transactions whose outcome the program does not know from the broker. What its
    library says does not count.
    """
    by = {
        row.transaction: row.told_by
        for row in rows.of(kinds.Transaction)
        if row.outcome != TransactionOutcome.BEGUN
    }
    return {
        name
        for name, outcome in outcomes(rows).items()
        if outcome == TransactionOutcome.UNKNOWN
        or (outcome != TransactionOutcome.BEGUN and by.get(name) == LIBRARY)
    }


def resurrected(rows: Rows) -> int:
    """Count the copies that a read-committed reader sees although aborted, or refused with no
    earlier unknown attempt; and the aborted copies that such a reader, or the sink, was given.
    """
    undone = {
        name for name, outcome in outcomes(rows).items() if outcome == TransactionOutcome.ABORTED
    } - in_doubt(rows)
    doubts: dict[str | None, int] = {}
    for row in rows.of(kinds.Unknown):
        doubts.setdefault(row.record, row.t)
    clear = attempts_of(
        row for row in rows.of(kinds.Refused) if doubts.get(row.record, row.t) >= row.t
    )
    visible = (row for row in rows.stored if row.visible)
    return rows.read_aborted + rows.copies.count(
        row for row in visible if transaction_of(row) in undone or attempt_of(row) in clear
    )


def torn(rows: Rows) -> int:
    """Count transactions of which some attempts are visible and some are not."""
    told_of = outcomes(rows)
    if not told_of:
        return 0
    logged = [row for row in rows.stored if not undecided(row)]
    waiting = attempts_of(row for row in rows.stored if undecided(row)) - attempts_of(logged)
    # what was never offered is a phantom, and part of nothing; what is gone, and was told by
    # nothing else, may be the attempt
    known = rows.offered.keys() - rows.copies.untold
    told = [
        row
        for row in rows.of(kinds.Acked)
        if row.record in known and attempt_of(row) not in waiting
    ]
    seen: dict[tuple[str, str], bool] = {}
    within: dict[tuple[str, str], str | None] = {}
    for row, visible in (
        *((row, row.visible) for row in logged),
        *((row, False) for row in told),
    ):
        attempt, transaction = attempt_of(row), transaction_of(row)
        if attempt is not None and transaction in told_of:
            within.setdefault(attempt, transaction)
            seen[attempt] = visible or seen.get(attempt, False)
    spread: dict[str | None, set[bool]] = defaultdict(set)
    for attempt, visible in seen.items():
        spread[within[attempt]].add(visible)
    return sum(len(found) > 1 for found in spread.values())
