"""What one task of an audit counts, and how it gives that on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from harness.audit.local import usable
from harness.audit.pages import Keys, Order, Tally, pack, packed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from harness.audit.pages import Ints

PARTIAL: Final = "side int, key string, page long, data binary, reordered long, unreadable long"
"""What a task gives on: a page of a side, or (side SUMMARY) what it counted beside pages, or (CHUNKS) what stands where."""
OFFERED, ARRIVED, SUMMARY, CHUNKS = 0, 1, 2, 3
LIVE_PAGES: Final = 2048
"""64 MiB per task while it counts."""


def count_rows(
    batches: Iterable[pa.RecordBatch], side: int, *, ordered: bool, phantoms: Mapping[str, Ints]
) -> Iterator[pa.RecordBatch]:
    """Count what one task sees: its pages, and a summary."""
    tally, order, keys, streams = Tally(LIVE_PAGES), Order(), Keys(), Keys()
    unreadable, unknown = 0, packed(phantoms, keys)
    for batch in batches:
        names = batch.schema.names
        codes, numbers, good = usable(batch.column("key") if "key" in names else None, batch.column("number"), keys)
        unreadable += len(good) - int(good.sum())
        ids = pack(codes, numbers)
        if not ordered:
            tally.add(ids)
            continue
        fresh = tally.add_in_order(ids) & ~np.isin(ids, unknown)
        if "stream" in names:
            order.add(streams.codes(batch.column("stream"))[good][fresh], numbers[fresh])
        else:
            order.add(None if isinstance(codes, int) else codes[fresh], numbers[fresh])
    yield partial_rows([(SUMMARY, str(side), -1, b"", order.reordered, unreadable)])
    pages: list[tuple[int, str, int, bytes, int, int]] = []
    for code, page, data in tally.pages():
        pages.append((side, keys.names[code], page, data, 0, 0))
        if len(pages) == 1000:  # noqa: PLR2004 - a batch of some 100 kB to 10 MB
            yield partial_rows(pages)
            pages.clear()
    if pages:
        yield partial_rows(pages)


def partial_rows(rows: list[tuple[int, str, int, bytes, int, int]]) -> pa.RecordBatch:
    """Return rows of PARTIAL: side, key, page, data, reordered, unreadable."""
    sides, keys, pages, data, reordered, unreadable = zip(*rows, strict=True)
    return pa.record_batch({
        "side": pa.array(sides, pa.int32()), "key": pa.array(keys, pa.string()), "page": pa.array(pages, pa.int64()),
        "data": pa.array(data, pa.binary()), "reordered": pa.array(reordered, pa.int64()),
        "unreadable": pa.array(unreadable, pa.int64()),
    })  # fmt: skip
