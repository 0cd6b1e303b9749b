"""Events of the authorities, which an observer writes when the system is at rest."""

from __future__ import annotations

from harness.model.events.base import Event, OfCopy
from harness.model.places import Removal, Waiting
from harness.model.states import Hop


class Offered(Event, frozen=True, kw_only=True):
    """One line per record of the source."""

    record: str
    key: str | None = None
    position: int
    topic: str | None = None
    """In which topic, if several are offered records."""


class Removed(OfCopy, frozen=True, kw_only=True):
    """One line per copy that the broker has taken away.

    Of a log it also has the copy as the observer read it before the broker removed it.

    Older histories write the event ``deleted`` for a copy that retention removed.
    """

    place: str | None = None
    record: str | None
    why: Removal
    topic: str | None = None
    """Only of a log."""
    visible: bool = True
    later: str | None = None
    """Of a copy that compaction took: the place of the last copy of its key, which was there then.
    One that the load offers with another key is none.
    """
    passed: bool = False
    """Of such a copy: when the log was compacted, its reader had been given it, or something behind
    it, or had saved a position behind it.
    """


class Moved(Event, frozen=True, kw_only=True):
    """The broker, or a client's library, has moved a copy to another place (dead letters, a topic
    for later attempts, another server).

    It is one copy, not two. Another line about ``to`` says what became of it: stored there, removed
    from there, or moved on.
    """

    place: str | None
    to: str | None
    record: str | None
    why: Removal | None = None
    """Null: the broker does not say it."""


class Cursor(Event, frozen=True, kw_only=True):
    """The next position that the producer would take from the source; records from it on are left
    in source.
    """

    position: int
    where: str | None = None


class Stored(OfCopy, frozen=True, kw_only=True):
    """One line per copy that a broker has, or is known to have had. Of a log every offset must have
    its line, or the log was not read whole.
    """

    hop: Hop
    """``topic`` (a topic or queue between producer and consumer), ``sink`` (a log that is the sink)
    or ``aside`` (dead letters).
    """
    place: str | None = None
    """See :mod:`harness.model.places`."""
    waiting: Waiting | None = None
    """See :mod:`harness.model.places`."""
    record: str | None
    """Null if the payload is not one of lostack's."""
    key: str | None = None
    intact: bool
    visible: bool
    """The copy is committed; in a log, a read-committed reader sees it."""
    attempt: str | None = None
    foreign: bool = False
    """True if such a payload is no error, because programs may write other things beside their
    records. A waiting part of a message that is incomplete has a line of its own, which is foreign.
    """
    topic: str | None = None
    """Only of a log."""
    producer_id: int | None = None
    """Only of a log."""
    queue: str | None = None
    """Only of a queue: its name."""
    text: str | None = None
    """For a declared pipeline: the beginning of a payload that was never offered."""
    parts: int = 1
    """In how many parts the broker keeps the message."""
    counts: int = 1
    """As how many messages the broker counts it while it waits."""


class Log(Event, frozen=True, kw_only=True):
    """Offsets at rest. One line for every partition of every log of the plan.

    The copies in a topic that keeps the source's cursor have no lines.
    """

    hop: Hop
    topic: str
    partition: int
    start: int
    stable: int
    end: int
    last_data: int
    """The last visible copy, or -1."""


class Counted(Event, frozen=True, kw_only=True):
    """How many messages the broker itself counts in a queue at rest. No message is in two of these
    counts.

    One line for every queue of the pipeline, dead letters and later attempts included.
    """

    hop: Hop
    queue: str
    ready: int
    """Waiting for a consumer."""
    in_flight: int
    """With a consumer that has not acknowledged them."""
    scheduled: int
    """Scheduled for later."""


class Settled(Event, frozen=True, kw_only=True):
    """How many transactions of other connections were open, or prepared, when the observer read the
    database. Only of a database server.
    """

    open: int


class Position(Event, frozen=True, kw_only=True):
    """The position saved by the consuming side, wherever its semantic keeps it (-1: none)."""

    partition: int
    offset: int
    where: str
    topic: str | None = None
    """Of which topic, if several are offered records."""


class Recorded(OfCopy, frozen=True, kw_only=True):
    """One line per row of the sink.

    Rows of a record without a ``place`` count as one copy that was delivered again. So where a sink
    does not name the copy, the observer matches the n-th row of a record with its n-th copy.
    """

    record: str | None
    key: str | None = None
    intact: bool
    order: int
    place: str | None = None
    """That of the copy from which the row was made."""
    topic: str | None = None
    """That of the place, if several are offered records."""
    attempt: str | None = None
    text: str | None = None
    """As in ``stored``."""


class Folded(Event, frozen=True, kw_only=True):
    """How often a record is included in one version of a key's value, if the sink holds aggregated
    values instead of records.

    The highest version of a value counts. If one version has two lines about a record, the later
    line counts; so no two values of a key may share a version number.
    """

    key: str | None
    version: int
    record: str | None
    times: int
    text: str | None = None
    """As in ``stored``."""


class Total(Event, frozen=True, kw_only=True):
    """A total in a declared pipeline's output differs from the total of its key's records.

    At least ``missing`` records were not counted, or ``extra`` were counted again, but the total
    does not say which. Each record also has a ``folded`` line, with ``times`` 1.
    """

    key: str
    """Empty if one total covers all records."""
    expected: int
    found: int
    missing: int
    extra: int
    alone: str | None = None
    """The one record that would explain the difference by itself, or null."""


class Invariant(Event, frozen=True, kw_only=True):
    """A declared pipeline's own check of its results."""

    asked: str
    """The query."""
    equals: str
    """The value that it must return."""
    found: str
    """The value that it returned."""
    holds: bool
    """Whether they agree."""


class OutputRead(Event, frozen=True, kw_only=True):
    """A declared pipeline's output was read at this moment, before its results were written down
    here.
    """

    asked: str
    """What the declaration reads the output by: a query, a command, files or a topic."""
    rows: int
    """How many rows there were, those included that are no results."""


class Unnamed(Event, frozen=True, kw_only=True):
    """How many rows of a declared pipeline's output have no id. Such rows do not count as
    results.
    """

    count: int
    text: str
    """The beginning of the first of them."""


class Unfilled(Event, frozen=True, kw_only=True):
    """How many rows of a declared pipeline's output are empty in columns in which no row was empty
    without a fault.

    Such rows do not count as results. Their records have no other row.
    """

    count: int
    text: str
    """The beginning of the first of them."""
    columns: tuple[int, ...]
    """From 1."""


class Absorbed(OfCopy, frozen=True, kw_only=True):
    """A copy that reached the sink and was rightly not recorded."""

    record: str | None
    place: str | None = None
