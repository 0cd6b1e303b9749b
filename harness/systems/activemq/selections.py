"""What only the history of a queue tells, of any broker: which records a consumer had in hand when its connection ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.model import events as kinds
from harness.model.prediction import Select

if TYPE_CHECKING:
    from harness.model.history import History

IN_HAND: Final = Select("in-hand")
"""The records that a connection gave to a consumer before it ended, and whose acknowledgement was not answered there.

Their acknowledgement may have arrived: then nobody gives them again. Or it has not: then they are given again.
"""


def given_selections(history: History, _target: str) -> dict[Select, frozenset[str]]:
    """Return that selection; nothing where no broker has counted what waits in a queue.

    Where a protocol answers no acknowledgement, one that has arrived counts as answered; one that its program calls failed never.
    """
    if not any(True for _ in history.of(kinds.COUNTED)):
        return {}
    said = list(history.of(kinds.ACKNOWLEDGED))
    answered = any(event["outcome"] is not None for event in said)
    done = {
        (event["request"].partition(":")[0], event["record"]) for event in said
        if event["reached"] and event["outcome"] == ("taken" if answered else None)
    }  # fmt: skip
    gone = {event["conn"] for event in history.of(kinds.CONN) if event["phase"] == "close"}
    given = {
        (str(event["conn"]), event["record"]) for event in history.of(kinds.FETCHED)
        if event["reached"] and event["conn"] in gone and event["record"] is not None
    }  # fmt: skip
    failed = {event["record"] for event in history.of(kinds.SAVED) if event.get("record") and event["error"]}
    return {IN_HAND: frozenset({record for _, record in given - done} | failed)}
