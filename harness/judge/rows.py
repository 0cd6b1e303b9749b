"""The rows of one cell: the events that the counting rules read, by kind, with every field present.

The rules use places only: the numbers of a log are not among the fields.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, TypeAlias

from harness.judge.copies import Copies
from harness.model import events as kinds
from harness.model.places import LOG_NUMBERS, UNDECIDED, of_log, placed
from harness.model.states import Hop

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from harness.model.history import Event

Row: TypeAlias = "dict[str, Any]"

FIELDS: dict[str, type] = {
    "t": int,
    "event": str,
    "record": str,
    "key": str,
    "position": int,
    "hop": str,
    "topic": str,
    "attempt": str,
    "intact": bool,
    "visible": bool,
    "order": int,
    "reached": bool,
    "outcome": str,
    "transaction": str,
    "request": str,
    "where": str,
    "by": str,
    "foreign": bool,
    "place": str,
    "waiting": str,
    "why": str,
    "to": str,
    "told_by": str,
    "version": int,
    "times": int,
    "redelivered": bool,
    "missing": int,
    "extra": int,
    "expected": int,
    "found": int,
    "alone": str,
}
"""The fields that the rules read. A missing number is -1, a missing flag false, a missing text
null.
"""
_MISSING: dict[type, Any] = {int: -1, bool: False, str: None}
_EMPTY = {name: _MISSING[kind] for name, kind in FIELDS.items()}
_SAID_OF = {kinds.REMOVED: {"visible": True}}
"""Defaults of fields that an event does not have. A removed message of a queue, for one, had been
visible.
"""

READ = frozenset(
    {
        kinds.OFFERED,
        kinds.CURSOR,
        kinds.STORED,
        kinds.LOG,
        kinds.RECORDED,
        kinds.ABSORBED,
        kinds.RESUMED,
        kinds.TAKEN,
        kinds.ACKED,
        kinds.REFUSED,
        kinds.UNKNOWN,
        kinds.DELIVERED,
        kinds.TRANSACTION,
        kinds.SENT,
        kinds.UNSENT,
        kinds.FETCHED,
        kinds.REMOVED,
        kinds.MOVED,
        kinds.FOLDED,
        kinds.TOTAL,
        kinds.ENDING,
        kinds.ACKNOWLEDGED,
    }
)
"""The kinds of events that the rules read; a history has many more. Of ``resumed`` only positions
in the source count.
"""


class Rows:
    """The rows of one cell in order of time, and selections of those about offered records.

    ``offered``: by record, its line. ``stored``: every copy of an offered record that a broker has,
    or is known to have had; ``in_topic``: those between producer and consumer. ``results``: every
    row of the sink that is of an offered record. ``aside``: how many copies of each record are dead
    letters.

    Raises:
        TypeError: a field has a value of a wrong type.
    """

    def __init__(self, events: Iterable[Event]) -> None:
        self._of: dict[str, list[Row]] = defaultdict(list)
        events = placed(events)
        for event in filter(of_log, events):
            _said(event, LOG_NUMBERS)
        for row in sorted(
            (_row(event) for event in events if _is_read(event)), key=lambda row: row["t"]
        ):
            self._of[row["event"]].append(row)
        self.offered: dict[str, Row] = {}
        for row in self._of[kinds.OFFERED]:
            if row["record"] is not None:
                self.offered.setdefault(row["record"], row)
        self._sinks = {row["topic"] for row in self._of[kinds.LOG] if row["hop"] == Hop.SINK}
        self.stored = [row for row in self._of[kinds.STORED] if self.knows(row)]
        self.results = [row for row in self._of[kinds.RECORDED] if self.knows(row)]
        self.in_topic = [row for row in self.stored if row["hop"] == Hop.TOPIC]
        self.aside = counted(row for row in self.stored if row["hop"] == Hop.ASIDE)
        self.copies = Copies(self._of[kinds.STORED], self._of[kinds.REMOVED], self._of[kinds.MOVED])

    def of(self, *names: str) -> Iterator[Row]:
        """Return the rows of these kinds."""
        return (row for name in names for row in self._of.get(name, ()))

    def near(self, *names: str) -> Iterator[Row]:
        """Return the rows of these kinds that are not about the sink. If the sink is a log, it has
        sends of its own.
        """
        return (
            row
            for row in self.of(*names)
            if row["hop"] != Hop.SINK and (not self._sinks or row["topic"] not in self._sinks)
        )

    def knows(self, row: Row) -> bool:
        """Say whether a row is intact and about an offered record."""
        return bool(row["intact"]) and row["record"] in self.offered

    def unknown(self, *, near: bool) -> set[str]:
        """Return the records with an attempt of unknown outcome. ``near``: leave out a sink that is
        a log.
        """
        rows_of = self.near if near else self.of
        told = list(rows_of(kinds.ACKED, kinds.REFUSED))
        records, attempts = ids(told), attempts_of(told)
        return {
            row["record"]
            for row in rows_of(kinds.SENT, kinds.UNKNOWN)
            if (
                attempt_of(row) not in attempts
                if row["attempt"] is not None
                else row["record"] not in records
            )
        }


def _is_read(event: Event) -> bool:
    return event["event"] in READ and (event["event"] != kinds.RESUMED or not of_log(event))


def _row(event: Event) -> Row:
    return _EMPTY | _SAID_OF.get(event["event"], {}) | _said(event, FIELDS)


def _said(event: Event, fields: Mapping[str, type]) -> Row:
    """Return what an event says of these fields.

    Raises:
        TypeError: a field has a value of a wrong type.
    """
    said = {name: value for name, value in event.items() if name in fields and value is not None}
    for name, value in said.items():
        if type(value) is not fields[name]:
            raise TypeError(
                f"the field {name} of an event {event['event']} has a value of a wrong type: "
                f"{value!r:.60}"
            )
    return said


def transaction_of(row: Row) -> str | None:
    """Return the transaction of a row: its own field, or the first two words of its attempt;
    ``None`` if it has neither.

    >>> transaction_of({"transaction": None, "attempt": "producer-1.3.12"})
    'producer-1.3'
    """
    if row["transaction"] or row["attempt"] is None:
        return row["transaction"] or None
    return ".".join(row["attempt"].split(".")[:2])


def attempt_of(row: Row) -> tuple[str, str] | None:
    """Return the key of a row's attempt (record, attempt), or ``None`` if the row lacks one of the
    two.
    """
    return (
        None if row["attempt"] is None or row["record"] is None else (row["record"], row["attempt"])
    )


def attempts_of(rows: Iterable[Row]) -> set[tuple[str, str] | None]:
    """Return the keys of the attempts that these rows are about."""
    return {attempt_of(row) for row in rows} - {None}


def undecided(copy: Row) -> bool:
    """Say whether a copy waits only for the end of a transaction."""
    return copy["waiting"] in UNDECIDED


def ids(rows: Iterable[Row]) -> set[str]:
    """Return the ids of the records that these rows are about."""
    return {row["record"] for row in rows}


def counted(rows: Iterable[Row]) -> Counter[str]:
    """Return how many of these rows are about each record."""
    return Counter(row["record"] for row in rows)
