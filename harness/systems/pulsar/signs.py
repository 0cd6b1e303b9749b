"""What only Pulsar's histories show of a protection."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from harness.judge.rows import Rows
from harness.judge.signs import ABORTED, common_signs
from harness.model import events as kinds
from harness.model.sign import Sign
from harness.protocols.pulsar.steps import Command

if TYPE_CHECKING:
    from harness.model.history import History

DEDUPLICATED: Final = Sign(
    "deduplicated", "the broker has answered a request of this record by a receipt that names no place: it had it already"
)

ENDED_UNHEARD: Final = Sign(
    "ended-unheard", "the end of this record's transaction was taken, its program never learnt so, and nobody was given it again"
)

HELD_BACK: Final = Sign(
    "held-back", "the broker had this record, and gave it out only after a hole in what was acknowledged before it was filled"
)

PART_AGAIN: Final = Sign("part-again", "a part of this record's message went over the wire again, the same way")

ABORTED_OR_ASKED: Final = Sign(
    "aborted-or-asked", "this record's transaction was aborted, or the client asked for its end again, over another connection"
)

_TOLD: Final = {Command.END_TXN_ON_PARTITION, Command.END_TXN_ON_SUBSCRIPTION}
TOLD_AGAIN: Final = Sign("told-again", "the coordinator told somebody again how this record's transaction has ended")


def pulsar_signs(history: History) -> dict[Sign, set[str]]:
    """Return the records by sign: taken for duplicates, of a transaction that ended unheard, or kept waiting."""
    answers = [e for e in history.of(kinds.PRODUCE_ANSWER) if "place" in e and e["error"] == 0]
    given = Counter(event["record"] for event in history.of(kinds.FETCHED) if event["reached"])
    unheard = {e["record"] for e in history.of(kinds.ENDING) if e["outcome"] == "taken" and not e["reached"]}
    return {
        DEDUPLICATED: {event["record"] for event in answers if event["place"] is None},
        ENDED_UNHEARD: {record for record in unheard if given[record] == 1},
        HELD_BACK: _held_back(history),
        PART_AGAIN: _part_again(history),
        TOLD_AGAIN: _told_again(history),
        ABORTED_OR_ASKED: _asked_again(history) | _aborted(history),
    }


def _aborted(history: History) -> set[str]:
    """Return what shows the common sign, of a broker of Pulsar: where the wire saw that somebody began a transaction there."""
    begun = any(event.get("api") == Command.NEW_TXN for event in history.of(kinds.FRAME))
    return common_signs(Rows(history.events))[ABORTED] if begun else set()


def _asked_again(history: History) -> set[str]:
    """Return the records of whose transaction the end was asked for by two connections: the first names them."""
    asked: dict[str, set[int]] = {}
    records: dict[str, list[str]] = {}
    for event in history.of(kinds.FRAME):
        if event.get("api") == Command.END_TXN and event["dir"] == "request":
            asked.setdefault(event["transaction"], set()).add(event.get("conn", 0))
            records.setdefault(event["transaction"], []).extend(event.get("records", ()))
    return {record for transaction, by in asked.items() if len(by) > 1 for record in records[transaction]}


def _told_again(history: History) -> set[str]:
    """Return the records of whose transaction a partition, or a subscription, was told the end more than once."""
    told: Counter[tuple[str, str]] = Counter()
    records: dict[str, list[str]] = {}
    for event in history.of(kinds.FRAME):
        api = event.get("api")
        if api in _TOLD and event["dir"] == "request":
            told[event["transaction"], api] += 1
        elif api == Command.END_TXN:
            records[event["transaction"]] = event.get("records", [])
    return {record for (transaction, _), count in told.items() if count > 1 for record in records.get(transaction, ())}


def _part_again(history: History) -> set[str]:
    """Return the records of whose message some part was seen twice: the last one says whose they are."""
    seen: Counter[tuple[str, str, int]] = Counter()
    records: dict[str, str] = {}
    for event in history.of(kinds.FRAME):
        if "part" in event:
            seen[event["dir"], event["message"], event["part"]] += 1
            records |= dict.fromkeys([event["message"]], *event["records"]) if event.get("records") else {}
    return {records[message] for (_, message, _), count in seen.items() if count > 1 and message in records}


def _held_back(history: History) -> set[str]:
    """Return the records that were stored when a hole was about to be filled, and given out for the first time behind that.

    What is stored while that request is on its way may come behind it by chance.
    """
    stored: set[str] = set()
    given: dict[str, int] = {}
    last = -1
    taken = {(e.get("request"), e["record"]) for e in history.of(kinds.ACKNOWLEDGED) if e["outcome"] == "taken"}
    waiting: set[str] = set()
    held: set[str] = set()
    for event in history.of(kinds.PRODUCE_ANSWER, kinds.FETCHED, kinds.ACKNOWLEDGED):
        record = event["record"]
        if event["event"] == kinds.PRODUCE_ANSWER and event.get("place") and event["error"] == 0:
            stored.add(record)
        elif event["event"] == kinds.FETCHED and event["reached"] and record not in given:
            given[record] = len(given)
            held |= {record} & waiting
        elif event["event"] == kinds.ACKNOWLEDGED and record in given:
            asks = event["outcome"] is None and (event.get("request"), record) in taken
            if asks and given[record] < last:  # one that was given later is acknowledged already: here was a hole
                waiting |= stored - given.keys()
            last = max(last, given[record]) if event["outcome"] == "taken" else last
    return held
