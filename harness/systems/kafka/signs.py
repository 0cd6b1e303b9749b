"""Signs of protection in histories of Kafka: by replicas, flushed disks, positions, transactions,
share groups.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from harness.judge.signs import RESUMED_PAST
from harness.model import events as kinds
from harness.model.events import FaultPhase, NodePhase, Outcome, RulePhase
from harness.model.places import Removal
from harness.model.scenario import BROKERS
from harness.model.sign import Sign
from harness.model.states import Hop
from harness.model.struck import first_at

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.model.history import History

REPLICATED: Final = Sign(
    "replicated", "a follower had fetched this record before the power was lost"
)
"""The follower fetched it before the first broker died; after a power loss, that broker had not
flushed the record.
"""
ALONE: Final = Sign("alone", "when its leader died, no follower had this record")
UNGOVERNED: Final = Sign("ungoverned", "this record was acknowledged while no controller lived")
FLUSHED: Final = Sign(
    "flushed", "when the power was lost, this record was below the flushed offset of its log"
)
FOUND: Final = Sign(
    "found", "a result of this record came from a partition that was added while the pipeline ran"
)
ASKED_AGAIN: Final = Sign(
    "asked-again", "the client repeated a request to add something to this record's transaction"
)
"""A request to add a partition, group or position to the transaction, of the API that the fault
struck, and that the broker had not refused. Requests of other APIs do not count: a client may
repeat them by itself.
"""
MARKED_AGAIN: Final = Sign(
    "marked-again", "the coordinator wrote the end marker of this record's transaction again"
)
WRITTEN_UNTOLD: Final = Sign(
    "written-untold",
    (
        "the share coordinator wrote down this record's acknowledgement, the broker got no answer, "
        "and no reader was given it again"
    ),
)
TAKEN_BEFORE: Final = Sign(
    "taken-before",
    (
        "the broker accepted this record's acknowledgement before the fault, and no reader was "
        "given it since"
    ),
)
WRITTEN_AGAIN: Final = Sign("written-again", "the broker wrote the state of this record again")


def kafka_signs(history: History) -> dict[Sign, set[str]]:
    """Return, for each sign of Kafka, the records that show it."""
    copies = [copy for copy in history.of(kinds.Stored) if copy.hop == Hop.TOPIC and copy.intact]
    flushed = _flushed(history, copies)
    added = {event.partition for event in history.of(kinds.Added)}
    struck = {event.api for event in history.of(kinds.Rule) if event.phase == RulePhase.HIT}
    return {
        ALONE: {event.record for event in history.of(kinds.Alone)},
        UNGOVERNED: {event.record for event in history.of(kinds.Ungoverned)},
        FLUSHED: flushed,
        # a record that the dead broker had flushed needed no follower
        REPLICATED: _replicated(history) - flushed,
        FOUND: {
            event.record
            for event in history.of(kinds.Recorded)
            if event.partition in added and event.record is not None
        },
        ASKED_AGAIN: {
            event.record for event in history.of(kinds.AskedAgain) if event.api in struck
        },
        MARKED_AGAIN: {event.record for event in history.of(kinds.MarkedAgain)},
        RESUMED_PAST: _resumed_past(history, copies),
    }


def _flushed(history: History, copies: Iterable[kinds.Stored]) -> set[str]:
    """Return the records with a copy below the flushed offset of its partition when the power was
    lost.
    """
    points: dict[int, int] = {}
    for event in history.of(kinds.Flushed):
        points[event.partition] = max(event.offset, points.get(event.partition, -1))
    return _below(points, copies)


def _replicated(history: History) -> set[str]:
    """Return the records that a follower had fetched before the first broker died."""
    deaths = [
        event.t
        for event in history.of(kinds.Node)
        if event.phase == NodePhase.EXITED and event.role in BROKERS
    ]
    if not deaths:
        return set()
    return {
        event.record
        for event in history.of(kinds.Replicated)
        if event.reached and event.t < min(deaths)
    }


def _resumed_past(history: History, copies: Iterable[kinds.Stored]) -> set[str]:
    """Return the records before the position at which a restarted program went on."""
    first: set[tuple[str, int]] = set()
    points: dict[int, int] = {}
    for event in history.of(kinds.Resumed):
        if event.partition is None:
            continue
        where = event.where, event.partition
        if where in first:
            points[event.partition] = max(event.position, points.get(event.partition, -1))
        first.add(where)
    return _below(points, copies)


def _below(points: dict[int, int], copies: Iterable[kinds.Stored]) -> set[str]:
    """Return the records of the copies that are below the offset which ``points`` has for their
    partition, if any.
    """
    placed = ((copy.record, copy.at) for copy in copies)
    return {
        record
        for record, at in placed
        if record is not None and at is not None and 0 <= at[1] < points.get(at[0], -1)
    }


def share_signs(history: History) -> dict[Sign, set[str]]:
    """Return, for each sign of a share group, the records that show it."""
    taken = [e for e in history.of(kinds.Acknowledged) if e.outcome == Outcome.TAKEN and e.reached]
    written = [
        e
        for e in history.of(kinds.ShareState)
        if e.outcome == Outcome.TAKEN and e.state == "acknowledged"
    ]
    fired = first_at(history, FaultPhase.FIRED) or 0
    requests: dict[tuple[str, str], set[str | None]] = defaultdict(set)
    for event in history.of(kinds.ShareState):
        requests[event.record, event.state].add(event.request)
    return {
        WRITTEN_UNTOLD: _for_good(history, {e.record: e.t for e in written if not e.reached}),
        TAKEN_BEFORE: _for_good(history, {e.record: e.t for e in taken if e.t < fired}),
        WRITTEN_AGAIN: {record for (record, _), found in requests.items() if len(found) > 1},
    }


def _for_good(history: History, taken: dict[str, int]) -> set[str]:
    """Return the records that are acknowledged at the end, and that no reader was given after the
    acknowledgement.
    """
    since = {e.record for e in history.of(kinds.Fetched) if e.t > taken.get(e.record, e.t)}
    return {
        e.record
        for e in history.of(kinds.Removed)
        if e.why == Removal.ACK and e.record is not None and e.record in taken
    } - since
