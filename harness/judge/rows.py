"""The rows of one cell: the events that the counting rules read, by kind, with every field present.

The rules use places only: the numbers of a log are not among the fields.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

from harness.judge.copies import Copies
from harness.judge.readers import Readers
from harness.judge.row import Row
from harness.model import events as kinds
from harness.model.places import MOVABLE, UNDECIDED, of_log
from harness.model.states import Hop

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from harness.model.events import Event

READ: Final = frozenset(
    {
        kinds.Offered,
        kinds.Cursor,
        kinds.Stored,
        kinds.Log,
        kinds.Recorded,
        kinds.Absorbed,
        kinds.Resumed,
        kinds.Taken,
        kinds.Acked,
        kinds.Refused,
        kinds.Unknown,
        kinds.Delivered,
        kinds.Transaction,
        kinds.Sent,
        kinds.Unsent,
        kinds.Fetched,
        kinds.Removed,
        kinds.Moved,
        kinds.Folded,
        kinds.Total,
        kinds.Ending,
        kinds.Acknowledged,
    }
)
"""The kinds of events that the rules read; a history has many more. Of ``resumed`` only positions
in the source count.
"""
_SHARED: Final = {
    kind: tuple(name for name in Row.__struct_fields__ if name in kind.__struct_fields__)
    for kind in READ
}
"""The fields of each kind that the rules read."""


class Rows:
    """The rows of one cell in order of time, and selections of those about offered records.

    ``offered``: by record, its line. ``stored``: every copy of an offered record that a broker has,
    or is known to have had; ``in_topic``: those between producer and consumer. ``results``: every
    row of the sink that is of an offered record. ``aside``: how many copies of each record are dead
    letters. ``readers``: what the readers were given. ``read_aborted``: how many aborted copies of
    offered records were given away all the same. ``events``: all events.
    """

    def __init__(self, events: Iterable[Event]) -> None:
        events = tuple(events)
        self.readers = Readers(events)
        self.read_aborted = len(self.readers.read_aborted())
        self.events = events
        self._of: dict[type[Event], list[Row]] = defaultdict(list)
        for event in sorted(filter(_is_read, events), key=lambda event: event.t):
            self._of[type(event)].append(_row(event))
        self.offered: dict[str, Row] = {}
        for row in self._of[kinds.Offered]:
            if row.record is not None:
                self.offered.setdefault(row.record, row)
        self._sinks = {row.topic for row in self._of[kinds.Log] if row.hop == Hop.SINK}
        self.stored = [row for row in self._of[kinds.Stored] if self.knows(row)]
        self.results = [row for row in self._of[kinds.Recorded] if self.knows(row)]
        self.in_topic = [row for row in self.stored if row.hop == Hop.TOPIC]
        self.aside = counted(row for row in self.stored if row.hop == Hop.ASIDE)
        self.copies = Copies(self._of[kinds.Stored], self._of[kinds.Removed], self._of[kinds.Moved])

    @property
    def resting(self) -> Iterator[Row]:
        """The dead letters that are still there, and that no reader of the pipeline has taken."""
        return (
            row
            for row in self.stored
            if row.hop == Hop.ASIDE and row.waiting in MOVABLE and not self.copies.gone(row)
        )

    def of(self, *of: type[Event]) -> Iterator[Row]:
        """Return the rows of these kinds."""
        return (row for kind in of for row in self._of.get(kind, ()))

    def near(self, *of: type[Event]) -> Iterator[Row]:
        """Return the rows of these kinds that are not about the sink. If the sink is a log, it has
        sends of its own.
        """
        return (
            row
            for row in self.of(*of)
            if row.hop != Hop.SINK and (not self._sinks or row.topic not in self._sinks)
        )

    def knows(self, row: Row) -> bool:
        """Say whether a row is intact and about an offered record."""
        return bool(row.intact) and row.record in self.offered

    def unknown(self, *, near: bool) -> set[str]:
        """Return the records with an attempt of unknown outcome. ``near``: leave out a sink that is
        a log.
        """
        rows_of = self.near if near else self.of
        told = list(rows_of(kinds.Acked, kinds.Refused))
        records, attempts = ids(told), attempts_of(told)
        return {
            row.record
            for row in rows_of(kinds.Sent, kinds.Unknown)
            if row.record is not None
            and (
                attempt_of(row) not in attempts
                if row.attempt is not None
                else row.record not in records
            )
        }


def _is_read(event: Event) -> bool:
    return type(event) in READ and not (isinstance(event, kinds.Resumed) and of_log(event))


def _row(event: Event) -> Row:
    said = ((name, getattr(event, name)) for name in _SHARED[type(event)])
    return Row(**{name: value for name, value in said if value is not None})


def transaction_of(row: Row) -> str | None:
    """Return the transaction of a row: its own field, or the first two words of its attempt;
    ``None`` if it has neither.

    >>> transaction_of(Row(attempt="producer-1.3.12"))
    'producer-1.3'
    """
    if row.transaction or row.attempt is None:
        return row.transaction or None
    return ".".join(row.attempt.split(".")[:2])


def attempt_of(row: Row) -> tuple[str, str] | None:
    """Return the key of a row's attempt (record, attempt), or ``None`` if the row lacks one of the
    two.
    """
    return None if row.attempt is None or row.record is None else (row.record, row.attempt)


def attempts_of(rows: Iterable[Row]) -> set[tuple[str, str] | None]:
    """Return the keys of the attempts that these rows are about."""
    return {attempt_of(row) for row in rows} - {None}


def undecided(copy: Row) -> bool:
    """Say whether a copy waits only for the end of a transaction."""
    return copy.waiting in UNDECIDED


def ids(rows: Iterable[Row]) -> set[str]:
    """Return the ids of the records that these rows are about."""
    return {row.record for row in rows if row.record is not None}


def counted(rows: Iterable[Row]) -> Counter[str]:
    """Return how many of these rows are about each record."""
    return Counter(row.record for row in rows if row.record is not None)
