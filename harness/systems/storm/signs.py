"""What only the history of a topology tells: that its spout was given a record again, of which it had emitted nothing."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from harness.model import events as kinds
from harness.model.sign import Sign

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.model.history import History

POLLED_AGAIN: Final = Sign("polled-again", "this record was fetched over one connection, and over a later one again")
"""What the bolt is given it says itself; what a spout has polled, and not emitted, only the wire has seen."""


def storm_signs(history: History) -> Mapping[Sign, set[str]]:
    """Return the records that show it."""
    connections: defaultdict[str, set[int]] = defaultdict(set)
    for event in history.of(kinds.FETCHED):
        if event["reached"] and "conn" in event:
            connections[event["record"]].add(event["conn"])
    return {POLLED_AGAIN: {record for record, found in connections.items() if len(found) > 1}}
