"""A second, brute-force account of one cell, to hold the real one against.

Written from the definitions alone (docs/concepts.md) and without looking at
:mod:`harness.judge.accounting`: plain loops over plain dictionaries, every question answered by
walking through all events again. It is slow on purpose; nothing in it is clever enough to be wrong
in a clever way. Logs and queues (:mod:`tests.judge.queue_oracle`) share the walk; a
:class:`Meaning` says what differs between them.

Readings the definitions leave open, decided here:

- an attempt of null names nothing: it belongs to no transaction and never matches a refusal;
- where one thing is told twice (cursor, position, log, outcome) the later line in time holds, and
  of two lines with one time stamp the later line;
- an origin (partition, epoch, offset) with nulls in it is an origin like any other;
- what programs write beside their records (``foreign``) is no phantom;
- a phantom in the topic that went on into the sink is counted there, once for each time it is
  recorded;
- what retention or compaction has taken is no more there, dead letters among it;
- a copy that retention has taken was an attempt, and nobody knows which: one that was acknowledged
  and is not there may be it; and a record of which a visible copy was taken is not only in aborted
  transactions;
- a copy of a record that was never offered is a phantom and nothing else: it is neither resurrected
  nor part of a torn transaction;
- what programs and wire say of a log that is the sink (``hop`` is ``sink``, or the topic is that of
  a sink's log) is another hop: it neither makes a record acked, refused, unknown or sent, nor says
  where it was last seen. Transactions are judged on every hop.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

Row = dict[str, Any]

RECORDED = "recorded"
STALLED = "stalled"
LEFT_IN_TOPIC = "left in topic"
LEFT_IN_SOURCE = "left in source"
SET_ASIDE = "set aside"
SUPERSEDED = "superseded"
LOST = "lost"

NEVER_SENT = "never sent"
SENT_NOT_STORED = "sent, not stored"
ACKED_NOT_STORED = "acked, not stored"
ONLY_ABORTED = "only in aborted transactions"
DELETED_BY_RETENTION = "stored, deleted by retention"
COMPACTED = "stored, compacted away"
SKIPPED = "stored, skipped"
NOT_RECORDED = "delivered, not recorded"


@dataclass(frozen=True)
class Meaning:
    """What means one thing of a log and another of a queue. ``rows`` are all lines of the cell."""

    contributions: Callable[[str, list[Row]], int]
    """How often a record is in the sink."""
    state_of: Callable[[str, Row, list[Row]], str]
    last_hop: Callable[[str, list[Row]], str]
    in_doubt: Callable[[list[Row]], int]
    """Of how many transactions nobody knows what the broker did."""
    is_stalled: Callable[[Row, list[Row]], bool]
    is_resurrected: Callable[[Row, list[Row], dict[str, Row]], bool]
    count_copies: Callable[[list[Row], list[Row]], int]
    """How many copies some lines tell of."""
    told_gone: Callable[[str, list[Row]], list[Row]]
    """The lines by which alone one knows of a copy of a record: it was taken away, and was never
    written down.
    """
    phantoms: Callable[[list[Row], dict[str, Row]], int]
    by_origin: Callable[[list[Row], list[Row]], list[list[Row]]]
    """The sink rows of a record, those that were made from one copy together."""


def walk(events: list[Row], meaning: Meaning) -> Row:
    """Account for one cell.

    Counts are ints; ``lost``, ``set_aside``, ``superseded``, ``duplicated_ids``, ``stalled``,
    ``left_in_topic`` and ``left_in_source`` are sets of record ids; ``states`` names the state of
    every offered record and ``last_hops`` the last hop of every lost one.
    """
    rows = in_time(events)
    offered = {row["record"]: row for row in of(rows, "offered")}
    ours = [row for row in of(rows, "stored") if is_ours(row, offered)]
    states = {record: meaning.state_of(record, offered[record], rows) for record in offered}
    result: Row = {
        "offered": len(offered),
        "acked": len({row["record"] for row in said(rows, "acked")} & set(offered)),
        "refused": len({row["record"] for row in said(rows, "refused")} & set(offered)),
        "unknown": sum(1 for record in offered if is_unknown(record, rows)),
        "stored": sum(1 for record in offered if topic_copies(record, rows)),
        "recorded": sum(1 for record in offered if meaning.contributions(record, rows)),
        "lost": {record for record in offered if states[record] == LOST},
        "set_aside": {record for record in offered if states[record] == SET_ASIDE},
        "superseded": {record for record in offered if states[record] == SUPERSEDED},
        "stalled": {record for record in offered if states[record] == STALLED},
        "left_in_topic": {record for record in offered if states[record] == LEFT_IN_TOPIC},
        "left_in_source": {record for record in offered if states[record] == LEFT_IN_SOURCE},
        "in_doubt": meaning.in_doubt(rows),
        "states": states,
        "last_hops": {
            record: meaning.last_hop(record, rows) for record in offered if states[record] == LOST
        },
        "absorbed": sum(1 for row in of(rows, "absorbed") if row["record"] in offered),
        "aborted": meaning.count_copies(
            [row for row in ours if not row["visible"] and not meaning.is_stalled(row, rows)], rows
        ),
        "phantom": meaning.phantoms(rows, offered),
        "resurrected": meaning.count_copies(
            [row for row in ours if meaning.is_resurrected(row, rows, offered)], rows
        ),
        "torn": sum(1 for name in outcomes(rows) if is_torn(name, rows, offered, meaning)),
        "reordered": reordered(rows, offered),
    }
    result.update(duplicates(rows, offered, meaning))
    return result


# --- reading --------------------------------------------------------------------------------------


def in_time(events: list[Row]) -> list[Row]:
    """Order events by time; lines with one time stamp keep their order."""
    return sorted(events, key=lambda row: row["t"])


def of(rows: list[Row], kind: str) -> list[Row]:
    """Return the events of one kind."""
    return [row for row in rows if row["event"] == kind]


def said(rows: list[Row], kind: str) -> list[Row]:
    """Return what programs or wire said about the log between producer and consumer,
    of one kind.
    """
    sinks = [row["topic"] for row in of(rows, "log") if row["hop"] == "sink"]
    return [
        row for row in of(rows, kind) if row.get("hop") != "sink" and row.get("topic") not in sinks
    ]


def is_ours(row: Row, offered: dict[str, Row]) -> bool:
    """Whether a copy or a sink row is an undamaged, offered record."""
    return bool(row["intact"]) and row["record"] is not None and row["record"] in offered


def recordings(record: str, rows: list[Row]) -> list[Row]:
    """Return the undamaged sink rows of a record."""
    return [row for row in of(rows, "recorded") if row["record"] == record and row["intact"]]


def copies(record: str, rows: list[Row]) -> list[Row]:
    """Return the undamaged log copies of a record, on any hop."""
    return [row for row in of(rows, "stored") if row["record"] == record and row["intact"]]


def topic_copies(record: str, rows: list[Row]) -> list[Row]:
    """Return the undamaged copies of a record between producer and consumer."""
    return [row for row in copies(record, rows) if row["hop"] == "topic"]


def stable_offset(copy: Row, rows: list[Row]) -> int | None:
    """Return the last stable offset of the log a copy stands in, or None where nobody wrote it
    down.
    """
    found: int | None = None
    for row in of(rows, "log"):
        if (
            row["hop"] == copy["hop"]
            and row["topic"] == copy["topic"]
            and row["partition"] == copy["partition"]
        ):
            found = row["stable"]
    return found


def saved_position(partition: int, rows: list[Row]) -> int:
    """Return the saved position of a partition; -1 where none is."""
    found = -1
    for row in of(rows, "position"):
        if row["partition"] == partition:
            found = row["offset"]
    return found


def saved_cursor(rows: list[Row]) -> int | None:
    """Return the next position the source would be asked for, or None where nobody
    wrote it down.
    """
    found: int | None = None
    for row in of(rows, "cursor"):
        found = row["position"]
    return found


# --- one copy -------------------------------------------------------------------------------------


def is_stalled(copy: Row, rows: list[Row]) -> bool:
    """Whether a copy waits above the last stable offset."""
    stable = stable_offset(copy, rows)
    return not copy["visible"] and stable is not None and copy["offset"] >= stable


def is_aborted(copy: Row, rows: list[Row]) -> bool:
    """Whether a copy belongs to an aborted transaction: nobody will ever see it."""
    stable = stable_offset(copy, rows)
    return not copy["visible"] and (stable is None or copy["offset"] < stable)


def transaction_of(attempt: str | None) -> str | None:
    """Return the transaction an attempt was made in: its first two words."""
    return None if attempt is None else ".".join(attempt.split(".")[:2])


def outcomes(rows: list[Row]) -> dict[str, str]:
    """Return what the program was told last about each transaction; having begun is no outcome to
    override another.
    """
    found: dict[str, str] = {}
    for row in of(rows, "transaction"):
        if row["outcome"] == "begun" and row["transaction"] in found:
            continue
        found[row["transaction"]] = row["outcome"]
    return found


def is_resurrected(copy: Row, rows: list[Row], offered: dict[str, Row]) -> bool:
    """Whether a read-committed reader sees a copy that must not be there."""
    if is_given_away(copy, rows, offered):
        return True
    if not copy["visible"] or copy["attempt"] is None:
        return False
    name = transaction_of(copy["attempt"])
    if name is not None and outcomes(rows).get(name) == "aborted":
        return True
    return was_refused(copy, rows)


def was_refused(copy: Row, rows: list[Row]) -> bool:
    """Whether a copy's attempt was refused, with no doubt about an earlier one."""
    for refusal in of(rows, "refused"):
        if refusal["record"] != copy["record"] or refusal["attempt"] != copy["attempt"]:
            continue
        doubts = [
            row
            for row in of(rows, "unknown")
            if row["record"] == copy["record"] and row["t"] < refusal["t"]
        ]
        if not doubts:
            return True
    return False


