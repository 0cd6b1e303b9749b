"""Recognise the tail of a topic: records that are in the output although no position was saved, or
will be, past them.

A program that saves its position only every N records never does so after the last few. These
records are not on their way: the process that was given them lives, and their results are in the
output. The next start would read them again.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from harness.model import events as kinds


def was_given(
    last: Mapping[int, int], saved: Mapping[int, int], given: Iterable[kinds.Fetched]
) -> bool:
    """Say whether living readers were given every record past the saved positions.

    ``last``: the offset of the last record, ``saved``: the saved position (-1: none), both by
    partition; ``given``: the wire's lines of what these readers were given.
    """
    reached: dict[int, int] = defaultdict(lambda: -1)
    for partition, offset in filter(None, (event.at for event in given)):
        reached[partition] = max(offset, reached[partition])
    return all(
        reached[partition] >= offset
        for partition, offset in last.items()
        if saved.get(partition, -1) <= offset
    )


def is_recorded(
    saved: Mapping[int, int], given: Iterable[kinds.Fetched], results: Collection[str | None]
) -> bool:
    """Say whether every record that was given from past the saved positions is in the output;
    copies without id don't count.
    """
    placed = ((event.record, event.at) for event in given)
    behind = {record for record, at in placed if at and at[1] >= saved.get(at[0], -1)}
    return behind <= set(results)
