"""The account: counts of what was offered, stored, recorded, lost and duplicated, from a history.
It decides nothing.

The rules read one cell, in one pass per question, over plain rows: a cell has some hundreds of
events, and is judged while others run. Many cells are given to :func:`account` one by one
(:mod:`harness.audit.accounts`).

The key of every comparison is a record's id, never a place, because a truncated log uses its places
again. Two copies of one record differ by their places (:mod:`harness.model.places`). The observer
has already decided what a copy waits for, so the rules need to know neither logs nor queues.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from harness.judge.copies import removed
from harness.judge.reasons import doubtful, reasons
from harness.judge.record_row import COLUMNS
from harness.judge.rows import Rows, counted, ids, undecided
from harness.judge.transactions import in_doubt, resurrected, torn
from harness.model import events as kinds
from harness.model.places import MOVABLE, Removal
from harness.model.states import Hop, LastHop, State

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    import pandas as pd

    from harness.judge.record_row import RecordRow
    from harness.judge.row import Row
    from harness.model.events import Event


@dataclass(frozen=True, slots=True)
class Total:
    """A wrong total, and how many of its records, at least, are lost, still under way, or counted
    more than once.

    ``key``: the key of the summed records; empty for the total of all records. ``alone``: the one
    record that would explain the difference, if there is one.
    """

    key: str
    expected: int
    found: int
    lost: int
    waiting: int
    extra: int
    alone: str | None

    @property
    def name(self) -> str:
        """The words for this total in messages."""
        return f"the total of {self.key}" if self.key else "the total"


@dataclass(frozen=True)
class Account:
    """The account of one cell.

    ``counts`` holds one integer per column of the report, ``rows`` one row per offered record. If
    it is not known whether one of the ``totals`` has counted a record, the record's row says
    recorded once; ``counts`` say how many of these, at least, were not.
    """

    counts: dict[str, int]
    rows: tuple[RecordRow, ...]
    reordered: tuple[str, ...] = ()
    """Ids of records that were first recorded after a later record of their key."""
    totals: tuple[Total, ...] = ()
    """Wrong totals: they do not show which of their records are missing or counted
    more than once.
    """
    aside_in: tuple[str, ...] = ()
    """The topics in which the records that were set aside are. Queues are not named."""
    topics: Mapping[str, str] = field(default_factory=dict)
    """In which topic each record was offered, if there are several."""

    @cached_property
    def records(self) -> pd.DataFrame:
        """The rows as a pandas table. pandas is imported only on first use, because that takes half
        a second.
        """
        import pandas as pd  # noqa: PLC0415

        rows: Sequence[Mapping[str, object]] = self.rows
        return pd.DataFrame(
            {
                name: pd.Series([row[name] for row in rows], dtype=kind)
                for name, kind in COLUMNS.items()
            }
        )

    @property
    def short(self) -> frozenset[str]:
        """Names of the totals that miss records; which records is unknown."""
        return frozenset(total.name for total in self.totals if total.lost)

    @property
    def over(self) -> frozenset[str]:
        """Names of the totals that count records more than once; which records is unknown."""
        return frozenset(total.name for total in self.totals if total.extra)

    @property
    def lost(self) -> frozenset[str]:
        """Ids of lost records."""
        return self._in(State.LOST)

    @property
    def set_aside(self) -> frozenset[str]:
        """Ids of records whose only remaining copies are dead letters."""
        return self._in(State.SET_ASIDE)

    @property
    def superseded(self) -> frozenset[str]:
        """Ids of records that compaction took for a later one of their key."""
        return self._in(State.SUPERSEDED)

    @property
    def left(self) -> frozenset[str]:
        """Ids of records that are left in the source or in the topic."""
        return self._in(State.LEFT_IN_TOPIC, State.LEFT_IN_SOURCE)

    @property
    def stalled(self) -> frozenset[str]:
        """Ids of records that readers do not see because an open transaction is before them."""
        return self._in(State.STALLED)

    @property
    def duplicated(self) -> frozenset[str]:
        """Ids of records recorded more than once."""
        return frozenset(row["record"] for row in self.rows if row["recordings"] > 1)

    def _in(self, *states: State) -> frozenset[str]:
        return frozenset(row["record"] for row in self.rows if row["state"] in states)


def account(events: Iterable[Event]) -> Account:
    """Account for one cell's events."""
    return account_of(Rows(events))


def account_of(rows: Rows) -> Account:
    """Account for one cell's rows."""
    records = _records(rows)
    totals, reordered = tuple(_totals(rows)), _reordered(rows)
    counts = _counts(rows, records, totals, reordered)
    topics = {record: row.topic for record, row in rows.offered.items() if row.topic}
    return Account(counts, records, reordered, totals, tuple(_aside_in(rows, records)), topics)