def is_given_away(copy: Row, rows: list[Row], offered: dict[str, Row]) -> bool:
    """Whether an aborted copy reached somebody who must never see it."""
    if not is_ours(copy, offered) or not is_aborted(copy, rows):
        return False
    for row in of(rows, "fetched"):
        here = row["topic"] == copy["topic"] and is_from(row, copy)
        if row["reached"] and here and asked_of(row["conn"], rows) == {True}:
            return True
    if copy["hop"] != "topic":
        return False
    asked = set()
    for frame in of(rows, "frame"):
        topics = {row["topic"] for row in of(rows, "fetched") if row["conn"] == frame["conn"]}
        if not topics or copy["topic"] in topics:
            asked.add(frame["committed_only"])
    if False in asked:
        return False
    if any(row["intact"] and is_from(row, copy) for row in of(rows, "recorded")):
        return True
    return True in asked and any(is_from(row, copy) for row in of(rows, "delivered"))


def asked_of(conn: int, rows: list[Row]) -> set[bool]:
    """Return whether the requests on a connection asked for committed records only."""
    return {row["committed_only"] for row in of(rows, "frame") if row["conn"] == conn}


def is_from(row: Row, copy: Row) -> bool:
    """Whether a line is about this copy, by record, partition, offset and what is known of the
    epoch.
    """
    for name in ("record", "partition", "offset"):
        if row[name] != copy[name]:
            return False
    epochs = {row["epoch"], copy["epoch"]} - {None, -1}
    return len(epochs) < 2


