"""Recognise the tail of a topic: records that are in the output although no position was saved, or
will be, past them.

A program that saves its position only every N records never does so after the last few. These
records are not on their way: the process that was given them lives, and their results are in the
output. The next start would read them again.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from harness.model import events as kinds

Log: TypeAlias = tuple[str, int]
"""Topic and partition."""


def was_given(
    last: Mapping[Log, int], saved: Mapping[Log, int], given: Iterable[kinds.Fetched]
) -> bool:
    """Say whether living readers were given every record past the saved positions.

    ``last``: the offset of the last record, ``saved``: the saved position (-1: none), both by
    log; ``given``: the wire's lines of what these readers were given.
    """
    reached: dict[Log, int] = defaultdict(lambda: -1)
    for _, log, offset in _placed(given):
        reached[log] = max(offset, reached[log])
    return all(
        reached[log] >= offset for log, offset in last.items() if saved.get(log, -1) <= offset
    )


def is_recorded(
    saved: Mapping[Log, int], given: Iterable[kinds.Fetched], results: Collection[str | None]
) -> bool:
    """Say whether every record that was given from past the saved positions is in the output;
    copies without id don't count.
    """
    behind = {record for record, log, offset in _placed(given) if offset >= saved.get(log, -1)}
    return behind <= set(results)


def _placed(given: Iterable[kinds.Fetched]) -> Iterator[tuple[str, Log, int]]:
    """Yield each record with its log and its offset."""
    for event in given:
        if event.at is not None:
            partition, offset = event.at
            yield event.record, (event.topic or "", partition), offset
