"""The counts of one task of an audit on Spark, and the rows in which it passes them on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.audit.local import usable
from harness.audit.pages import Keys, Order, Tally, pack, packed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from harness.audit.pages import Ints

PARTIAL: Final = (
    "side int, key string, page long, data binary, reordered long, unreadable long, damaged long"
)
"""What a task gives on: a page of a side, or (side SUMMARY) what it counted beside pages, or
(CHUNKS) what stands where.
"""
OFFERED, ARRIVED, SUMMARY, CHUNKS = 0, 1, 2, 3
CHUNKS_OF: Final = {OFFERED: -2, ARRIVED: -3}
"""What stands for a page where it is said what stands where in a side."""
LIVE_PAGES: Final = 2048
"""64 MiB per task while it counts."""


class SideCounts(NamedTuple):
    """Counts beside the pages: records out of order, rows without a usable id, and lostack's own
    damaged messages.
    """

    reordered: int = 0
    unreadable: int = 0
    damaged: int = 0


Partial: TypeAlias = tuple[int, str, int, bytes, SideCounts]
"""A row of PARTIAL: side, key, page, data, and what was counted beside."""


def count_rows(
    batches: Iterable[pa.RecordBatch], side: int, *, ordered: bool, phantoms: Mapping[str, Ints]
) -> Iterator[pa.RecordBatch]:
    """The counts of one task, returned as rows of PARTIAL."""
    for rows in counted_rows(batches, side, ordered=ordered, phantoms=phantoms):
        yield partial_rows(rows)


def counted_rows(
    batches: Iterable[pa.RecordBatch], side: int, *, ordered: bool, phantoms: Mapping[str, Ints]
) -> Iterator[list[Partial]]:
    """Count rows: a summary, then their pages. A damaged message that was offered is a row without
    a usable id.
    """
    tally, order, keys, streams = Tally(LIVE_PAGES), Order(), Keys(), Keys()
    nameless = damaged = 0
    unknown = packed(phantoms, keys)
    for batch in batches:
        names = batch.schema.names
        codes, numbers, good = usable(
            batch.column("key") if "key" in names else None, batch.column("number"), keys
        )
        nameless += len(good) - int(good.sum())
        if side == ARRIVED and "damaged" in names:
            damaged += pc.sum(batch.column("damaged"), min_count=0).as_py()
        ids = pack(codes, numbers)
        if not ordered:
            tally.add(ids)
            continue
        fresh = tally.add_in_order(ids) & ~np.isin(ids, unknown)
        if "stream" in names:
            order.add(streams.codes(batch.column("stream"))[good][fresh], numbers[fresh])
        else:
            order.add(None if isinstance(codes, int) else codes[fresh], numbers[fresh])
    yield [(SUMMARY, str(side), -1, b"", SideCounts(order.reordered, nameless - damaged, damaged))]
    pages: list[Partial] = []
    for code, page, data in tally.pages():
        pages.append((side, keys.names[code], page, data, SideCounts()))
        if len(pages) == 1000:  # noqa: PLR2004 - a batch of some 100 kB to 10 MB
            yield pages
            pages = []
    if pages:
        yield pages


def partial_rows(rows: list[Partial]) -> pa.RecordBatch:
    """Return rows of PARTIAL."""
    sides, keys, pages, data, beside = zip(*rows, strict=True)
    counts = dict(zip(SideCounts._fields, zip(*beside, strict=True), strict=True))
    return pa.record_batch(
        {
            "side": pa.array(sides, pa.int32()),
            "key": pa.array(keys, pa.string()),
            "page": pa.array(pages, pa.int64()),
            "data": pa.array(data, pa.binary()),
            **{name: pa.array(some, pa.int64()) for name, some in counts.items()},
        }
    )
