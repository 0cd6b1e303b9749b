"""The audit in this process, without Spark: of numbered ranges, Parquet files and topics. Memory is
bounded.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from harness.audit.failures import ELSEWHERE, OutgrownError
from harness.audit.findings import Gathering, Unreadable, compare
from harness.audit.local import Files, can_read_files, range_pages
from harness.audit.pages import PAGE_BITS, TooManyKeysError, merge
from harness.audit.spec import NumberedRange

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from harness.audit.findings import Example, Findings
    from harness.audit.local import Counted
    from harness.audit.pages import Copies, Ints
    from harness.audit.spec import Rows, Side


class Reader(Protocol):
    """A side whose rows this process can read several times."""

    doubts: tuple[str, ...]
    """Reasons why some records could not be read."""

    def close(self) -> None:
        """Release what the reader holds."""
        ...

    def count(self, *, ordered: bool, phantoms: Mapping[str, Ints] | None = None) -> Counted:
        """Count the rows. ``ordered``: check their order, too; ``phantoms`` (by key) are left out
        of the order.
        """
        ...

    def unread(self, rows: int) -> Unreadable:
        """Return the first of ``rows`` rows without a usable id."""
        ...

    def examples(self, gathering: Gathering) -> tuple[Example, ...]:
        """Return some duplicated and phantom ids with the places of their copies."""
        ...

    def with_origins(self, found: Findings, twice: list[tuple[str, Ints]]) -> Findings:
        """Split the duplicates into stored twice and recorded twice. ``twice``: by key, the
        duplicated numbers.
        """
        ...


def can_read(side: Side) -> bool:
    """Say whether this machine's processes can read a side without Spark."""
    if isinstance(side, NumberedRange) or can_read_files(side):
        return True
    if side.kind != "kafka" or side.more:
        return False
    from harness.audit.texts import reader_of  # noqa: PLC0415 - for topics only

    return reader_of(side) is not None


def audit_here(offered: Side, arrived: Rows) -> Findings:
    """Compare two sides in this process.

    Raises:
        AuditError: a side cannot be read completely.
        OutgrownError: a side is too large for this process.
        NotOursToReadError: a broker, or the format of its records, is too old for this process.
    """
    with contextlib.ExitStack() as readers:
        right = _reader(arrived)
        readers.callback(right.close)
        left = None if isinstance(offered, NumberedRange) else _reader(offered)
        if left is not None:
            readers.callback(left.close)
        try:
            return _compared(offered, left, arrived, right)
        except TooManyKeysError as error:
            raise OutgrownError(f"{error}: {ELSEWHERE}") from None


def _reader(side: Rows) -> Reader:
    if side.kind != "kafka":
        return Files(side)
    from harness.audit.topics import Topic  # noqa: PLC0415 - for topics only

    return Topic(side)


def _compared(offered: Side, left: Reader | None, arrived: Rows, right: Reader) -> Findings:
    there = right.count(ordered=arrived.ordered)
    gathering = Gathering(reordered=there.reordered, damaged=there.damaged)
    pages, unknown = _offered_pages(offered, left)
    rest = there.pages
    twice: list[tuple[str, Ints]] = []
    for key, page, copies in pages:
        data = rest.pop((key, page), None)
        mine = None if data is None else merge(data)
        found = compare(key, page, copies, mine)
        gathering.pages.append(found)
        if arrived.with_origin and found.duplicated and mine is not None:
            twice.append((key, np.flatnonzero((copies > 0) & (mine > 1)) + (page << PAGE_BITS)))
    for (key, page), data in rest.items():
        gathering.pages.append(compare(key, page, None, merge(data)))
    if arrived.ordered and (phantoms := gathering.phantoms()):
        gathering.reordered = right.count(ordered=True, phantoms=phantoms).reordered
    told = right.with_origins(gathering.findings(ordered=arrived.ordered), twice)
    return replace(
        told,
        examples=right.examples(gathering),
        unread_arrived=right.unread(there.unreadable),
        unseen=right.doubts,
        unread_offered=Unreadable() if left is None else left.unread(unknown),
        unknown=() if left is None else left.doubts,
    )


def _offered_pages(
    side: Side, reader: Reader | None
) -> tuple[Iterator[tuple[str, int, Copies]], int]:
    """Return the pages of the offered side, and how many of its rows have no usable id."""
    if isinstance(side, NumberedRange):
        return range_pages(side), 0
    assert reader is not None  # noqa: S101 - rows have one
    counted = reader.count(ordered=False)
    pages = ((key, page, merge(parts)) for (key, page), parts in counted.pages.items())
    return (
        (key, page, copies) for key, page, copies in pages if copies is not None
    ), counted.unreadable + counted.damaged
