"""Read an output of totals (sums, counts): find which records each total counts, misses, or counts
twice.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

from harness.model import events as kinds
from harness.pipelines.aggregates import total_of
from harness.pipelines.consistency import why_unordered
from harness.pipelines.outputs import OutputKind
from harness.systems.declared.outputs import Row
from harness.systems.declared.programs.errors import StageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from harness.pipelines.aggregates import Aggregate, Total
    from harness.systems.declared.scene import Scene

PARTITIONS = "the partitions of a topic have no order: let each message have its total's key"
WORD = re.compile(r"[\w.:-]+")
"""What may be a key in a row."""


class Totals:
    """Reads the totals of one cell."""

    def __init__(self, scene: Scene, aggregate: Aggregate) -> None:
        self._scene = scene
        self._aggregate = aggregate
        self._weights = scene.cell.totals()

    def is_one(self, row: str) -> bool:
        """Say whether a row holds a total, or seems to hold one that cannot be read."""
        return self._aggregate.read(row) is not None or bool(self._named(row))

    def _named(self, row: str) -> set[str]:
        """Return the offered keys that a row names beside a number."""
        words = {word.strip(".:-") for word in WORD.findall(row)} - {""}
        keys = words & self._weights.keys()
        numbers = any(char.isdigit() for word in words - keys for char in word)
        return keys if numbers else set()

    def is_known(self, row: str) -> bool:
        """Say whether a row holds the total of a key that was offered."""
        read = self._aggregate.read(row)
        return read is not None and read[0] in self._weights

    def ids(self, rows: Iterable[str]) -> list[str | None]:
        """Return the id of each counted record, once for each time it was counted; ``None`` for a
        total of an unknown key.
        """
        found: list[str | None] = []
        values = self._aggregate.values(rows)
        for total in self._totals(values).values():
            held = [record for record, times in total.times.items() for _ in range(times)]
            found += [*held[total.missing :], *held[: total.extra]]
        return [*found, *(None for key in values if key not in self._weights)]

    def tell(self, rows: Sequence[str]) -> None:
        """Write what each total says of its records.

        Raises:
            StageError: no total is of a key that was offered, or a key has several and none is the
                last; or in a run without a fault the total of such a key cannot be read.
        """
        history, values = self._scene.history, self._aggregate.values(rows)
        if not self._scene.faultless:  # there the pattern has shown that it reads them
            rows = [row for row in rows if self._aggregate.read(row) is not None]
        if rows and not values.keys() & self._weights.keys():
            wanted = min(self._weights) or "(one total of all)"
            raise StageError(
                "no row of the output is a total of an offered key: the first row is "
                f"{rows[0][:120]!r}, and a key is {wanted!r}; let the pattern in [aggregate] "
                "find (?P<key>...) and (?P<value>...)"
            )
        for row in rows:
            lacking = self._named(row) - values.keys()
            if lacking and self._aggregate.read(row) is None:
                raise StageError(
                    f"no total can be read from a row of the output: {row[:120]!r} names "
                    f"{min(lacking)!r}, of which no row has a total; let the pattern in "
                    "[aggregate] find (?P<key>...) and (?P<value>...), a whole number"
                )
        self._check_last(rows)
        for key in values.keys() - self._weights.keys():
            strange = f"total of {key}"
            history.write(
                kinds.Folded(
                    key=key,
                    version=0,
                    record=strange,
                    times=1,
                    text=f"{strange}: {values[key]}"[:120],
                )
            )
        for key, total in self._totals(values).items():
            for record, times in total.times.items():
                history.write(kinds.Folded(key=key, version=0, record=record, times=times))
            if total.missing or total.extra:
                history.write(
                    kinds.Total(
                        key=key,
                        expected=total.expected,
                        found=total.found,
                        missing=total.missing,
                        extra=total.extra,
                        alone=total.alone,
                    )
                )

    def _check_last(self, rows: Sequence[str]) -> None:
        """Raise StageError if a key, or its window, has different totals, and nobody knows which is
        the last: they are in several places, such as files, or the output has no order at all.
        """
        output = self._scene.pipeline.output
        why = PARTITIONS if output.kind is OutputKind.TOPIC else why_unordered(output)
        if why is None:
            return
        found: dict[tuple[str, str], dict[str, set[int]]] = defaultdict(dict)
        for row in rows:
            if (read := self._aggregate.read(row)) is not None:
                key, window, total = read
                place = row.place if isinstance(row, Row) else ""
                found[key, window].setdefault(place, set()).add(total)
        for (key, _), places in found.items():
            totals = sorted(set().union(*places.values()))
            if len(totals) > 1 and (len(places) > 1 or "" in places):
                raise StageError(
                    f"the output has several totals of {key or 'all'!r}, such as {totals[0]} and "
                    f"{totals[1]}, and none of them is the last: {why}; or write one row for each "
                    "key (and window)"
                )

    def _totals(self, values: Mapping[str, int]) -> dict[str, Total]:
        return dict(self._each(values))

    def _each(self, values: Mapping[str, int]) -> Iterator[tuple[str, Total]]:
        """Yield each key with its total. A key without a total counts as 0: none of its records was
        counted.
        """
        for key, weights in self._weights.items():
            yield key, total_of(values.get(key, 0), weights, exact=self._scene.cell.sums)
