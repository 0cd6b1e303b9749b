"""Why a record is where it is: what its last copy waits for, why it was set aside, and whether its
producer knows what became of its transaction.

Each word rests on a line of the history. Where no line says it, there is none.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from harness.judge.rows import counted, ids, transaction_of
from harness.judge.transactions import in_doubt
from harness.model import events as kinds
from harness.model.places import MOVABLE, Removal, Waiting
from harness.model.prediction import examples
from harness.model.states import State

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from harness.judge.record_row import RecordRow
    from harness.judge.rows import Rows
    from harness.model.events import Event

REFUSALS: Final = frozenset({"nack", "reject"})
"""How a reader says that it does not take a message."""
DOUBT: Final = "in doubt"
_REMOVALS: Final = {
    Removal.EXPIRY: "expired",
    Removal.LIMIT: "at a limit",
    Removal.REJECT: "rejected",
}
"""What a broker's own line says of a copy that it has set aside."""
_WAITING: Final = {Waiting.IN_FLIGHT: "in flight", Waiting.SCHEDULED: "scheduled"}
_STALLING: Final = {
    Waiting.OPEN: "by an open transaction",
    Waiting.PREPARED: "by a prepared transaction",
}


def reasons(rows: Rows, states: Mapping[str, State]) -> dict[str, str]:
    """Return the reason of each record's state, if a line shows one."""
    asked = {
        State.STALLED: _stalled(rows),
        State.LEFT_IN_TOPIC: _left(rows),
        State.SET_ASIDE: _set_aside(rows),
    }
    return {
        record: why
        for record, state in states.items()
        if state in asked and (why := asked[state].get(record)) is not None
    }


def _stalled(rows: Rows) -> dict[str, str]:
    """An open transaction may still commit or abort by itself, so it is named first."""
    return {
        row.record: _STALLING[waiting]
        for waiting in (Waiting.PREPARED, Waiting.OPEN)
        for row in rows.stored
        if row.waiting is waiting and row.record is not None
    }


def _left(rows: Rows) -> dict[str, str]:
    """A record of which one copy is ready is not said to wait for anything else.

    The observer takes a copy for in flight that the wire saw arrive and not acknowledged. Where the
    broker counts none as in flight, no more is said than that.
    """
    counted_so = any(e.in_flight for e in rows.events if isinstance(e, kinds.Counted))
    words = _WAITING if counted_so else _WAITING | {Waiting.IN_FLIGHT: "given and not acknowledged"}
    waits: dict[str, set[Waiting]] = defaultdict(set)
    for row in rows.in_topic:
        if row.record is not None and row.waiting is not None and row.waiting in MOVABLE:
            waits[row.record].add(row.waiting)
    return {
        record: next(word for waiting, word in words.items() if waiting in found)
        for record, found in waits.items()
        if Waiting.READY not in found
    }


def _set_aside(rows: Rows) -> dict[str, str]:
    """What the broker says of the copy; else what the wire saw of its deliveries.

    Records that a program has set aside in a log were given to it, and no line says why it did so.
    """
    given = counted(row for row in rows.of(kinds.Fetched) if row.reached)
    refused = ids(row for row in rows.of(kinds.Acknowledged) if row.how in REFUSALS)
    found: dict[str, str] = {}
    for row in rows.resting:
        if row.record is None or row.topic is not None:
            continue
        times = given[row.record]
        again = f" after {times} deliveries" if times > 1 else ""
        if row.record in refused:
            found[row.record] = f"rejected{again}"
        elif again:
            found[row.record] = f"set aside{again}"
    for row in rows.of(kinds.Removed, kinds.Moved):
        if row.record is not None and row.why in _REMOVALS:
            found[row.record] = _REMOVALS[row.why]
    return found


def doubtful(rows: Rows) -> set[str]:
    """Return the records sent in a transaction of which the program does not know whether it was
    committed.

    A program says so itself. Of others the wire shows it: no answer to the request to commit has
    reached them.
    """
    names = in_doubt(rows)
    told = ids(row for row in rows.of(kinds.Sent) if transaction_of(row) in names)
    endings = list(rows.of(kinds.Ending))
    asked = ids(row for row in endings if row.outcome is None)
    known = ids(row for row in endings if row.outcome is not None and row.reached)
    by_wire = unanswered(sorted(rows.events, key=lambda event: event.t))
    return told | (asked - known) | by_wire


def unanswered(events: Iterable[Event]) -> set[str]:
    """Return the records of transactions whose requests to commit were passed on, and of which
    none was answered. Of events in the order of time.
    """
    open_: dict[str, set[str]] = defaultdict(set)
    ending: dict[str, set[str]] = {}
    asked: dict[tuple[str, str | None], str] = {}
    found: set[str] = set()
    for event in events:
        match event:
            case kinds.Sent(transactional_id=str() as name):
                found |= ending.pop(name, set())  # the next transaction has begun
                open_[name].add(event.record)
            case kinds.EndTxn(commit=True) if event.reached is not False:
                asked[event.by, event.request] = event.transactional_id
                ending.setdefault(event.transactional_id, set()).update(
                    open_.pop(event.transactional_id, ())
                )
            case kinds.EndTxn() if event.reached is not False:
                open_.pop(event.transactional_id, None)
            case kinds.EndTxnAnswer(error=0, reached=True):
                ending.pop(asked.get((event.by, event.request), ""), None)
    return found.union(*ending.values())


def told(rows: Iterable[RecordRow]) -> str:
    """Say of which records which reason is known, as words; nothing if none is known.

    >>> told([{"record": "k1-1", "state": "stalled", "why": "by a prepared transaction",
    ...        "in_doubt": True}])
    'k1-1 stalled by a prepared transaction, in doubt'
    """
    groups: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        why = f"{row['state']} {row['why']}" if row["state"] == State.STALLED else row["why"]
        words = (why if row["why"] else None, DOUBT if row["in_doubt"] else None)
        if said := ", ".join(word for word in words if word):
            groups[said].add(row["record"])
    return "; ".join(f"{examples(records)} {said}" for said, records in sorted(groups.items()))
