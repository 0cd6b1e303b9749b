"""Durable writes: the calls, the points beside them at which a program can die, and which of these are tried on a stage.

A program that is killed leaves what it has asked the kernel for, flushed or not. So both sides of a call that flushes
(:data:`FLUSHES`) are the same crash, and one is tried: what is written is there, and the program does not know. A call that
changes what there is (:data:`CHANGES`) makes a state of its own, and both sides are tried.

A unit of work may be several writes that look alike: a row in one transaction, its position in the next. A crash between the two
shows at every second such call only. So consecutive occurrences are tried, from the first one behind the target record: as many
as a record takes, and two where that is one, for a batch takes no more than a record does. Which of them is whose nobody has to
know. More than :data:`MOST` points are thinned out evenly, those beside changes last.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

T = TypeVar("T")

FLUSHES: Final = ("fsync", "fdatasync", "msync", "sync", "syncfs")
CHANGES: Final = ("rename", "renameat", "renameat2", "link", "linkat", "unlink", "unlinkat", "truncate", "ftruncate")
"""A journal is ended by unlinking, truncating or renaming it; a mail appears in its folder by a link."""
CALLS: Final = FLUSHES + CHANGES
WRITES: Final = ("write", "pwrite64", "writev", "pwritev", "pwritev2")
"""Calls that put something into a file, where it is one: the same go to sockets and pipes."""
MOST: Final = 6
"""How many points of one stage are tried."""
LEAST: Final = 2
"""How many occurrences of a call are tried at least, where there are so many."""


class Side(StrEnum):
    """Where in a call a thread is held."""

    BEFORE = "before"
    """The kernel has done nothing of it yet, and never will."""
    AFTER = "after"
    """It is done, and the program does not know."""


@dataclass(frozen=True, slots=True)
class Point:
    """A place to die at: the ``occurrence``-th such call of a thread; of :data:`WRITES` only those into ``files`` count.

    >>> str(Point("unlink", 2, Side.AFTER))
    'after unlink 2'
    """

    call: str
    occurrence: int
    side: Side
    files: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.side} {self.call} {self.occurrence}"


def chosen(made: Mapping[str, Sequence[int]], records: int) -> tuple[Point, ...]:
    """Return the points that are tried, of what a stage was seen to write while ``records`` came to it, the target first.

    ``made``: how often each of its threads has made each call.

    >>> two_transactions = {"fdatasync": [160], "unlink": [40]}
    >>> [str(point) for point in chosen(two_transactions, 20)]
    ['before unlink 1', 'after unlink 1', 'before unlink 2', 'after unlink 2', 'after fdatasync 1', 'after fdatasync 6']
    >>> [str(point) for point in chosen({"write": [40]}, 20)]
    ['after write 1', 'after write 2']
    """
    changes = [Point(call, number, side) for call in CHANGES for number, side in product(_tried(made, call, records), Side)]
    flushes = [Point(call, number, Side.AFTER) for call in FLUSHES for number in _tried(made, call, records)]
    plain = [Point(call, number, Side.AFTER) for call in WRITES for number in _tried(made, call, records)]
    kept: list[Point] = []
    for found in (changes, flushes, plain):
        kept += _thinned(found, MOST - len(kept))
    return tuple(kept)


def _tried(made: Mapping[str, Sequence[int]], call: str, records: int) -> range:
    """Return the occurrences of a call that are tried: those of a unit of work which another run will have, too.

    That is so where two threads got there, or one twice as far: what came once, at some end, may not come again in time.
    """
    counts = made.get(call, ())
    unit = max(LEAST, round(sum(counts) / max(records, 1)))
    sure = max((max(count // 2, sum(other >= count for other in counts) > 1 and count) for count in counts), default=0)
    return range(1, min(unit, sure) + 1)


def _thinned(found: Sequence[T], most: int) -> Sequence[T]:
    """Return at most so many of them, evenly, and of neighbours now the one, now the other."""
    if len(found) <= most or not most:
        return found[:most]
    apart = 2 if len(found) >= 2 * most else 1
    return [found[number * len(found) // most + number % apart] for number in range(most)]
