"""A second, brute-force account of one cell whose broker is a queue, to hold the real one against.

Written from the definitions alone (docs/concepts.md;
:mod:`harness.model.events`, :mod:`harness.model.places`) and without looking at
:mod:`harness.judge.accounting`: plain loops over plain dictionaries. What means the same of a log
and of a queue, and the walk itself, is in :mod:`tests.judge.oracle`. There are no offsets here.

Readings the definitions leave open, decided here:

- lines that say that a copy was moved make their two places one copy, however many there are,
  whatever record they name and in whatever order they are read: a moved copy is counted once
  wherever copies are counted (stored twice, aborted, resurrected, phantom), and what is true of it
  in any of its places is true of it;
- a place of null is a place like any other where rows of the sink name it, and nobody else's place;
- a copy is gone from its place when it was removed from it, or moved to another one; what the
  observer found waiting waits, for it was asked last;
- a move to a place of which nobody says anything more (no copy stands there, none was taken away,
  none went on) is the end of a copy, next to the removal ``dead-letter``: moved, not there;
- dead letters that are gone, purged for example, set nothing aside;
- of a record whose copies were taken away for several reasons, what was taken for a duplicate says
  least: the broker had another;
- a copy that waits for the end of its transaction is, for that transaction, not visible, whatever
  else is said of it;
- what the wire saw arrive was delivered, as what a program says that it was given; but what then
  was taken away by time, or by a purge, was not, if no program says so: a client may have fetched
  it beforehand, and died; nor was what was taken for a duplicate, though a program that was given
  the record was given another copy;
- a record that was acknowledged, and of which one copy was taken away that is told only by that
  line, is no attempt that nobody sees: without a journal nobody knows which attempt that copy was;
- of a value's versions the highest counts; a line told twice of one version is one (the later
  holds), and a record that is folded into the values of several keys is folded so many times;
- what a value holds of a record that nobody offered is a phantom, once for each time;
- extra foldings are *delivered twice*: of what is folded nobody says which copy it was.
"""

from __future__ import annotations

from typing import Any

from tests.judge.oracle import (
    ACKED_NOT_STORED,
    COMPACTED,
    DELETED_BY_RETENTION,
    LEFT_IN_SOURCE,
    LEFT_IN_TOPIC,
    LOST,
    NEVER_SENT,
    NOT_RECORDED,
    ONLY_ABORTED,
    RECORDED,
    SENT_NOT_STORED,
    SET_ASIDE,
    SKIPPED,
    STALLED,
    Meaning,
    copies,
    is_ours,
    of,
    recordings,
    said,
    saved_cursor,
    topic_copies,
    transaction_of,
    walk,
    was_refused,
)

Row = dict[str, Any]

GIVEN_UP = "acknowledged before delivery, never delivered"
EXPIRED = "stored, expired"
LIMIT = "stored, removed at a limit"
REJECTED = "delivered, rejected"
PURGED = "stored, purged"
DUPLICATE = "taken for a duplicate, no other copy there"
DEAD_LETTER = "taken to the dead letters, not there"
MOVED = "moved, not there"


# --- places ---------------------------------------------------------------------------------------


def places_of_copy(place: str | None, rows: list[Row]) -> set[str | None]:
    """Return every place that the copy in one place has ever had."""
    found = {place}
    if place is None:
        return found
    grown = True
    while grown:
        grown = False
        for row in of(rows, "moved"):
            ends = {row["place"], row["to"]}
            if None not in ends and ends & found and not ends <= found:
                found |= ends
                grown = True
    return found


def same_copy(one: str | None, other: str | None, rows: list[Row]) -> bool:
    """Whether two places are those of one copy."""
    return other in places_of_copy(one, rows)


def count_copies(lines: list[Row], rows: list[Row]) -> int:
    """Count copies: lines about one and the same that was moved are one, other lines
    are one each.
    """
    ends = [row["place"] for row in of(rows, "moved")] + [row["to"] for row in of(rows, "moved")]
    count = 0
    for at, line in enumerate(lines):
        was_moved = line["place"] is not None and line["place"] in ends
        if not was_moved or not [
            row for row in lines[:at] if same_copy(row["place"], line["place"], rows)
        ]:
            count += 1
    return count