def _aside_in(rows: Rows, records: Iterable[RecordRow]) -> list[str]:
    """Return the topics in which records that were set aside rest, in the order of their names."""
    aside = {row["record"] for row in records if row["state"] == State.SET_ASIDE}
    return sorted({row.topic for row in rows.resting if row.topic and row.record in aside})


def _records(rows: Rows) -> tuple[RecordRow, ...]:
    """One row per offered record: state, last hop and copies."""
    recordings = Counter(row.record for row in rows.results) + _contributions(rows)
    absorbed = counted(rows.of(kinds.Absorbed))
    twice = _stored_twice(rows)
    acked, refused = ids(rows.near(kinds.Acked)), ids(rows.near(kinds.Refused))
    unknown, stored = rows.unknown(near=True), ids(rows.in_topic)
    states = _states(rows, recordings)
    hops = _last_hops(rows, acked)
    why, doubts = reasons(rows, states), doubtful(rows)

    def row(record: str, said: Row) -> RecordRow:
        extra, state = max(recordings[record] - 1, 0), states[record]
        return {
            "record": record,
            "key": said.key,
            "position": said.position,
            "acked": record in acked,
            "refused": record in refused,
            "unknown": record in unknown,
            "stored": record in stored,
            "recordings": recordings[record],
            "absorbed": absorbed[record],
            "aside": rows.aside[record],
            "duplicated": extra,
            "stored_twice": twice[record],
            "delivered_twice": extra - twice[record],
            "state": state,
            "last_hop": hops(record) if state == State.LOST else None,
            "why": why.get(record),
            "in_doubt": record in doubts,
        }

    return tuple(row(record, said) for record, said in rows.offered.items())


def _contributions(rows: Rows) -> Counter[str | None]:
    """Return how often each record is folded into the last version of a value. Earlier versions are
    no results.

    If one version has two lines about a record, the later one counts.
    """
    last: dict[str | None, int] = {}
    folded = list(rows.of(kinds.Folded))
    for row in folded:
        last[row.key] = max(row.version, last.get(row.key, row.version))
    times = {(row.key, row.record): row.times for row in folded if row.version == last[row.key]}
    found: Counter[str | None] = Counter()
    for (_, record), count in times.items():
        found[record] += max(count, 0)
    return found


def _stored_twice(rows: Rows) -> Counter[str | None]:
    """For each record, how many of its rows are of one more copy, or tell of one attempt and copy
    again.
    """
    places = {(row.record, rows.copies.of(row.place)) for row in rows.results}
    found = Counter(
        {record: count - 1 for record, count in Counter(record for record, _ in places).items()}
    )
    named = [row for row in rows.results if row.attempt is not None]
    again = Counter(row.record for row in named)
    again.subtract(
        record
        for record, _, _ in {(row.record, row.attempt, rows.copies.of(row.place)) for row in named}
    )
    found.update(again)
    return found


def _totals(rows: Rows) -> Iterator[Total]:
    """Yield the wrong totals. Records still on their way may be the ones that a total misses; those
    are not lost.
    """
    cursor = _cursor(rows)
    movable = ids(row for row in rows.stored if undecided(row)) | ids(
        row for row in rows.in_topic if row.waiting in MOVABLE
    )
    for row in {row.key: row for row in rows.of(kinds.Total)}.values():
        of = [record for record, said in rows.offered.items() if row.key in ("", said.key)]
        still = sum(
            record in movable or (cursor is not None and rows.offered[record].position >= cursor)
            for record in of
        )
        missing, extra = max(row.missing, 0), max(row.extra, 0)
        yield Total(
            row.key or "",
            row.expected,
            row.found,
            max(missing - still, 0),
            min(missing, still),
            extra,
            row.alone,
        )


def _cursor(rows: Rows) -> int | None:
    return next((row.position for row in reversed(list(rows.of(kinds.Cursor)))), None)


def _states(rows: Rows, recordings: Counter[str | None]) -> dict[str, State]:
    """Return the state of each record at rest. States that can still change come before those that
    cannot.
    """
    cursor = _cursor(rows)
    stalled = ids(row for row in rows.stored if undecided(row))
    left = ids(row for row in rows.in_topic if row.waiting in MOVABLE)
    aside = ids(rows.resting)
    superseded = _superseded(rows)

    def state(record: str, position: int) -> State:
        if recordings[record]:
            return State.RECORDED
        if record in stalled:
            return State.STALLED
        if record in left:
            return State.LEFT_IN_TOPIC
        if cursor is not None and position >= cursor:
            return State.LEFT_IN_SOURCE
        if record in aside:
            return State.SET_ASIDE
        return State.SUPERSEDED if record in superseded else State.LOST

    return {record: state(record, row.position) for record, row in rows.offered.items()}


