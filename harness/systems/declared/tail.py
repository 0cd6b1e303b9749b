"""The tail of a topic: records that are recorded, and behind which no position is saved, nor will be.

A program that saves its position every so many records never does so behind the last few. They are not on their way: whoever
was given them lives, and what came of them is in the output. The next start reads them again, which its crashes show.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from harness.model.history import Event


def was_given(last: Mapping[int, int], saved: Mapping[int, int], given: Sequence[Event]) -> bool:
    """Say whether readers that live were given everything behind the saved positions.

    ``last``: offset of the last record, ``saved``: the saved position (none: -1), both by partition; ``given``: what the wire saw
    those readers being given.
    """
    reached: dict[int, int] = defaultdict(lambda: -1)
    for event in given:
        reached[event["partition"]] = max(event["offset"], reached[event["partition"]])
    return all(reached[partition] >= offset for partition, offset in last.items() if saved.get(partition, -1) <= offset)


def is_recorded(saved: Mapping[int, int], given: Sequence[Event], results: Collection[str | None]) -> bool:
    """Say whether every record that was given from behind the saved positions is in the output. One without an id is nobody's."""
    behind = {e["record"] for e in given if e["offset"] >= saved.get(e["partition"], -1)} - {None}
    return behind <= set(results)
