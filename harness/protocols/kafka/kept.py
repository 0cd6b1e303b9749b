"""Which record was seen at which offset: of the latest records only, so that memory has a bound."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.protocols.kafka.insights import Place

MOST_BYTES: Final = 128 << 20
"""About so much memory is used for records; at least half of it by the latest ones."""
EACH: Final = 200
"""About so many bytes does a record need besides its text."""
FORGOTTEN: Final = (
    f"it is about records that were forgotten: the wire keeps the latest {MOST_BYTES >> 20} MB of "
    "the records that it saw"
)


@dataclass(slots=True)
class _Log:
    """The records of one partition. Offsets may be reused: the latest wins."""

    offsets: list[int] = field(default_factory=list)
    records: dict[int, str] = field(default_factory=dict)

    def put(self, offset: int, record: str) -> None:
        if offset not in self.records:
            insort(self.offsets, offset)
        self.records[offset] = record

    def between(self, low: int, high: int) -> Iterator[int]:
        return iter(self.offsets[bisect_left(self.offsets, low) : bisect_left(self.offsets, high)])


class RecordCache:
    """Remembers records by partition and offset, in two generations. When the young one is full,
    the old one is forgotten.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._half = most_bytes // 2
        self._size = 0
        self._young: defaultdict[Place, _Log] = defaultdict(_Log)
        self._old: dict[Place, _Log] = {}
        self._forgotten: dict[Place, int] = {}
        """The offset behind the last record that was forgotten."""

    def put(self, place: Place, offset: int, record: str) -> None:
        """Remember a record."""
        self._young[place].put(offset, record)
        self._size += EACH + len(record)
        if self._size > self._half:
            self._turn()

    def _turn(self) -> None:
        for place, log in self._old.items():
            end = log.offsets[-1] + 1
            self._forgotten[place] = max(end, self._forgotten.get(place, 0))
        self._old, self._young, self._size = dict(self._young), defaultdict(_Log), 0

    def at(self, place: Place, offset: int) -> str | None:
        """Return the record that was last seen there, or ``None``."""
        for log in (self._young.get(place), self._old.get(place)):
            if log is not None and offset in log.records:
                return log.records[offset]
        return None

    def between(self, place: Place, low: int, high: int) -> Iterator[str]:
        """Yield the records from offset ``low`` up to ``high``."""
        young, old = self._young.get(place), self._old.get(place)
        if young is not None:
            yield from (young.records[offset] for offset in young.between(low, high))
        if old is not None:
            later = {} if young is None else young.records
            for offset in old.between(low, high):
                if offset not in later:
                    yield old.records[offset]

    def why_not_all(self, place: Place, low: int, high: int) -> str | None:
        """Say why :meth:`between` may not know all these records; ``None`` if it does."""
        gone = self._forgotten.get(place)
        return None if gone is None or low >= min(gone, high) else FORGOTTEN
