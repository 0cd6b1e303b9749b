"""Signs of protection that only histories of Pulsar show."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from harness.judge.rows import Rows
from harness.judge.signs import ABORTED, common_signs
from harness.model import events as kinds
from harness.model.events import Direction, Outcome
from harness.model.sign import Sign
from harness.protocols.pulsar.steps import Command

if TYPE_CHECKING:
    from harness.model.history import History

    Transaction = int | str | None

DEDUPLICATED: Final = Sign(
    "deduplicated",
    "the broker answered a send of this record without a place: it had the record already",
)

ENDED_UNHEARD: Final = Sign(
    "ended-unheard",
    (
        "this record's transaction ended, the program got no answer, and no consumer was given the "
        "record again"
    ),
)

HELD_BACK: Final = Sign(
    "held-back",
    (
        "the broker delivered this record only after a gap in the acknowledgements before it was "
        "filled"
    ),
)

PART_AGAIN: Final = Sign(
    "part-again", "a chunk of this record's message went over the wire twice in the same direction"
)

ABORTED_OR_ASKED: Final = Sign(
    "aborted-or-asked",
    "this record's transaction was aborted, or the client requested its end on two connections",
)

_TOLD: Final = {Command.END_TXN_ON_PARTITION, Command.END_TXN_ON_SUBSCRIPTION}
TOLD_AGAIN: Final = Sign(
    "told-again",
    "the coordinator told a partition or subscription again how this record's transaction ended",
)


def pulsar_signs(history: History) -> dict[Sign, set[str]]:
    """Return, for each sign, the records that show it."""
    answers = [e for e in history.of(kinds.ProduceAnswer) if e.error == 0]
    given = Counter(event.record for event in history.of(kinds.Fetched) if event.reached)
    unheard = {
        e.record for e in history.of(kinds.Ending) if e.outcome == Outcome.TAKEN and not e.reached
    }
    return {
        DEDUPLICATED: {event.record for event in answers if event.place is None},
        ENDED_UNHEARD: {record for record in unheard if given[record] == 1},
        HELD_BACK: _held_back(history),
        PART_AGAIN: _part_again(history),
        TOLD_AGAIN: _told_again(history),
        ABORTED_OR_ASKED: _asked_again(history) | _aborted(history),
    }


def _aborted(history: History) -> set[str]:
    """Return the records of the common sign ``aborted``, if the wire saw a Pulsar transaction
    begin.
    """
    begun = any(event.api == Command.NEW_TXN for event in history.of(kinds.Frame))
    return common_signs(Rows(history.events))[ABORTED] if begun else set()


def _asked_again(history: History) -> set[str]:
    """Return the records whose transaction's end was requested on two connections."""
    asked: dict[Transaction, set[int]] = {}
    records: dict[Transaction, list[str]] = {}
    for event in history.of(kinds.Frame):
        if event.api == Command.END_TXN and event.dir == Direction.REQUEST:
            asked.setdefault(event.transaction, set()).add(event.conn or 0)
            records.setdefault(event.transaction, []).extend(event.records or ())
    return {
        record
        for transaction, by in asked.items()
        if len(by) > 1
        for record in records[transaction]
    }


def _told_again(history: History) -> set[str]:
    """Return the records whose transaction's end was told to a partition or subscription more than
    once.
    """
    told: Counter[tuple[Transaction, str]] = Counter()
    records: dict[Transaction, tuple[str, ...]] = {}
    for event in history.of(kinds.Frame):
        api = event.api
        if api in _TOLD and event.dir == Direction.REQUEST:
            told[event.transaction, api] += 1
        elif api == Command.END_TXN:
            records[event.transaction] = event.records or ()
    return {
        record
        for (transaction, _), count in told.items()
        if count > 1
        for record in records.get(transaction, ())
    }


def _part_again(history: History) -> set[str]:
    """Return the records with a chunk that was seen twice; the last chunk names the record."""
    seen: Counter[tuple[Direction | None, int | str | None, int]] = Counter()
    records: dict[int | str | None, str] = {}
    for event in history.of(kinds.Frame):
        if event.part is not None:
            seen[event.dir, event.message, event.part] += 1
            if event.records:
                [records[event.message]] = event.records
    return {
        records[message]
        for (_, message, _), count in seen.items()
        if count > 1 and message in records
    }


def _held_back(history: History) -> set[str]:
    """Return the records that were stored before a gap was filled, and first delivered after that.

    Records that are stored while the filling request is on its way do not count: they may come
    after it by chance.
    """
    stored: set[str] = set()
    given: dict[str, int] = {}
    last = -1
    taken = {
        (e.request, e.record) for e in history.of(kinds.Acknowledged) if e.outcome == Outcome.TAKEN
    }
    waiting: set[str] = set()
    held: set[str] = set()
    for event in history.of(kinds.ProduceAnswer, kinds.Fetched, kinds.Acknowledged):
        record = event.record
        if isinstance(event, kinds.ProduceAnswer):
            if event.place and event.error == 0:
                stored.add(record)
        elif isinstance(event, kinds.Fetched):
            if event.reached and record not in given:
                given[record] = len(given)
                held |= {record} & waiting
        elif record in given:
            asks = event.outcome is None and (event.request, record) in taken
            if (
                asks and given[record] < last
            ):  # a later delivery is acknowledged already, so this one was a gap
                waiting |= stored - given.keys()
            last = max(last, given[record]) if event.outcome == Outcome.TAKEN else last
    return held