def is_torn(name: str, rows: list[Row], offered: dict[str, Row], meaning: Meaning) -> bool:
    """Whether of one transaction some attempts are visible and some are not."""
    attempts = set()
    for row in of(rows, "acked"):
        if row["record"] in offered and transaction_of(row["attempt"]) == name:
            attempts.add((row["record"], row["attempt"]))
    for row in of(rows, "stored"):
        if is_ours(row, offered) and transaction_of(row["attempt"]) == name:
            attempts.add((row["record"], row["attempt"]))
    seen = 0
    unseen = 0
    for record, attempt in attempts:
        mine = [row for row in copies(record, rows) if row["attempt"] == attempt]
        if mine and all(meaning.is_stalled(row, rows) for row in mine):
            continue
        if any(row["visible"] and not meaning.is_stalled(row, rows) for row in mine):
            seen += 1
        elif mine or not meaning.told_gone(record, rows):
            unseen += 1
    return seen > 0 and unseen > 0


# --- one record -----------------------------------------------------------------------------------


def state_of(record: str, offer: Row, rows: list[Row]) -> str:
    """Return the one state of an offered record: the first that matches."""
    if recordings(record, rows):
        return RECORDED
    for copy in copies(record, rows):
        if is_stalled(copy, rows):
            return STALLED
    for copy in topic_copies(record, rows):
        if copy["visible"] and copy["offset"] >= saved_position(copy["partition"], rows):
            return LEFT_IN_TOPIC
    cursor = saved_cursor(rows)
    if cursor is not None and offer["position"] >= cursor:
        return LEFT_IN_SOURCE
    for copy in copies(record, rows):
        there = copy["visible"] and spot_of(copy) not in gone(rows)
        if copy["hop"] == "aside" and there:
            return SET_ASIDE
    there = [c for c in topic_copies(record, rows) if c["visible"] and spot_of(c) not in gone(rows)]
    return SUPERSEDED if not there and is_superseded(record, rows) else LOST


