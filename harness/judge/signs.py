"""Signs that a protection worked. Without one, a count of zero proves nothing.

This module has the signs that any messaging system can show. A sign that only one system, service
or fault can show is defined with that one. It reaches the judge through
:class:`~harness.judge.proof.Knowledge`, which may also add records to the signs here.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self

from harness.judge.rows import attempt_of, counted, ids, transaction_of, undecided
from harness.judge.transactions import outcomes
from harness.model import events as kinds
from harness.model.events import Outcome, TransactionOutcome
from harness.model.places import Removal
from harness.model.sign import Sign

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from collections.abc import Set as AbstractSet

    from harness.judge.row import Row
    from harness.judge.rows import Rows


REPEATED_REQUEST: Final = Sign(
    "repeated-request",
    "the client sent the request of this record again, and the wire saw the same attempt twice",
)
TAKEN_AGAIN: Final = Sign(
    "taken-again", "a restarted program took this record from the source again"
)
SENT_ANEW: Final = Sign(
    "sent-anew",
    (
        "one and the same program sent this record again as a new attempt, because its client had "
        "given up"
    ),
)
ABORTED: Final = Sign("aborted", "a transaction with this record was aborted or fenced")
DELIVERED_AGAIN: Final = Sign(
    "delivered-again", "this record was delivered, or fetched, more than once"
)
ABSORBED: Final = Sign(
    "absorbed", "a second copy of this record reached the sink and was not recorded"
)
NOT_RESENT: Final = Sign(
    "not-resent", "no program knew the fate of this record, and none sent it a second time"
)
RESUMED_PAST: Final = Sign(
    "resumed-past", "a restarted program went on from a position past this record"
)
"""A program resumed past the record in the source. A system adds records past other positions, as
those in a log.
"""
ENDED_AGAIN: Final = Sign(
    "ended-again", "the client asked for the end of this record's transaction again"
)
END_REFUSED: Final = Sign(
    "end-refused", "the broker refused a request to end this record's transaction"
)
"""The request came late, or from a fenced producer."""
NOT_GIVEN_AGAIN: Final = Sign(
    "not-given-again",
    (
        "the broker accepted this record's acknowledgement, its consumer never learnt so, and no "
        "consumer was given the record again"
    ),
)
"""A broker that forgets acknowledged messages did not give the record again."""


@dataclass(frozen=True, slots=True)
class Signs:
    """Which records show which sign. A sign that no record shows has an empty set."""

    seen: Mapping[Sign, AbstractSet[str]] = field(default_factory=dict)

    @classmethod
    def merged(cls, told: Iterable[Mapping[Sign, AbstractSet[str]]]) -> Self:
        """Return one object with the signs of several sources."""
        seen: dict[Sign, AbstractSet[str]] = {}
        for each in told:
            for sign, records in each.items():
                seen[sign] = seen.get(sign, frozenset()) | records
        return cls(seen)

    def of(self, record: str) -> frozenset[Sign]:
        """Return the signs that a record shows."""
        return frozenset(sign for sign, records in self.seen.items() if record in records)

    def named(self, name: str) -> Sign | None:
        """Return the sign of this name, or ``None`` if there is none."""
        return next((sign for sign in self.seen if sign == name), None)


def common_signs(rows: Rows) -> dict[Sign, set[str]]:
    """Return the records that show each sign of any messaging system."""
    asked = list(rows.of(kinds.Sent, kinds.Unsent))
    attempts = [row for row in asked if row.attempt is not None]
    by_program = {
        (row.record, row.attempt.split(".")[0], row.attempt)
        for row in asked
        if row.attempt is not None and row.record is not None
    }
    fetched = list(rows.of(kinds.Fetched))
    reached = {(row.record, row.topic) for row in fetched if row.reached}
    endings = list(rows.of(kinds.Ending))
    return {
        REPEATED_REQUEST: _repeated(attempts),
        TAKEN_AGAIN: repeated((row.record, row.by) for row in rows.of(kinds.Taken)),
        SENT_ANEW: {
            record for (record, _), n in Counter(found[:2] for found in by_program).items() if n > 1
        },
        ABORTED: _aborted(rows, asked),
        DELIVERED_AGAIN: {
            record for record, n in counted(rows.of(kinds.Delivered)).items() if n > 1
        }
        | ids(row for row in fetched if not row.reached and (row.record, row.topic) in reached)
        | ids(row for row in fetched if row.reached and row.redelivered),
        ABSORBED: ids(rows.of(kinds.Absorbed)),
        NOT_RESENT: rows.unknown(near=False) - _resent(asked),
        RESUMED_PAST: _resumed_past(rows),
        ENDED_AGAIN: repeated((row.record, row.request) for row in endings if row.outcome is None),
        END_REFUSED: ids(row for row in endings if row.outcome == Outcome.REFUSED),
        NOT_GIVEN_AGAIN: _not_given_again(rows, fetched),
    }


def repeated(told: Iterable[tuple[str | None, str | None]]) -> set[str]:
    """Return the records (the first of each pair) that are told with more than one value."""
    found = Counter(record for record, _ in set(told))
    return {record for record, count in found.items() if record is not None and count > 1}


def _repeated(attempts: Iterable[Row]) -> set[str]:
    """Return the records of which one attempt was in more than one request."""
    requests: dict[tuple[str, str] | None, set[str | None]] = defaultdict(set)
    for row in attempts:
        requests[attempt_of(row)].add(row.request)
    return {
        attempt[0] for attempt, found in requests.items() if attempt is not None and len(found) > 1
    }


def _resent(asked: Iterable[Row]) -> set[str]:
    """The records that were in more than one request to one topic."""
    topics = {
        (row.record, row.request): row.topic
        for row in reversed(list(asked))
        if row.record is not None
    }  # a request's first line says it
    return {
        record
        for (record, _), n in Counter(
            (record, topic) for (record, _), topic in topics.items()
        ).items()
        if n > 1
    }


def _aborted(rows: Rows, asked: Iterable[Row]) -> set[str]:
    bad = {
        name
        for name, outcome in outcomes(rows).items()
        if outcome in {TransactionOutcome.ABORTED, TransactionOutcome.FENCED}
    }
    dead = ids(row for row in rows.stored if not row.visible and not undecided(row))
    return dead | ids(row for row in (*rows.stored, *asked) if transaction_of(row) in bad)


def _not_given_again(rows: Rows, fetched: Iterable[Row]) -> set[str]:
    unheard = ids(
        row
        for row in rows.of(kinds.Acknowledged, kinds.Ending)
        if row.outcome == Outcome.TAKEN and not row.reached
    )
    removed = ids(row for row in rows.of(kinds.Removed) if row.why == Removal.ACK)
    given = counted(row for row in fetched if row.reached)
    return {record for record in unheard & removed if given[record] == 1}


def _resumed_past(rows: Rows) -> set[str]:
    """Return the records that a restarted program went on past, in the source."""
    first: set[str | None] = set()
    cursor = -1
    for row in rows.of(kinds.Resumed):
        if row.where in first:
            cursor = max(cursor, row.position)
        first.add(row.where)
    return {record for record, row in rows.offered.items() if row.position < cursor}