def _superseded(rows: Rows) -> set[str]:
    """Return the records that compaction took for a later one of their key, before their reader
    came to them. If it was given a record, was behind it, or passed a copy that is still there, the
    record is lost. So is one that was in aborted transactions alone.
    """
    copies = rows.copies
    there = ids(row for row in rows.in_topic if row.visible and not copies.gone(row))
    taken = ids(
        row
        for row in rows.of(kinds.Removed)
        if row.why is Removal.COMPACTION and row.later and row.visible and not row.passed
    )
    return taken - there - ids(rows.of(kinds.Delivered))


def _last_hops(rows: Rows, acked: Collection[str]) -> Callable[[str], LastHop]:
    copies = rows.copies
    visible = ids(row for row in rows.in_topic if row.visible) | (copies.untold - copies.unseen)
    aborted = ids(rows.in_topic) - visible
    there = ids(row for row in rows.in_topic if row.visible and not copies.gone(row))
    taken = ids(rows.of(kinds.Delivered))
    arrived = ids(row for row in rows.of(kinds.Fetched) if row.reached)
    sent = ids(rows.near(kinds.Sent, kinds.Unknown))

    def hop(record: str) -> LastHop:
        if record in there:
            return LastHop.DELIVERED if record in taken | arrived else LastHop.SKIPPED
        if record in aborted:
            return LastHop.ABORTED
        if record in copies.why:
            return removed(copies.why[record], taken=record in taken, arrived=record in arrived)
        if record in acked:
            return LastHop.ACKED
        return LastHop.SENT if record in sent else LastHop.NEVER_SENT

    return hop


def _phantoms(rows: Rows) -> int:
    """Return what is in sink or topic and was never offered, or is damaged. A copy that reached the
    sink is counted only there.

    What programs write besides their records (``foreign``) is no record.
    """
    in_sink = [row for row in rows.of(kinds.Recorded) if not rows.knows(row)]
    gone_on = {rows.copies.of(row.place) for row in in_sink}
    strange = (row for row in rows.of(kinds.Stored) if not rows.knows(row) and not row.foreign)
    waiting = (
        row for row in strange if row.hop == Hop.TOPIC and rows.copies.of(row.place) not in gone_on
    )
    folded = sum(
        times for record, times in _contributions(rows).items() if record not in rows.offered
    )
    return len(in_sink) + folded + rows.copies.count(waiting)


def _reordered(rows: Rows) -> tuple[str, ...]:
    """Return the records that were first recorded after a later record of their key."""
    highest: dict[str, int] = {}
    found = []
    for record in dict.fromkeys(
        row.record
        for row in sorted(rows.results, key=lambda row: row.order)
        if row.record is not None
    ):
        key, position = rows.offered[record].key, rows.offered[record].position
        if key is not None:
            if position < highest.get(key, position):
                found.append(record)
            highest[key] = max(position, highest.get(key, position))
    return tuple(found)


def _counts(
    rows: Rows, records: Sequence[RecordRow], totals: Sequence[Total], reordered: Sequence[str]
) -> dict[str, int]:
    """Return one count per column of the report. A wrong total adds the least number of records
    that explains it.
    """
    lost, waiting, extra = (
        sum(getattr(total, name) for total in totals) for name in ("lost", "waiting", "extra")
    )
    states = Counter(row["state"] for row in records)

    return {
        "offered": len(rows.offered),
        "acked": sum(row["acked"] for row in records),
        "refused": sum(row["refused"] for row in records),
        "unknown": sum(row["unknown"] for row in records),
        "stored": sum(row["stored"] for row in records),
        "recorded": states[State.RECORDED] - lost - waiting,
        "lost": states[State.LOST] + lost,
        "set_aside": states[State.SET_ASIDE],
        "superseded": states[State.SUPERSEDED],
        "duplicated": sum(row["duplicated"] for row in records) + extra,
        "stored_twice": sum(row["stored_twice"] for row in records),
        "delivered_twice": sum(row["delivered_twice"] for row in records),
        "absorbed": sum(row["absorbed"] for row in records),
        "aborted": rows.copies.count(
            row for row in rows.stored if not row.visible and not undecided(row)
        ),
        "phantom": _phantoms(rows),
        "resurrected": resurrected(rows),
        "torn": torn(rows),
        "in_doubt": len(in_doubt(rows)),
        "reordered": len(reordered),
        "left": states[State.LEFT_IN_SOURCE] + states[State.LEFT_IN_TOPIC] + waiting,
        "left_in_source": states[State.LEFT_IN_SOURCE],
        "left_in_topic": states[State.LEFT_IN_TOPIC] + waiting,
        "stalled": states[State.STALLED],
    }