def is_superseded(record: str, rows: list[Row]) -> bool:
    """Whether compaction took a copy of a record to which no reader had come, and its log had a
    later one of the key.
    """
    if [row for row in of(rows, "delivered") if row["record"] == record]:
        return False
    for row in of(rows, "removed"):
        if row["record"] != record or row["why"] != "compaction" or not row.get("later"):
            continue
        if row.get("visible", True) and not row.get("passed"):
            return True
    return False


def spot_of(row: Row) -> tuple[object, ...]:
    """Name the topic and the place of a copy."""
    return row["topic"], *copy_of(row)


def gone(rows: list[Row]) -> list[tuple[object, ...]]:
    """Return from where copies were taken."""
    return [spot_of(row) for row in taken_away(rows)]


def taken_away(rows: list[Row]) -> list[Row]:
    """Return the lines about copies that retention, or compaction, has taken."""
    return of(rows, "deleted") + of(rows, "removed")


def deletions(record: str, rows: list[Row]) -> list[Row]:
    """Return the lines by which alone one knows of a copy of a record: it was taken away."""
    stored = [spot_of(row) for row in of(rows, "stored")]
    return [
        row for row in taken_away(rows) if row["record"] == record and spot_of(row) not in stored
    ]


def last_hop(record: str, rows: list[Row]) -> str:
    """Return how far a lost record came."""
    mine = topic_copies(record, rows)
    delivered = [row for row in of(rows, "delivered") if row["record"] == record]
    fetched = [row for row in of(rows, "fetched") if row["record"] == record and row["reached"]]
    deleted = [row for row in taken_away(rows) if row["record"] == record]
    if [row for row in mine if row["visible"] and spot_of(row) not in gone(rows)]:
        return NOT_RECORDED if delivered or fetched else SKIPPED
    seen_before = [row for row in deletions(record, rows) if row["visible"]]
    if mine and not seen_before and not [row for row in mine if row["visible"]]:
        return ONLY_ABORTED
    if deleted:
        compacted = [row for row in deleted if row["event"] == "removed"]
        taken = COMPACTED if compacted else DELETED_BY_RETENTION
        return NOT_RECORDED if delivered else taken
    if [row for row in said(rows, "acked") if row["record"] == record]:
        return ACKED_NOT_STORED
    if [row for row in said(rows, "sent") + said(rows, "unknown") if row["record"] == record]:
        return SENT_NOT_STORED
    return NEVER_SENT


