"""Records of a bulk topic: of fixed size, identified by partition and position, with a checksum.
Made and read as arrays.

A value is a header, then filler::

    key of the soak (8 bytes) | position (int64) | partition (int32) | kind (int32) | check (uint64)
        | filler

all big-endian. ``check`` is computed from all words before it, so that damage is seen. The last
value of a partition has the kind ``END`` and is not a record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

Ints: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.int64]]"
Words: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.uint64]]"

RECORD, END = 1, 2
HEAD: Final = np.dtype(
    [("key", "S8"), ("position", ">i8"), ("partition", ">i4"), ("kind", ">i4"), ("check", ">u8")]
)
LEAST_BYTES: Final = HEAD.itemsize
FILLER: Final = ord("v")
_MIX: Final = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


class DecodedValues(NamedTuple):
    """The content of values: positions in the order of the values, the number of foreign values,
    and whether the end came.
    """

    positions: Ints
    strange: int
    ended: bool


def encode(
    key: str, partition: int, first: int, count: int, *, size: int, kind: int = RECORD
) -> list[bytes]:
    """Return the values of ``count`` records, starting at position ``first``, ``size``
    bytes each.
    """
    block = np.full((count, size), FILLER, dtype=np.uint8)
    heads = np.empty(count, dtype=HEAD)
    heads["key"] = key.encode()
    heads["position"] = np.arange(first, first + count)
    heads["partition"] = partition
    heads["kind"] = kind
    heads["check"] = _check(heads)
    block[:, :LEAST_BYTES] = heads.view(np.uint8).reshape(count, LEAST_BYTES)
    data = block.tobytes()
    return [data[at : at + size] for at in range(0, count * size, size)]


def decode(values: Sequence[bytes], key: str, partition: int, size: int) -> DecodedValues:
    """Read values of a partition and check them."""
    ours = [value for value in values if value is not None and len(value) == size]
    block = np.frombuffer(b"".join(ours), dtype=np.uint8).reshape(len(ours), size)
    heads = np.ascontiguousarray(block[:, :LEAST_BYTES]).view(HEAD).reshape(len(ours))
    good = (
        (heads["key"] == key.encode())
        & (heads["partition"] == partition)
        & (heads["check"] == _check(heads))
    )
    good &= (block[:, LEAST_BYTES:] == FILLER).all(axis=1)
    records = good & (heads["kind"] == RECORD)
    ended = bool((good & (heads["kind"] == END)).any())
    strange = len(values) - int(good.sum())
    return DecodedValues(heads["position"][records].astype(np.int64), strange, ended)


def runs(positions: Ints) -> list[tuple[int, int]]:
    """Return positions as runs of neighbours: first position and count. A second copy of a position
    starts a new run.

    >>> runs(np.array([3, 4, 5, 5, 9]))
    [(3, 3), (5, 1), (9, 1)]
    """
    if not len(positions):
        return []
    starts = np.flatnonzero(np.concatenate([[True], positions[1:] != positions[:-1] + 1]))
    counts = np.diff(np.append(starts, len(positions)))
    return list(zip(positions[starts].tolist(), counts.tolist(), strict=True))


def _check(heads: np.ndarray[tuple[int, ...], np.dtype[np.void]]) -> Words:
    words = heads["key"].astype("S8").view(">u8").astype(np.uint64)
    for name in ("position", "partition", "kind"):
        words = (words ^ heads[name].astype(np.int64).view(np.uint64)) * _MIX[0]
        words = (words ^ (words >> np.uint64(29))) * _MIX[1]
    return words ^ (words >> np.uint64(32))
