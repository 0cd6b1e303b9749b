"""What usually makes a record be lost or duplicated. No history shows why a program did what it
did, so this always stands apart from the sentence of :mod:`harness.report.page.seen`, marked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.model.states import LastHop, State

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.judge.record_row import RecordRow


MARKED: Final = "what usually does this (no line of the history shows that it did here): {}"
"""How :func:`usually` is shown."""
_RESTARTED: Final = (
    "the source's cursor, or the mark that a record is sent, is saved before the acknowledgement, "
    "and the program that starts again passes over the record"
)
_GAVE_UP: Final = (
    "the program does not look at what a send returns, or gives up after its retries or its "
    "delivery time-out"
)
_STORED_TWICE: Final = (
    "the producer sends again what may have been stored (a retry without idempotence, "
    "or a source's cursor saved after the acknowledgement), and nothing recognises it"
)
_DELIVERED_TWICE: Final = (
    "the result is recorded before the position is saved, and not in one transaction; "
    "the output has no key that refuses a repeat"
)
_LOST: Final[Mapping[str, str]] = {
    LastHop.ACKED: "acks=1 or acks=0, an unclean election, or a broker that lost what it had not "
    "flushed",
    LastHop.ABORTED: "the source's cursor is saved outside of the transaction, or records of an "
    "aborted transaction are not sent again",
    LastHop.SKIPPED: "a position is saved for records that were not read (a commit of the "
    "newest position, auto.offset.reset=latest where the group has no position), or kept in the "
    "program over a rebalance",
    LastHop.DELIVERED: "the position is saved before the result is recorded: auto-commit, a commit "
    "before the work, or work in another thread",
    LastHop.GIVEN_UP: "the message is acknowledged as it is dispatched, or automatically, before "
    "the work",
    LastHop.DELETED: "retention removed it before its reader came",
    LastHop.COMPACTED: "a later record of the same key took its place",
    LastHop.DUPLICATE: "a record's id, or its sequence number, was used again",
}


def usually(row: RecordRow, *, restarted: bool) -> str:
    """Say what usually does this to a record; empty if nothing went wrong, or if it is unknown.

    ``restarted``: the producer was started again.
    """
    if row["state"] == State.LOST:
        hop = row["last_hop"]
        if hop in (LastHop.NEVER_SENT, LastHop.SENT):
            return _RESTARTED if restarted else _GAVE_UP
        return _LOST.get(hop, "") if hop else ""
    if row["recordings"] < 2:  # noqa: PLR2004 - more than once
        return ""
    ways = ((row["stored_twice"], _STORED_TWICE), (row["delivered_twice"], _DELIVERED_TWICE))
    return "; ".join(words for count, words in ways if count)