def is_gone(place: str | None, rows: list[Row]) -> bool:
    """Whether the copy in a place was taken away from there."""
    if place is None:
        return False
    for row in of(rows, "removed"):
        if row["place"] == place:
            return True
    return any(row["place"] == place and row["to"] != place for row in of(rows, "moved"))


def is_told_of(place: str | None, rows: list[Row]) -> bool:
    """Whether anybody says what became of a copy in a place."""
    lines = of(rows, "stored") + of(rows, "removed") + of(rows, "moved")
    return place is not None and any(row["place"] == place for row in lines)


# --- transactions ---------------------------------------------------------------------------------


def last_told(rows: list[Row]) -> dict[str, Row]:
    """Return what the program was told last about each transaction; having begun
    overrides nothing.
    """
    found: dict[str, Row] = {}
    for row in of(rows, "transaction"):
        if row["outcome"] == "begun" and row["transaction"] in found:
            continue
        found[row["transaction"]] = row
    return found


def is_in_doubt(told: Row) -> bool:
    """Whether nobody knows what the broker did: the program was told nothing certain, or only by
    its own library.
    """
    if told["outcome"] == "begun":
        return False
    return told["outcome"] == "unknown" or told.get("told_by") == "library"


def is_stalled(copy: Row, rows: list[Row]) -> bool:
    """Whether a copy waits for the end of a transaction."""
    del rows
    return copy["waiting"] in ("open", "prepared")


def is_resurrected(copy: Row, rows: list[Row], offered: dict[str, Row]) -> bool:
    """Whether a copy is visible that must not be there: the broker itself had said so."""
    del offered
    if not copy["visible"] or copy["attempt"] is None:
        return False
    told = last_told(rows).get(str(transaction_of(copy["attempt"])))
    if told is not None and told["outcome"] == "aborted" and not is_in_doubt(told):
        return True
    return was_refused(copy, rows)


# --- one record -----------------------------------------------------------------------------------


def folded(rows: list[Row]) -> dict[tuple[str, str | None], int]:
    """Return how often the last version of a key's value holds a record."""
    last: dict[str, int] = {}
    for row in of(rows, "folded"):
        last[row["key"]] = max(row["version"], last.get(row["key"], row["version"]))
    times: dict[tuple[str, str | None], int] = {}
    for row in of(rows, "folded"):
        if row["version"] == last[row["key"]]:
            times[row["key"], row["record"]] = row["times"]
    return times


def foldings(record: str, rows: list[Row]) -> int:
    """Return how often a record is folded into all that there is."""
    return sum(times for (_, folded_in), times in folded(rows).items() if folded_in == record)


def contributions(record: str, rows: list[Row]) -> int:
    """Return how often a record is in the sink."""
    return len(recordings(record, rows)) + foldings(record, rows)


def state_of(record: str, offer: Row, rows: list[Row]) -> str:
    """Return the one state of an offered record: the first that matches."""
    if contributions(record, rows):
        return RECORDED
    for copy in copies(record, rows):
        if is_stalled(copy, rows):
            return STALLED
    for copy in topic_copies(record, rows):
        if copy["waiting"] in ("ready", "in-flight", "scheduled"):
            return LEFT_IN_TOPIC
    cursor = saved_cursor(rows)
    if cursor is not None and offer["position"] >= cursor:
        return LEFT_IN_SOURCE
    for copy in copies(record, rows):
        rests = copy["waiting"] in ("ready", "in-flight", "scheduled")
        if copy["hop"] == "aside" and rests and not is_gone(copy["place"], rows):
            return SET_ASIDE
    return LOST


def was_taken(record: str, rows: list[Row]) -> bool:
    """Whether a program says that it was given a record."""
    return bool([row for row in of(rows, "delivered") if row["record"] == record])


def was_delivered(record: str, rows: list[Row]) -> bool:
    """Whether a consumer was given a record, by its own word or the wire's."""
    return was_taken(record, rows) or bool(
        [row for row in of(rows, "fetched") if row["record"] == record and row["reached"]]
    )


