r"""The record: one uniquely numbered unit, and how it looks on the wire.

A payload is one ASCII line, then filler::

    lostack <cell key> <record id> <position> <crc32 of everything but this word, hex>\n<filler>

The cell key tells apart the records of two cells on one broker. The position is the record's place
in its source (from 1). The checksum covers header and filler, so a payload that is damaged,
truncated or mixed up is recognised: it is a phantom.
"""

from __future__ import annotations

import random
import string
import zlib
from dataclasses import dataclass

_MAGIC = b"lostack"
_BEGINS = _MAGIC + b" "
_WORDS = 5
"""How many words the first line has."""
ATTEMPT_HEADER = "lostack-attempt"
"""Message header that names the attempt which produced a copy:
``<incarnation>.<transaction>.<attempt>``.
"""
ORIGIN_HEADER = "lostack-origin"
"""Message header of a transformed copy that names the log copy it was made from:
``<partition>.<epoch>.<offset>``.
"""

_ALPHABET = string.ascii_lowercase + string.digits


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a source.

    ``position`` counts from 1 in the order of the source; ``id`` is unique in its cell.
    """

    id: str
    key: str
    position: int
    filler: str = ""

    def encode(self, cell_key: str) -> bytes:
        """Return the payload that is sent."""
        head = f"{cell_key} {self.id} {self.position}".encode()
        body = self.filler.encode()
        return b"%s %s %08x\n%s" % (_MAGIC, head, zlib.crc32(head + b"\n" + body), body)


@dataclass(frozen=True, slots=True)
class Payload:
    """The header of a decoded payload. ``intact`` is false if the checksum does not match."""

    cell_key: str
    record: str
    position: int
    intact: bool


def decode(value: bytes | None) -> Payload | None:
    """Decode a payload; return ``None`` if it is not in lostack's format.

    >>> decode(Record("a-1", "a", 1, "xyz").encode("c0ffee"))
    Payload(cell_key='c0ffee', record='a-1', position=1, intact=True)
    >>> decode(Record("a-1", "a", 1, "xyz").encode("c0ffee")[:-1]).intact
    False
    >>> decode(b"something else") is None
    True
    """
    if not value or not value.startswith(_BEGINS):
        return None
    line, end, body = value.partition(b"\n")
    words = line.split(b" ")
    if len(words) != _WORDS:
        return None
    _, key, record, position, checksum = words
    if not position.isdigit():
        return None
    place = int(position)
    head = b" ".join((key, record, position))
    intact = end == b"\n" and checksum == b"%08x" % zlib.crc32(head + b"\n" + body)
    return Payload(key.decode("ascii", "replace"), record.decode("ascii", "replace"), place, intact)


def decode_id(value: bytes | None) -> str | None:
    """Return the record id in a payload, intact or not; ``None`` if it is not in lostack's format.
    Checks no checksum.
    """
    if not value or not value.startswith(_BEGINS):
        return None
    words = value.partition(b"\n")[0].split(b" ")
    if len(words) != _WORDS or not words[3].isdigit():
        return None
    return words[2].decode("ascii", "replace")


def make_records(
    count: int, *, keys: int, filler_bytes: tuple[int, int], seed: int
) -> tuple[Record, ...]:
    """Make the records of a source: keys and filler sizes are drawn from the seed, positions count
    from 1.

    >>> [record.id for record in make_records(3, keys=1, filler_bytes=(0, 4), seed=7)]
    ['k0-1', 'k0-2', 'k0-3']
    """
    dice = random.Random(seed)
    records = []
    for position in range(1, count + 1):
        key = f"k{dice.randrange(keys)}"
        size = dice.randint(*filler_bytes)
        records.append(
            Record(f"{key}-{position}", key, position, "".join(dice.choices(_ALPHABET, k=size)))
        )
    return tuple(records)
