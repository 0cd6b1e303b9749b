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

INPUTS: Final = 2
"""How many a job has of which one stands still."""
ROLLED_BACK: Final = Sign(
    "rolled-back", "the job was restored from a checkpoint before this record, and was given it again with the state of then"
)
SINCE_CHECKPOINT: Final = Select("since-checkpoint")
"""The target, and the records before it that came after the last checkpoint that was complete before them."""
COMMITTED_SINCE: Final = Select("committed-since")
"""What came between the checkpoint with which the job was submitted again and the last one that was complete."""
AND_BESIDE: Final = Select("since-checkpoint-and-beside")
"""Those, and what the inputs that did not stand still had behind the target."""


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
    since = frozenset(
        copy["record"] for copy in history.of(kinds.STORED)
        if _in_source(copy) and copy["offset"] >= held.get(copy["partition"], 0)
        and offered.get(copy["record"], 0) <= offered.get(target, -1) and copy["record"] in offered
    )  # fmt: skip
    beside = beside_stand(history)
    return {SINCE_CHECKPOINT: since} | ({AND_BESIDE: since | beside} if beside else {}) | _committed_since(history)


def _committed_since(history: History) -> dict[Select, frozenset[str]]:
    restored = [event["batch"] for event in history.of(kinds.RESUMED) if event.get("where") == "job" and event["batch"] > 0]
    complete = [e["number"] for e in history.of(kinds.FAULT) if e.get("phase") == "checkpoint" and e["status"] == "COMPLETED"]
    if not restored or not complete:
        return {}
    begins, ends = (_positions(history, number) for number in (restored[0], max(complete)))
    return {
        COMMITTED_SINCE: frozenset(
            copy["record"] for copy in history.of(kinds.STORED)
            if _in_source(copy) and begins.get(copy["partition"], 0) <= copy["offset"] < ends.get(copy["partition"], 0)
            and copy["record"] is not None
        )
    }  # fmt: skip


def _positions(history: History, number: int) -> dict[int, int]:
    """How far a checkpoint that the job took part in first had read each partition."""
    found = [e for e in history.of(kinds.BATCH) if e.get("phase") == "snapshot" and e["batch"] == number]
    return {e["partition"]: e["position"] for e in found if e["by"] == found[0]["by"]}


def beside_stand(history: History) -> frozenset[str]:
    """Return what came behind the record at which one of two inputs stood still, and was the other one's to read."""
    stand = next((event for event in history.of(kinds.FAILPOINT) if event["by"] == "source"), None)
    offered = {event["record"]: event["position"] for event in history.of(kinds.OFFERED)}
    if stand is None:
        return frozenset()
    return frozenset(
        copy["record"] for copy in history.of(kinds.STORED)
        if _in_source(copy) and (copy["partition"] - stand["partition"]) % INPUTS
        and offered.get(copy["record"], 0) > offered.get(stand["record"], 0)
    )  # fmt: skip


def _in_source(copy: Event) -> bool:
    return bool(copy["hop"] == Hop.TOPIC and copy["visible"] and of_log(copy))
