"""A topic as a side of an audit on this machine: one process per core fetches and reads, and this
process counts.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from harness.audit.arrow import leave_pandas
from harness.audit.cores import Cores
from harness.audit.extents import extent_by_brokers
from harness.audit.failures import ELSEWHERE, AuditError, OutgrownError
from harness.audit.fetching import UnreadableError
from harness.audit.findings import UNREAD, Unreadable
from harness.audit.local import AT_REST_BYTES, Counted, examples_of
from harness.audit.logs import log_of, looked_at, read_rows, stretches_with
from harness.audit.partials import ARRIVED, SUMMARY, counted_rows
from harness.audit.spec import shown
from harness.audit.texts import unread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from harness.audit.fetching import OffsetRange
    from harness.audit.findings import Example, Findings, Gathering
    from harness.audit.pages import Ints
    from harness.audit.spec import Rows

T = TypeVar("T")

TASKS_A_CORE: Final = 8
"""How many parts a topic is cut into, so that no core is without work at the end."""
LEAST, MOST = 100_000, 1_000_000
"""Offsets of such a part."""


class Topic:
    """A topic, read up to the end that it had when this object was made."""

    def __init__(self, side: Rows) -> None:
        extent = extent_by_brokers(side)
        log = log_of(side, extent)
        if log is None:
            raise AuditError(f"{shown(side.text)} cannot be read without Spark: {ELSEWHERE}")
        self.doubts = extent.doubts
        self._side, self._log = side, log
        leave_pandas()
        self._cores = Cores()

    def close(self) -> None:
        """End the processes."""
        self._cores.close()

    def count(self, *, ordered: bool, phantoms: Mapping[str, Ints] | None = None) -> Counted:
        """Count the records, partition by partition; ``phantoms`` are left out of the order, where
        they are known.

        Raises:
            OutgrownError: there are more ids than this process holds.
        """
        parts = self._parts()
        noted: list[Ints] = []
        found = Counted({}, 0, 0)
        size = 0
        rows = self._done(read_rows, [(self._side, part) for part in parts])
        for _, of_partition in groupby(rows, key=lambda row: parts[row[0]].partition):
            batches = _batches(of_partition, noted)
            for some in counted_rows(batches, ARRIVED, ordered=ordered, phantoms=phantoms or {}):
                for side, key, page, data, beside in some:
                    if side == SUMMARY:
                        found = found._replace(
                            reordered=found.reordered + beside.reordered,
                            unreadable=found.unreadable + beside.unreadable,
                            damaged=found.damaged + beside.damaged,
                        )
                        continue
                    size += len(data)
                    found.pages.setdefault((key, page), []).append(data)
            if size > AT_REST_BYTES:
                raise OutgrownError(
                    f"{shown(self._side.text)}: too many ids for this machine (or too far "
                    f"apart): {ELSEWHERE}"
                )
        self._noted = np.concatenate(noted) if noted else np.zeros(0, dtype=np.int64)
        return found

    def unread(self, rows: int) -> Unreadable:
        """Fetch again for the first of ``rows`` records without a usable id."""
        if not rows:
            return Unreadable(0, self._side.unreadable)
        nameless = [row for row in self._look([], unreadable=True) if row["number"] is None][
            :UNREAD
        ]
        first = tuple(
            unread(self._side, row["source"], row["found"], row["place"]) for row in nameless
        )
        return Unreadable(rows, self._side.unreadable, first)

    def examples(self, gathering: Gathering) -> tuple[Example, ...]:
        """Fetch again for some duplicated and phantom ids with the places of their copies."""
        wanted = gathering.wanted()
        places: dict[tuple[str, int], list[str]] = {}
        for row in (
            self._look(sorted({number for _, number in wanted}), unreadable=False) if wanted else ()
        ):
            if (row["key"] or "", row["number"]) in wanted:
                places.setdefault((row["key"] or "", row["number"]), []).append(row["place"])
        return examples_of(wanted, places)

    def with_origins(self, found: Findings, twice: list[tuple[str, Ints]]) -> Findings:
        """Return the findings unchanged: every copy in a topic was stored."""
        del twice
        return replace(found, stored_twice=found.duplicated, recorded_twice=0)

    def _parts(self) -> list[OffsetRange]:
        """Cut the partitions into parts, in order."""
        offsets = sum(stretch.end - stretch.first for stretch in self._log.stretches)
        size = min(max(offsets // (TASKS_A_CORE * len(self._cores)), LEAST), MOST)
        return [
            stretch._replace(first=first, end=min(first + size, stretch.end))
            for stretch in self._log.stretches
            for first in range(stretch.first, stretch.end, size)
        ]

    def _look(self, numbers: list[int], *, unreadable: bool) -> list[dict[str, Any]]:
        """Fetch again where these numbers may stand, and the first records without one; in order of
        partition and offset.
        """
        wanted = np.array(numbers, dtype=np.int64)
        places = stretches_with(self._log, wanted, self._noted, unreadable=unreadable)
        look = partial(looked_at, unreadable=unreadable)
        tasks = [(self._side, place, wanted) for place in places]
        rows = [row for _, batch in self._done(look, tasks) for row in batch.to_pylist()]
        return sorted(rows, key=lambda row: (row["stands"]["partition"], row["stands"]["offset"]))

    def _done(
        self, work: Callable[..., Iterable[T]], tasks: Sequence[tuple[object, ...]]
    ) -> Iterator[tuple[int, T]]:
        try:
            yield from self._cores.done(work, tasks)
        except UnreadableError as error:
            raise AuditError(f"cannot read {shown(self._side.text)}: {error}") from None


def _batches(
    rows: Iterable[tuple[int, tuple[pa.RecordBatch, Ints]]], noted: list[Ints]
) -> Iterator[pa.RecordBatch]:
    for _, (batch, note) in rows:
        noted.append(note)
        yield batch
