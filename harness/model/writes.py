"""Durable writes: the system calls, the points before and after them at which a program can die,
and which points are tried.

If a program is killed, the kernel keeps all that the program has written, flushed or not. So a
crash before a call that flushes (:data:`FLUSHES`) leaves the same files as a crash after it, and
only one is tried: the data is there, and the program does not know. A call that changes files
(:data:`CHANGES`) makes a new state of its own, so both sides are tried.

A unit of work may be several writes that look alike: a row in one transaction, its position in the
next. Only every second such call is between the two. So consecutive occurrences are tried, from the
first one after the target record: as many as one record takes, and at least two. (A batch takes no
more than a record does.) lostack need not know which call belongs to which record. If there are
more than :data:`MOST` points, they are thinned out evenly; points beside changes are kept longest.
"""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

T = TypeVar("T")

FLUSHES: Final = ("fsync", "fdatasync", "msync", "sync", "syncfs")
CHANGES: Final = (
    "rename",
    "renameat",
    "renameat2",
    "link",
    "linkat",
    "unlink",
    "unlinkat",
    "truncate",
    "ftruncate",
)
"""Calls that change which files exist, or their sizes. A journal ends by unlink, truncate or
rename; a mail appears by a link.
"""
CALLS: Final = FLUSHES + CHANGES
WRITES: Final = ("write", "pwrite64", "writev", "pwritev", "pwritev2")
"""Calls that write into a file. The same calls also write to sockets and pipes, which
do not count.
"""
LOCKS: Final = ("fcntl",)
"""Calls that lock a file, or a part of it, as SQLite does before a transaction."""
MOST: Final = 6
"""How many points of one stage are tried."""
LEAST: Final = 2
"""How many occurrences of a call are tried at least, if the program makes so many."""

FEW: Final = 4
"""A stage that writes into at most so many files writes into the same ones again: a database has
three.
"""


class Side(StrEnum):
    """Where in a call a thread is held."""

    BEFORE = "before"
    """The kernel has not begun the call, and never will if the program is killed now."""
    AFTER = "after"
    """The kernel has done the call, and the program does not know."""


@dataclass(frozen=True, slots=True)
class Point:
    """A point at which a program can die: one side of a thread's ``occurrence``-th such call.

    Of :data:`WRITES` only the calls that write into ``files`` count.

    >>> str(Point("unlink", 2, Side.AFTER))
    'after unlink 2'
    """

    call: str
    occurrence: int
    side: Side
    files: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.side} {self.call} {self.occurrence}"


@dataclass(frozen=True, slots=True)
class FirstWrites:
    """Each thread is held right before its first durable write: what it writes stays undone until
    it is let go.

    ``files``: calls about these files count, and plain writes into them. Without files every call
    of :data:`CALLS` counts. ``within``: a glob; of the files that the program has open, those that
    it matches count, too. ``locks``: a lock of one of these files counts, too: who is held later
    keeps others out of a database.
    """

    files: tuple[str, ...] = ()
    within: str = ""
    locks: bool = False


def are_one_each(files: int, records: int) -> bool:
    """Say whether so many files are about one for each record: another run may name them otherwise.

    >>> are_one_each(4, 4), are_one_each(10, 24), are_one_each(13, 24)
    (False, False, True)
    """
    return FEW < files > records / 2


def is_within(file: str, glob: str) -> bool:
    """Say whether a glob matches a file's whole path; ``**/`` stands for no folder, too.

    >>> is_within("/w/book.txt", "/w/**/book.txt"), is_within("/w/a/b", "/w/*.txt")
    (True, False)
    """
    return any(fnmatch.fnmatchcase(file, each) for each in (glob, glob.replace("**/", "")))


def chosen(made: Mapping[str, Sequence[int]], records: int) -> tuple[Point, ...]:
    """Return the points that are tried on a stage, from its writes in a run without a fault.

    ``made``: how often each of its threads made each call. ``records``: how many records came to it
    meanwhile, the target first.

    >>> two_transactions = {"fdatasync": [160], "unlink": [40]}
    >>> [str(point) for point in chosen(two_transactions, 20)]
    ['before unlink 1', 'after unlink 1', 'before unlink 2', 'after unlink 2', 'after fdatasync 1',
    'after fdatasync 6']
    >>> [str(point) for point in chosen({"write": [40]}, 20)]
    ['after write 1', 'after write 2']
    """
    changes = [
        Point(call, number, side)
        for call in CHANGES
        for number, side in product(_tried(made, call, records), Side)
    ]
    flushes = [
        Point(call, number, Side.AFTER)
        for call in FLUSHES
        for number in _tried(made, call, records)
    ]
    plain = [
        Point(call, number, Side.AFTER) for call in WRITES for number in _tried(made, call, records)
    ]
    kept: list[Point] = []
    for found in (changes, flushes, plain):
        kept += thinned(found, MOST - len(kept))
    return tuple(kept)


def _tried(made: Mapping[str, Sequence[int]], call: str, records: int) -> range:
    """Return the occurrences of a call that are tried: those of one unit of work that another run
    will have too.

    An occurrence will come again if two threads made so many calls, or one thread twice as many. A
    call that was made only once, near the end, may not come again in time.
    """
    counts = made.get(call, ())
    unit = max(LEAST, round(sum(counts) / max(records, 1)))
    sure = max(
        (
            max(count // 2, sum(other >= count for other in counts) > 1 and count)
            for count in counts
        ),
        default=0,
    )
    return range(1, min(unit, sure) + 1)


def thinned(found: Sequence[T], most: int) -> Sequence[T]:
    """Return at most ``most`` of the points, evenly spread, alternating between the two sides of a
    call.
    """
    if len(found) <= most or not most:
        return found[:most]
    apart = 2 if len(found) >= 2 * most else 1
    return [found[number * len(found) // most + number % apart] for number in range(most)]
