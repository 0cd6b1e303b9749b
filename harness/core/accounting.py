"""The account: what a history says was offered, stored, recorded, lost and duplicated. It decides nothing.

The rules are section 3 of the design. They read one cell, in one pass per question, over plain rows: a cell has some hundreds of
events, and is judged while others run. Where there are many, whole cells are given to :func:`account`
(:mod:`harness.audit.accounts`).

Ids, never places, are the key of every comparison: a log reuses its offsets after a truncation. Copies are told apart by their
places (:mod:`harness.core.places`), and what a copy waits for its observer has decided: the rules know neither logs nor queues.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import pandas as pd

from harness.core import events as kinds
from harness.core.copies import Copies, removed
from harness.core.places import MOVABLE, UNDECIDED, placed
from harness.core.scenario import BROKERS
from harness.core.sign import Sign
from harness.core.states import Hop, LastHop, State

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from harness.core.history import Event

FIELDS: dict[str, type] = {
    "t": int, "event": str, "record": str, "key": str, "position": int, "hop": str, "topic": str, "partition": int, "epoch": int,
    "offset": int, "attempt": str, "intact": bool, "visible": bool, "stable": int, "order": int, "reached": bool, "outcome": str,
    "transaction": str, "request": str, "where": str, "by": str, "phase": str, "role": str, "api": str, "foreign": bool,
    "place": str, "waiting": str, "why": str, "to": str, "told_by": str, "version": int, "times": int,
}  # fmt: skip
"""The fields that the rules read. A missing number is -1, a missing flag false, a missing text null."""
_MISSING: dict[type, Any] = {int: -1, bool: False, str: None}
_EMPTY = {name: _MISSING[kind] for name, kind in FIELDS.items()}

READ = frozenset({
    kinds.OFFERED, kinds.CURSOR, kinds.STORED, kinds.LOG, kinds.POSITION, kinds.RECORDED, kinds.ABSORBED, kinds.RESUMED,
    kinds.TAKEN, kinds.ACKED, kinds.REFUSED, kinds.UNKNOWN, kinds.DELIVERED, kinds.TRANSACTION, kinds.SENT, kinds.UNSENT,
    kinds.FETCHED, kinds.FLUSHED, kinds.ALONE, kinds.REPLICATED, kinds.BATCH, kinds.REMOVED, kinds.MOVED, kinds.FOLDED,
    kinds.ENDING, kinds.ASKED_AGAIN, kinds.MARKED_AGAIN, kinds.DATABASE_COMMIT, kinds.ADDED, kinds.UNGOVERNED,
    kinds.NODE, kinds.RULE,
})  # fmt: skip
"""The kinds of events that the rules of counting read (of the wire's rules: their hits); a history has many more."""


LIBRARY = "library"
"""Who has told a program of a transaction, where it was not the broker."""
_FLAG = "shows "
_Row: TypeAlias = "dict[str, Any]"


@dataclass(frozen=True)
class Account:
    """The account of one cell.

    ``counts`` holds one integer per column of the report. ``records`` has one row per offered record (columns:
    ``record, key, position, state, last_hop, recordings, stored_twice, delivered_twice, absorbed, acked, refused,
    unknown, aside`` (copies that were set aside) and one :func:`flag` per :class:`~harness.core.sign.Sign`).
    """

    counts: dict[str, int]
    records: pd.DataFrame

    @property
    def lost(self) -> frozenset[str]:
        """Ids of lost records."""
        return frozenset(self.records.loc[self.records["state"] == State.LOST, "record"])

    @property
    def set_aside(self) -> frozenset[str]:
        """Ids of records of which nothing is left but dead letters."""
        return frozenset(self.records.loc[self.records["state"] == State.SET_ASIDE, "record"])

    @property
    def left(self) -> frozenset[str]:
        """Ids of records that are left in the source or in the topic."""
        return frozenset(self.records.loc[self.records["state"].isin([State.LEFT_IN_TOPIC, State.LEFT_IN_SOURCE]), "record"])

    @property
    def duplicated(self) -> frozenset[str]:
        """Ids of records recorded more than once."""
        return frozenset(self.records.loc[self.records["recordings"] > 1, "record"])

    def signs(self, record: str) -> frozenset[Sign]:
        """The signs of protection seen on one record."""
        row = self.records.loc[self.records["record"] == record]
        return frozenset(sign for sign in Sign if not row.empty and bool(row[flag(sign)].iloc[0]))


def flag(sign: Sign) -> str:
    """Return the column that flags a sign; prefixed, for some signs are named like a count.

    >>> flag(Sign.ABSORBED)
    'shows absorbed'
    """
    return f"{_FLAG}{sign}"


def account(events: Iterable[Event]) -> Account:
    """Account for one cell's events. Raises ``TypeError`` where a field holds what it cannot."""
    cell = _Cell(rows_of(placed(events)))
    return Account(cell.counts(), cell.records)


def rows_of(events: Iterable[Event]) -> list[_Row]:
    """Return what the rules read, in order of time, every field there. Raises ``TypeError`` where one holds what it cannot."""
    return sorted((_row(event) for event in events if _is_read(event)), key=lambda row: row["t"])


def _is_read(event: Event) -> bool:
    return event["event"] in READ and (event["event"] != kinds.RULE or event.get("phase") == "hit")


def _row(event: Event) -> _Row:
    row = _EMPTY.copy()
    for name, value in event.items():
        kind = FIELDS.get(name)
        if kind is None or value is None:
            continue
        if type(value) is not kind:
            raise TypeError(f"{name} of an event {event['event']} cannot be {value!r:.60}")
        row[name] = value
    return row


def transaction_of(attempt: str | None) -> str | None:
    """The transaction an attempt id belongs to (its first two words, ``<incarnation>.<transaction>``), or null.

    >>> transaction_of("producer-1.3.12")
    'producer-1.3'
    """
    return None if attempt is None else ".".join(attempt.split(".")[:2])


def _attempt(row: _Row) -> tuple[str, str] | None:
    """What names an attempt; ``None`` where it has no name, or is of no record."""
    return None if row["attempt"] is None or row["record"] is None else (row["record"], row["attempt"])


def _attempts(rows: Iterable[_Row]) -> set[tuple[str, str] | None]:
    return {_attempt(row) for row in rows} - {None}


def _transaction(row: _Row) -> str | None:
    return row["transaction"] or transaction_of(row["attempt"])


def _ids(rows: Iterable[_Row]) -> set[str]:
    return {row["record"] for row in rows}


def _counted(rows: Iterable[_Row]) -> Counter[str]:
    return Counter(row["record"] for row in rows)


def _distinct(rows: Iterable[_Row], *names: str) -> Counter[str]:
    """For each record, how many combinations of these fields its rows have."""
    return Counter(found[0] for found in {(row["record"], *(row[name] for name in names)) for row in rows})


def _more_than(most: int, counts: Counter[str]) -> set[str]:
    return {record for record, count in counts.items() if count > most}


class _Cell:
    """The rows of one cell, by kind, and what the rules make of them."""

    def __init__(self, rows: Iterable[_Row]) -> None:
        self._of: dict[str, list[_Row]] = defaultdict(list)
        for row in rows:
            self._of[row["event"]].append(row)
        self.offered: dict[str, _Row] = {}
        for row in self._of[kinds.OFFERED]:
            if row["record"] is not None:
                self.offered.setdefault(row["record"], row)
        self._sinks = {row["topic"] for row in self._of[kinds.LOG] if row["hop"] == "sink"}
        self.stored = [row for row in self._of[kinds.STORED] if self._known(row)]
        """Every copy of an offered record that a broker has, or is known to have had."""
        self.rows = [row for row in self._of[kinds.RECORDED] if self._known(row)]
        """Every row of the sink that is of an offered record."""
        self.in_topic = [row for row in self.stored if row["hop"] == Hop.TOPIC]
        self.aside = _counted(row for row in self.stored if row["hop"] == Hop.ASIDE)
        """How many copies of each record are dead letters."""
        self.copies = Copies(self._of[kinds.STORED], self._of[kinds.REMOVED], self._of[kinds.MOVED])

    def of(self, *names: str) -> Iterator[_Row]:
        """The rows of these kinds."""
        return (row for name in names for row in self._of.get(name, ()))

    def near(self, *names: str) -> Iterator[_Row]:
        """Likewise, without what was said about a log that is the sink: it is another hop of the same record."""
        return (row for row in self.of(*names) if row["hop"] != "sink" and (not self._sinks or row["topic"] not in self._sinks))

    def _known(self, row: _Row) -> bool:
        """Whether it is intact and of a record that was offered."""
        return bool(row["intact"]) and row["record"] in self.offered

    # --- one row per record ------------------------------------------------------------------------------------------

    @cached_property
    def records(self) -> pd.DataFrame:
        """One row per offered record: state, last hop, copies and signs."""
        recordings = _counted(self.rows) + self._contributions()
        absorbed = _counted(self.of(kinds.ABSORBED))
        twice = self._stored_twice()
        facts = {
            "acked": _ids(self.near(kinds.ACKED)), "refused": _ids(self.near(kinds.REFUSED)),
            "unknown": self._unknown(self.near), "stored": _ids(self.in_topic),
        }  # fmt: skip
        extra = {record: max(recordings[record] - 1, 0) for record in self.offered}
        states = self._states(recordings)
        hops = self._last_hops(facts["acked"])
        signs = {flag(sign): records for sign, records in self._signs(absorbed).items()}
        table: dict[str, Any] = {
            "record": list(self.offered),
            "key": [row["key"] for row in self.offered.values()],
            "position": [row["position"] for row in self.offered.values()],
            **{name: [record in ids for record in self.offered] for name, ids in facts.items()},
            "recordings": [recordings[record] for record in self.offered],
            "absorbed": [absorbed[record] for record in self.offered],
            "aside": [self.aside[record] for record in self.offered],
            "duplicated": list(extra.values()),
            "stored_twice": [twice[record] for record in self.offered],
            "delivered_twice": [count - twice[record] for record, count in extra.items()],
            "state": list(states.values()),
            "last_hop": [hops(record) if state == State.LOST else None for record, state in states.items()],
            **{name: [record in ids for record in self.offered] for name, ids in signs.items()},
        }
        return pd.DataFrame({name: pd.Series(values, dtype=_dtype(name)) for name, values in table.items()})

    def _unknown(self, rows_of: Callable[..., Iterator[_Row]]) -> set[str]:
        """Records with an attempt whose fate the program does not know."""
        told = list(rows_of(kinds.ACKED, kinds.REFUSED))
        records, attempts = _ids(told), _attempts(told)
        return {
            row["record"] for row in rows_of(kinds.SENT, kinds.UNKNOWN)
            if (_attempt(row) not in attempts if row["attempt"] is not None else row["record"] not in records)
        }  # fmt: skip

    def _contributions(self) -> Counter[str]:
        """How often each record is folded into the last version of a value; the versions before it are no results.

        A version that is told twice is one: the later line about a record holds.
        """
        last: dict[str | None, int] = {}
        folded = self._of[kinds.FOLDED]
        for row in folded:
            last[row["key"]] = max(row["version"], last.get(row["key"], row["version"]))
        times = {(row["key"], row["record"]): row["times"] for row in folded if row["version"] == last[row["key"]]}
        found: Counter[str] = Counter()
        for (_, record), count in times.items():
            found[record] += max(count, 0)
        return found

    def _stored_twice(self) -> Counter[str]:
        """For each record, how many of its rows are of one more copy, or tell of one attempt and copy again."""
        places = {(row["record"], self.copies.of(row["place"])) for row in self.rows}
        found = Counter({record: count - 1 for record, count in Counter(record for record, _ in places).items()})
        named = [row for row in self.rows if row["attempt"] is not None]
        again = _counted(named)
        again.subtract(
            record for record, _, _ in {(row["record"], row["attempt"], self.copies.of(row["place"])) for row in named}
        )
        found.update(again)
        return found

    def _states(self, recordings: Counter[str]) -> dict[str, State]:
        """Where each record is at rest: what can still move comes before what cannot."""
        cursor = next((row["position"] for row in reversed(self._of[kinds.CURSOR])), None)
        stalled = _ids(row for row in self.stored if _undecided(row))
        left = _ids(row for row in self.in_topic if row["waiting"] in MOVABLE)
        aside = _ids(row for row in self.stored if row["hop"] == Hop.ASIDE and not self.copies.gone(row))

        def state(record: str, position: int) -> State:
            if recordings[record]:
                return State.RECORDED
            if record in stalled:
                return State.STALLED
            if record in left:
                return State.LEFT_IN_TOPIC
            if cursor is not None and position >= cursor:
                return State.LEFT_IN_SOURCE
            return State.SET_ASIDE if record in aside else State.LOST

        return {record: state(record, row["position"]) for record, row in self.offered.items()}

    def _last_hops(self, acked: Collection[str]) -> Callable[[str], LastHop]:
        copies = self.copies
        visible = _ids(row for row in self.in_topic if row["visible"]) | (copies.untold - copies.unseen)
        aborted = _ids(self.in_topic) - visible
        there = _ids(row for row in self.in_topic if row["visible"] and not copies.gone(row))
        taken = _ids(self.of(kinds.DELIVERED))
        arrived = _ids(row for row in self.of(kinds.FETCHED) if row["reached"])
        sent = _ids(self.near(kinds.SENT, kinds.UNKNOWN))

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

    # --- signs -------------------------------------------------------------------------------------------------------

    def _signs(self, absorbed: Counter[str]) -> dict[Sign, set[str]]:
        """The records that show each sign."""
        asked = list(self.of(kinds.SENT, kinds.UNSENT))
        named = [row for row in asked if row["attempt"] is not None]
        by_program = {(row["record"], row["attempt"].partition(".")[0], row["attempt"]) for row in named}
        fetched = list(self.of(kinds.FETCHED))
        reached = _ids(row for row in fetched if row["reached"])
        endings = list(self.of(kinds.ENDING))
        struck = {row["api"] for row in self.of(kinds.RULE)}
        added = {row["partition"] for row in self.of(kinds.ADDED)}
        flushed = self._flushed()
        return {
            Sign.REPEATED_REQUEST: {record for record, _ in self._repeated(named)},
            Sign.SENT_ANEW: {record for (record, _), n in Counter(found[:2] for found in by_program).items() if n > 1},
            Sign.TAKEN_AGAIN: _more_than(1, _distinct(self.of(kinds.TAKEN), "by")),
            Sign.ABORTED: self._aborted(asked),
            Sign.DELIVERED_AGAIN: _more_than(1, _counted(self.of(kinds.DELIVERED)))
            | (_ids(row for row in fetched if not row["reached"]) & reached),
            Sign.ABSORBED: set(absorbed),
            Sign.NOT_RESENT: self._unknown(self.of) - self._resent(asked),
            Sign.RESUMED_PAST: self._resumed_past(),
            Sign.REPLAYED: self._replayed(),
            Sign.ENDED_AGAIN: _more_than(1, _distinct((row for row in endings if row["outcome"] is None), "request")),
            Sign.END_REFUSED: _ids(row for row in endings if row["outcome"] == "refused"),
            Sign.ASKED_AGAIN: _ids(row for row in self.of(kinds.ASKED_AGAIN) if row["api"] in struck),
            Sign.MARKED_AGAIN: _ids(self.of(kinds.MARKED_AGAIN)),
            **self._commit_signs(),
            Sign.ALONE: _ids(self.of(kinds.ALONE)),
            Sign.FOUND: _ids(row for row in self.of(kinds.RECORDED) if row["partition"] in added),
            Sign.UNGOVERNED: _ids(self.of(kinds.UNGOVERNED)),
            Sign.FLUSHED: flushed,
            # what the dead broker had flushed it still has: then no follower was needed
            Sign.REPLICATED: self._replicated() - flushed,
        }  # fmt: skip

    def _repeated(self, named: Iterable[_Row]) -> set[tuple[str, str]]:
        """The attempts that were in more than one request."""
        requests: dict[tuple[str, str], set[str | None]] = defaultdict(set)
        for row in named:
            requests[row["record"], row["attempt"]].add(row["request"])
        return {attempt for attempt, found in requests.items() if len(found) > 1}

    def _resent(self, asked: Iterable[_Row]) -> set[str]:
        """The records that were in more than one request to one topic."""
        topics = {
            (row["record"], row["request"]): row["topic"] for row in reversed(list(asked))
        }  # a request's first line says it
        return {record for (record, _), n in Counter((record, topic) for (record, _), topic in topics.items()).items() if n > 1}

    def _aborted(self, asked: Iterable[_Row]) -> set[str]:
        bad = {name for name, outcome in self._outcomes.items() if outcome in {"aborted", "fenced"}}
        dead = _ids(row for row in self.stored if not row["visible"] and not _undecided(row))
        return dead | _ids(row for rows in (self.stored, asked) for row in rows if _transaction(row) in bad)

    def _resumed_past(self) -> set[str]:
        """Records that a program which started again went on past: past their log copy, or past their source position."""
        first: set[tuple[str | None, int]] = set()
        logs: dict[int, int] = {}
        cursor = -1
        for row in self.of(kinds.RESUMED):
            where = row["where"], row["partition"]
            if where not in first:
                first.add(where)
            elif row["partition"] >= 0:
                logs[row["partition"]] = max(row["position"], logs.get(row["partition"], -1))
            else:
                cursor = max(cursor, row["position"])
        past = _ids(row for row in self.stored if row["offset"] < logs.get(row["partition"], row["offset"]))
        return past | {record for record, row in self.offered.items() if row["position"] < cursor}

    def _replayed(self) -> set[str]:
        """Records that lay in batches of more than one incarnation."""
        ranges = list(self.of(kinds.BATCH))
        seen = {
            (row["record"], batch["by"]) for row in self.in_topic if row["visible"] for batch in ranges
            if batch["partition"] == row["partition"] and batch["offset"] <= row["offset"] < batch["position"]
        } if ranges else set()  # fmt: skip
        return {record for record, count in Counter(record for record, _ in seen).items() if count > 1}

    def _commit_signs(self) -> dict[Sign, set[str]]:
        """The signs of what a database was asked to commit."""
        commits = list(self.of(kinds.DATABASE_COMMIT))
        asked = _distinct((row for row in commits if row["outcome"] is None), "request")
        told = [row for row in commits if row["outcome"] is not None and row["reached"]]
        once = {record for record, count in asked.items() if count == 1}
        return {
            Sign.COMMITTED_AGAIN: _more_than(1, asked),
            Sign.NOT_REPEATED: once - _ids(told),
            Sign.DURABLE: once & _ids(row for row in told if row["outcome"] == "committed"),
        }

    def _flushed(self) -> set[str]:
        """Records of which a copy lay below the flushed offset of its partition when the power was lost."""
        points: dict[int, int] = {}
        for row in self.of(kinds.FLUSHED):
            points[row["partition"]] = max(row["offset"], points.get(row["partition"], -1))
        return _ids(row for row in self.in_topic if 0 <= row["offset"] < points.get(row["partition"], -1))

    def _replicated(self) -> set[str]:
        """Records that a follower had fetched before the first broker died."""
        deaths = [row["t"] for row in self.of(kinds.NODE) if row["phase"] == "exited" and row["role"] in BROKERS]
        if not deaths:
            return set()
        return _ids(row for row in self.of(kinds.REPLICATED) if row["reached"] and row["t"] < min(deaths))

    # --- transactions, phantoms, order -------------------------------------------------------------------------------

    @cached_property
    def _outcomes(self) -> dict[str, str | None]:
        """What the program was told of each transaction: the last word that is not "begun"."""
        told = list(self.of(kinds.TRANSACTION))
        begun = [row for row in told if row["outcome"] == "begun"]
        rest = (row for row in told if row["outcome"] != "begun")
        return {row["transaction"]: row["outcome"] for row in (*begun, *rest) if row["transaction"] is not None}

    @cached_property
    def _in_doubt(self) -> set[str]:
        """The transactions of whose end the broker has told the program nothing: its library may have said what it liked."""
        by = {row["transaction"]: row["told_by"] for row in self.of(kinds.TRANSACTION) if row["outcome"] != "begun"}
        return {
            name for name, outcome in self._outcomes.items()
            if outcome == "unknown" or (outcome != "begun" and by.get(name) == LIBRARY)
        }  # fmt: skip

    def _resurrected(self) -> int:
        """Copies a read-committed reader sees although they were aborted, or refused with no earlier unknown attempt."""
        undone = {name for name, outcome in self._outcomes.items() if outcome == "aborted"} - self._in_doubt
        doubts: dict[str, int] = {}
        for row in self.of(kinds.UNKNOWN):
            doubts.setdefault(row["record"], row["t"])
        clear = _attempts(row for row in self.of(kinds.REFUSED) if doubts.get(row["record"], row["t"]) >= row["t"])
        visible = (row for row in self.stored if row["visible"])
        return self.copies.count(row for row in visible if _transaction(row) in undone or _attempt(row) in clear)

    def _torn(self) -> int:
        """Transactions of which some attempts are visible and some are not."""
        if not self._outcomes:
            return 0
        logged = [row for row in self.stored if not _undecided(row)]
        waiting = _attempts(row for row in self.stored if _undecided(row)) - _attempts(logged)
        # what was never offered is a phantom, and part of nothing; what is gone, and was told by nothing else, may be the attempt
        known = self.offered.keys() - self.copies.untold
        told = [row for row in self.of(kinds.ACKED) if row["record"] in known and _attempt(row) not in waiting]
        seen: dict[tuple[str, str], bool] = {}
        within: dict[tuple[str, str], str | None] = {}
        for row, visible in (*((row, row["visible"]) for row in logged), *((row, False) for row in told)):
            attempt, transaction = _attempt(row), _transaction(row)
            if attempt is not None and transaction in self._outcomes:
                within.setdefault(attempt, transaction)
                seen[attempt] = visible or seen.get(attempt, False)
        spread: dict[str | None, set[bool]] = defaultdict(set)
        for attempt, visible in seen.items():
            spread[within[attempt]].add(visible)
        return sum(len(found) > 1 for found in spread.values())

    def _phantoms(self) -> int:
        """What is in sink or topic and was never offered, or is damaged; a copy that went on into the sink is counted there.

        What programs write beside their records (``foreign``) is no record at all.
        """
        in_sink = [row for row in self.of(kinds.RECORDED) if not self._known(row)]
        gone_on = {self.copies.of(row["place"]) for row in in_sink}
        strange = (row for row in self.of(kinds.STORED) if not self._known(row) and not row["foreign"])
        waiting = (row for row in strange if row["hop"] == Hop.TOPIC and self.copies.of(row["place"]) not in gone_on)
        folded = sum(times for record, times in self._contributions().items() if record not in self.offered)
        return len(in_sink) + folded + self.copies.count(waiting)

    def _reordered(self) -> int:
        """Records first recorded after a record of their key that stands later in the source."""
        highest: dict[str, int] = {}
        count = 0
        for record in dict.fromkeys(row["record"] for row in sorted(self.rows, key=lambda row: row["order"])):
            key, position = self.offered[record]["key"], self.offered[record]["position"]
            if key is not None:
                count += position < highest.get(key, position)
                highest[key] = max(position, highest.get(key, position))
        return count

    def counts(self) -> dict[str, int]:
        """One count per column of the report."""
        records = self.records
        states = Counter(records["state"])
        sums = records[
            ["acked", "refused", "unknown", "stored", "duplicated", "stored_twice", "delivered_twice", "absorbed"]
        ].sum()
        return {
            "offered": len(self.offered),
            **{name: int(sums[name]) for name in ("acked", "refused", "unknown", "stored")},
            "recorded": states[State.RECORDED],
            "lost": states[State.LOST],
            "set_aside": states[State.SET_ASIDE],
            **{name: int(sums[name]) for name in ("duplicated", "stored_twice", "delivered_twice", "absorbed")},
            "aborted": self.copies.count(row for row in self.stored if not row["visible"] and not _undecided(row)),
            "phantom": self._phantoms(),
            "resurrected": self._resurrected(),
            "torn": self._torn(),
            "in_doubt": len(self._in_doubt),
            "reordered": self._reordered(),
            "left": states[State.LEFT_IN_SOURCE] + states[State.LEFT_IN_TOPIC],
            "left_in_source": states[State.LEFT_IN_SOURCE],
            "left_in_topic": states[State.LEFT_IN_TOPIC],
            "stalled": states[State.STALLED],
        }


def _undecided(copy: _Row) -> bool:
    """Whether the end of a transaction is all that a copy waits for."""
    return copy["waiting"] in UNDECIDED


def _dtype(column: str) -> str:
    if column in {"record", "key", "state", "last_hop"}:
        return "object"
    return "bool" if column in {"acked", "refused", "unknown", "stored"} or column.startswith(_FLAG) else "int64"