def is_unknown(record: str, rows: list[Row]) -> bool:
    """Whether some attempt at a record ended without the program knowing how."""
    answers = [
        row for row in said(rows, "acked") + said(rows, "refused") if row["record"] == record
    ]
    for row in said(rows, "sent") + said(rows, "unknown"):
        if row["record"] != record:
            continue
        if row["attempt"] is None:
            if not answers:
                return True
        elif not [answer for answer in answers if answer["attempt"] == row["attempt"]]:
            return True
    return False


# --- the cell -------------------------------------------------------------------------------------


def phantoms(rows: list[Row], offered: dict[str, Row]) -> int:
    """Count what is in the topic or the sink and was never offered, or is damaged."""
    count = 0
    went_on = []
    for row in of(rows, "recorded"):
        if not is_ours(row, offered):
            count += 1
            went_on.append(copy_of(row))
    for row in of(rows, "stored"):
        foreign = row.get("foreign") or False
        if (
            row["hop"] == "topic"
            and not foreign
            and not is_ours(row, offered)
            and copy_of(row) not in went_on
        ):
            count += 1
    return count


def copy_of(row: Row) -> tuple[int, ...]:
    """Name the log copy that a row is, or was made from; what is not said is -1."""
    return tuple(
        -1 if row.get(name) is None else row[name] for name in ("partition", "epoch", "offset")
    )


def by_origin(mine: list[Row], rows: list[Row]) -> list[list[Row]]:
    """Return sink rows, those that were made from one copy of a log together."""
    del rows
    made_of: dict[tuple[object, ...], list[Row]] = {}
    for row in mine:
        made_of.setdefault((row["partition"], row["epoch"], row["offset"]), []).append(row)
    return list(made_of.values())


def duplicates(rows: list[Row], offered: dict[str, Row], meaning: Meaning) -> Row:
    """Count the extra copies in the sink, and which of them the broker itself held twice."""
    extra = 0
    stored_twice = 0
    ids = set()
    for record in offered:
        times = meaning.contributions(record, rows)
        if times < 2:
            continue
        ids.add(record)
        extra += times - 1
        made_of = meaning.by_origin(recordings(record, rows), rows)
        stored_twice += max(len(made_of) - 1, 0)
        for group in made_of:
            for attempt in {row["attempt"] for row in group if row["attempt"] is not None}:
                stored_twice += len([row for row in group if row["attempt"] == attempt]) - 1
    return {
        "duplicated": extra,
        "duplicated_ids": ids,
        "stored_twice": stored_twice,
        "delivered_twice": extra - stored_twice,
    }


def reordered(rows: list[Row], offered: dict[str, Row]) -> int:
    """Count records first recorded after a record of the same key that comes later in
    the source.
    """
    firsts: dict[str, tuple[int, int]] = {}
    for line, row in enumerate(rows):
        if row["event"] == "recorded" and is_ours(row, offered):
            place = (row["order"], line)
            if row["record"] not in firsts or place < firsts[row["record"]]:
                firsts[row["record"]] = place
    count = 0
    for record, place in firsts.items():
        for other, other_place in firsts.items():
            same_key = offered[record]["key"] == offered[other]["key"]
            later_in_source = offered[other]["position"] > offered[record]["position"]
            if same_key and later_in_source and other_place < place:
                count += 1
                break
    return count


OF_A_LOG = Meaning(
    contributions=lambda record, rows: len(recordings(record, rows)),
    state_of=state_of,
    last_hop=last_hop,
    in_doubt=lambda rows: sum(1 for outcome in outcomes(rows).values() if outcome == "unknown"),
    is_stalled=is_stalled,
    is_resurrected=is_resurrected,
    count_copies=lambda lines, _: len(lines),
    told_gone=deletions,
    phantoms=phantoms,
    by_origin=by_origin,
)


def oracle(events: list[Row]) -> Row:
    """Account for one cell whose broker is a log, as :func:`walk` does."""
    return walk(events, OF_A_LOG)
