"""The progress of bulk programs in each partition: numbers in a shared file, which survive the
writer's SIGKILL.
"""

from __future__ import annotations

import mmap
import os
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from harness.model.closing import Closing

if TYPE_CHECKING:
    from pathlib import Path

FIELDS: Final = ("taken", "cursor", "unheard", "delivered", "done")
_NUMBER: Final = struct.Struct("=q")
_ROW: Final = _NUMBER.size * len(FIELDS)


@dataclass(frozen=True, slots=True)
class Mark:
    """The progress in one partition. Each number is the position after the last record.

    ``taken``: passed to the producer's client. ``cursor``: the source's cursor that is saved
    outside the topic. ``unheard``: sent records without an answer, which the producer does not send
    again. ``delivered``: given to the consumer. ``done``: recorded by the consumer, with the
    position saved; one more if it has seen the end.
    """

    taken: int
    cursor: int
    unheard: int
    delivered: int
    done: int


class Marks(Closing):
    """The file with the progress of all partitions. Each number has one writer."""

    def __init__(self, path: Path) -> None:
        fd = os.open(path, os.O_RDWR)
        try:
            self._map = mmap.mmap(fd, 0)
        finally:
            os.close(fd)

    @classmethod
    def create(cls, path: Path, begins: list[int]) -> Self:
        """Make the file. Every number of a partition starts at the partition's first position."""
        path.write_bytes(b"".join(_NUMBER.pack(begin) * len(FIELDS) for begin in begins))
        return cls(path)

    def read(self, partition: int) -> Mark:
        """Return the progress in a partition."""
        return Mark(*(self.get(partition, name) for name in FIELDS))

    def get(self, partition: int, name: str) -> int:
        """Return one number."""
        return int(
            _NUMBER.unpack_from(self._map, partition * _ROW + FIELDS.index(name) * _NUMBER.size)[0]
        )

    def put(self, partition: int, name: str, value: int) -> None:
        """Write one number."""
        _NUMBER.pack_into(self._map, partition * _ROW + FIELDS.index(name) * _NUMBER.size, value)

    def advance(self, partition: int, name: str, value: int) -> None:
        """Write one number if it is greater than the present one."""
        if value > self.get(partition, name):
            self.put(partition, name, value)

    def close(self) -> None:
        """Close the file."""
        self._map.close()
