"""Signs that only the history of a job shows, and the records that shared an interval between checkpoints with the target."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from harness.model import events as kinds
from harness.model.places import of_log
from harness.model.prediction import Select
from harness.model.sign import Sign
from harness.model.states import Hop

if TYPE_CHECKING:
    from harness.model.history import Event, History

ROLLED_BACK: Final = Sign(
    "rolled-back", "the job was restored from a checkpoint before this record, and was given it again with the state of then"
)
SINCE_CHECKPOINT: Final = Select("since-checkpoint")
"""The target, and the records before it that came after the last checkpoint that was complete before them."""


def flink_signs(history: History) -> dict[Sign, set[str]]:
    """Return the records that a restored attempt was given again."""
    given: dict[str, set[str]] = defaultdict(set)
    restored = {event["by"] for event in history.of(kinds.RESUMED) if event.get("where") == "job" and event["batch"] > 0}
    for event in history.of(kinds.DELIVERED) if restored else ():
        given[event["record"]].add(event["by"])
    return {ROLLED_BACK: {record for record, by in given.items() if len(by) > 1 and by & restored}}


def checkpoint_selections(history: History, target: str) -> dict[Select, frozenset[str]]:
    """Return what came after the last snapshot before the target, up to the target, in the order of the source."""
    given = [event for event in history.of(kinds.DELIVERED) if event["record"] == target]
    snapshots = [e for e in history.of(kinds.BATCH) if e.get("phase") == "snapshot" and given and e["t"] < given[0]["t"]]
    if not snapshots:
        return {}
    last = snapshots[-1]
    held = {e["partition"]: e["position"] for e in snapshots if (e["by"], e["batch"]) == (last["by"], last["batch"])}
    offered = {event["record"]: event["position"] for event in history.of(kinds.OFFERED)}
    return {
        SINCE_CHECKPOINT: frozenset(
            copy["record"] for copy in history.of(kinds.STORED)
            if _in_source(copy) and copy["offset"] >= held.get(copy["partition"], 0)
            and offered.get(copy["record"], 0) <= offered.get(target, -1) and copy["record"] in offered
        )
    }  # fmt: skip


def _in_source(copy: Event) -> bool:
    return bool(copy["hop"] == Hop.TOPIC and copy["visible"] and of_log(copy))
