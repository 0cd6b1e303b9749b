"""Signs that only the history of a Kafka shows: replicas, disks, positions in its log, transactions, share groups."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from harness.judge.signs import RESUMED_PAST
from harness.model import events as kinds
from harness.model.places import Removal, of_log
from harness.model.scenario import BROKERS
from harness.model.sign import Sign
from harness.model.states import Hop

if TYPE_CHECKING:
    from harness.model.history import Event, History

REPLICATED: Final = Sign("replicated", "a follower had fetched this record before the power was lost")
"""Before a broker died; where one lost its power, it had not flushed the record."""
ALONE: Final = Sign("alone", "when its leader died, no follower had this record")
UNGOVERNED: Final = Sign("ungoverned", "this record was acknowledged while no controller lived")
FLUSHED: Final = Sign("flushed", "when the power was lost, this record lay below the flushed offset of its log")
FOUND: Final = Sign("found", "a result of this record came from a partition that the topic got while the pipeline ran")
ASKED_AGAIN: Final = Sign("asked-again", "the client asked again that something be part of this record's transaction")
"""That a partition, a group or a position takes part in it (whichever of them the fault was about: a client may ask for another
twice on its own account), and the broker had not refused it."""
MARKED_AGAIN: Final = Sign("marked-again", "the coordinator had the end of this record's transaction written again")
WRITTEN_UNTOLD: Final = Sign(
    "written-untold",
    "that this record was acknowledged was written down, the broker was not told, and nobody was given it again",
)
TAKEN_BEFORE: Final = Sign(
    "taken-before", "the broker had taken the acknowledgement of this record before the fault, and nobody was given it since"
)
WRITTEN_AGAIN: Final = Sign("written-again", "the broker had the state of this record written down again")


def kafka_signs(history: History) -> dict[Sign, set[str]]:
    """Return the records that show each sign of a Kafka, or have been passed in its log."""
    copies = [copy for copy in history.of(kinds.STORED) if copy["hop"] == Hop.TOPIC and copy.get("intact") and of_log(copy)]
    flushed = _flushed(history, copies)
    added = {event["partition"] for event in history.of(kinds.ADDED)}
    struck = {event.get("api") for event in history.of(kinds.RULE) if event.get("phase") == "hit"}
    return {
        ALONE: {event["record"] for event in history.of(kinds.ALONE)},
        UNGOVERNED: {event["record"] for event in history.of(kinds.UNGOVERNED)},
        FLUSHED: flushed,
        # what the dead broker had flushed it still has: then no follower was needed
        REPLICATED: _replicated(history) - flushed,
        FOUND: {event["record"] for event in history.of(kinds.RECORDED) if event.get("partition") in added},
        ASKED_AGAIN: {event["record"] for event in history.of(kinds.ASKED_AGAIN) if event.get("api") in struck},
        MARKED_AGAIN: {event["record"] for event in history.of(kinds.MARKED_AGAIN)},
        RESUMED_PAST: _resumed_past(history, copies),
    }


def _flushed(history: History, copies: list[Event]) -> set[str]:
    """Records of which a copy lay below the flushed offset of its partition when the power was lost."""
    points: dict[int, int] = {}
    for event in history.of(kinds.FLUSHED):
        points[event["partition"]] = max(event["offset"], points.get(event["partition"], -1))
    return {copy["record"] for copy in copies if _below(points, copy)}


def _replicated(history: History) -> set[str]:
    """Records that a follower had fetched before the first broker died."""
    deaths = [event["t"] for event in history.of(kinds.NODE) if event["phase"] == "exited" and event["role"] in BROKERS]
    if not deaths:
        return set()
    return {event["record"] for event in history.of(kinds.REPLICATED) if event["reached"] and event["t"] < min(deaths)}


def _resumed_past(history: History, copies: list[Event]) -> set[str]:
    """Records that a program which started again went on past, in the log."""
    first: set[tuple[str, int]] = set()
    points: dict[int, int] = {}
    for event in history.of(kinds.RESUMED):
        if not of_log(event):
            continue
        where = event["where"], event["partition"]
        if where in first:
            points[event["partition"]] = max(event["position"], points.get(event["partition"], -1))
        first.add(where)
    return {copy["record"] for copy in copies if _below(points, copy)}


def _below(points: dict[int, int], copy: Event) -> bool:
    """Whether a copy is below the offset that is told of its partition, if any is."""
    return bool(0 <= copy["offset"] < points.get(copy["partition"], -1))


def share_signs(history: History) -> dict[Sign, set[str]]:
    """Return the records that show each sign of a share group."""
    taken = [e for e in history.of(kinds.ACKNOWLEDGED) if e["outcome"] == "taken" and e["reached"]]
    written = [e for e in history.of(kinds.SHARE_STATE) if e["outcome"] == "taken" and e["state"] == "acknowledged"]
    fired = next((e["t"] for e in history.of(kinds.FAULT) if e.get("phase") == "fired"), 0)
    requests: dict[tuple[str, str], set[str]] = defaultdict(set)
    for event in history.of(kinds.SHARE_STATE):
        requests[event["record"], event["state"]].add(event["request"])
    return {
        WRITTEN_UNTOLD: _for_good(history, {e["record"]: e["t"] for e in written if not e["reached"]}),
        TAKEN_BEFORE: _for_good(history, {e["record"]: e["t"] for e in taken if e["t"] < fired}),
        WRITTEN_AGAIN: {record for (record, _), found in requests.items() if len(found) > 1},
    }


def _for_good(history: History, taken: dict[str, int]) -> set[str]:
    """Return those that are acknowledged at the end, and that nobody was given since that was taken."""
    since = {e["record"] for e in history.of(kinds.FETCHED) if e["t"] > taken.get(e["record"], e["t"])}
    return {e["record"] for e in history.of(kinds.REMOVED) if e["why"] == Removal.ACK and e["record"] in taken} - since