def removals(record: str, rows: list[Row]) -> list[str]:
    """Return why copies of a record were taken away; a move into nowhere is one of them."""
    why = [row["why"] for row in of(rows, "removed") if row["record"] == record]
    why += [
        "moved"
        for row in of(rows, "moved")
        if row["record"] == record and not is_told_of(row["to"], rows)
    ]
    return why


def untold_removals(record: str, rows: list[Row]) -> list[Row]:
    """Return the lines by which alone one knows of a copy of a record: it is gone, and was never
    written down.
    """
    stored = [row["place"] for row in of(rows, "stored")]
    return [
        row for row in of(rows, "removed") if row["record"] == record and row["place"] not in stored
    ]


def last_hop(record: str, rows: list[Row]) -> str:
    """Return how far a lost record came."""
    mine = topic_copies(record, rows)
    delivered = was_delivered(record, rows)
    for copy in mine:
        if copy["visible"] and not is_gone(copy["place"], rows):
            return NOT_RECORDED if delivered else SKIPPED
    if (
        mine
        and not [copy for copy in mine if copy["visible"]]
        and not untold_removals(record, rows)
    ):
        return ONLY_ABORTED
    why = removals(record, rows)
    if why:
        return hop_of_removals(why, taken=was_taken(record, rows), delivered=delivered)
    if [row for row in said(rows, "acked") if row["record"] == record]:
        return ACKED_NOT_STORED
    if [row for row in said(rows, "sent") + said(rows, "unknown") if row["record"] == record]:
        return SENT_NOT_STORED
    return NEVER_SENT


def hop_of_removals(why: list[str], *, taken: bool, delivered: bool) -> str:
    """Return what the removals of a record's copies come to."""
    for each in why:
        if each == "ack" and delivered:
            return NOT_RECORDED
        if each in ("retention", "compaction", "purge", "duplicate") and taken:
            return NOT_RECORDED
    for each, hop in (
        ("reject", REJECTED),
        ("limit", LIMIT),
        ("expiry", EXPIRED),
        ("dead-letter", DEAD_LETTER),
        ("moved", MOVED),
        ("ack", GIVEN_UP),
        ("purge", PURGED),
        ("compaction", COMPACTED),
        ("retention", DELETED_BY_RETENTION),
    ):
        if each in why:
            return hop
    return DUPLICATE


# --- the cell -------------------------------------------------------------------------------------


def phantoms(rows: list[Row], offered: dict[str, Row]) -> int:
    """Count what is in the queue or the sink and was never offered, or is damaged."""
    strangers = [row for row in of(rows, "recorded") if not is_ours(row, offered)]
    count = len(strangers)
    for (_, record), times in folded(rows).items():
        if record not in offered:
            count += times
    waiting = []
    for row in of(rows, "stored"):
        if row["hop"] != "topic" or row.get("foreign") or is_ours(row, offered):
            continue
        if not [other for other in strangers if same_copy(other["place"], row["place"], rows)]:
            waiting.append(row)
    return count + count_copies(waiting, rows)


def by_origin(mine: list[Row], rows: list[Row]) -> list[list[Row]]:
    """Return sink rows, those that were made from one copy together, wherever it was moved."""
    made_of: list[list[Row]] = []
    for row in mine:
        for group in made_of:
            if same_copy(group[0]["place"], row["place"], rows):
                group.append(row)
                break
        else:
            made_of.append([row])
    return made_of


OF_A_QUEUE = Meaning(
    contributions=contributions,
    state_of=state_of,
    last_hop=last_hop,
    in_doubt=lambda rows: sum(1 for told in last_told(rows).values() if is_in_doubt(told)),
    is_stalled=is_stalled,
    is_resurrected=is_resurrected,
    count_copies=count_copies,
    told_gone=untold_removals,
    phantoms=phantoms,
    by_origin=by_origin,
)


def queue_oracle(events: list[Row]) -> Row:
    """Account for one cell whose broker is a queue, as :func:`tests.judge.oracle.walk` does."""
    return walk(events, OF_A_QUEUE)
