"""Record batches read column by column: the same records as kafka-python reads one by one."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
import zstandard
from kafka import codec
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords

from harness.audit import batches, places, texts
from harness.audit.batches import next_offset, read
from harness.audit.failures import NotOursToReadError
from harness.audit.places import DamagedBatchError
from harness.audit.spec import Rows, parse
from tests.wire.kafka_frames import CODECS

if TYPE_CHECKING:
    from collections.abc import Callable

Item = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]


def batch(
    base: int, items: list[Item], *, codec: int = 0, producer: int = -1, transactional: bool = False
) -> bytes:
    """Make a batch as it stands in a log."""
    builder = DefaultRecordBatchBuilder(
        2, codec, transactional, producer, 0 if producer >= 0 else -1, -1, 1 << 26
    )
    for at, (key, value, headers) in enumerate(items):
        assert builder.append(at, 1_700_000_000_000 + 7 * at, key, value, headers)
    data = bytearray(builder.build())
    data[0:8] = base.to_bytes(8, "big")
    return bytes(data)


def marker(base: int, producer: int, *, commit: bool) -> bytes:
    """Make a control batch: it is sealed once more, for the builder sets no control bit."""
    import google_crc32c  # noqa: PLC0415

    data = bytearray(
        batch(
            base,
            [(b"\0\0\0" + bytes([commit]), bytes(6), [])],
            producer=producer,
            transactional=True,
        )
    )
    data[22] |= 0x20
    data[17:21] = google_crc32c.value(bytes(data[21:])).to_bytes(4, "big")
    return bytes(data)


def random_items(rng: random.Random) -> list[Item]:
    """Make records with and without keys, values and headers, of one byte to some kilobytes."""

    def text(most: int) -> bytes | None:
        return (
            None if rng.random() < 0.15 else rng.randbytes(rng.choice([0, 1, 5, 63, 64, 130, most]))
        )

    return [
        (
            text(200),
            text(9000),
            [(rng.choice(["seq", "run", "é"]), text(20)) for _ in range(rng.choice([0, 0, 1, 3]))],
        )
        for _ in range(rng.randint(1, 40))
    ]


def column(array: pa.Array) -> list[bytes | None]:
    """Return texts as the bytes that they are."""
    return list(array.view(pa.binary()).to_pylist())


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("seed", range(5))
def test_what_kafka_python_reads(codec: str, seed: int) -> None:
    """Keys, values, headers and offsets of several batches with gaps, the last one cut: whatever
    the compression.
    """
    rng = random.Random(seed)
    data, base = b"", 5
    for _ in range(rng.randint(1, 6)):
        items = random_items(rng)
        data += batch(base, items, codec=CODECS[codec])
        base += len(items) + rng.randint(0, 3)
    cut = data + batch(base, [(None, b"x" * 300, [])])[:-1]
    expected: list[Any] = []
    whole = MemoryRecords(data)
    while whole.has_next():
        expected += list(whole.next_batch())
    found = read(cut, [])
    assert found.offsets.tolist() == [record.offset for record in expected]
    assert column(found.key()) == [record.key for record in expected]
    assert column(found.value()) == [record.value for record in expected]
    last = [dict(record.headers).get("seq") for record in expected]
    assert column(found.header("seq")) == last
    behind = next_offset(cut)
    assert behind is not None
    assert behind == expected[-1].offset + 1
    middle = expected[len(expected) // 2].offset
    assert found.between(middle, behind - 1).offsets.tolist() == [
        r.offset for r in expected if middle <= r.offset < behind - 1
    ]


def test_many_small_batches_are_walked_in_step() -> None:
    """A hundred batches of one to nine records, read at once: the same places as one by one."""
    rng = random.Random(3)
    sizes = [rng.randint(1, 3) for _ in range(200)]
    data = b""
    expected: list[bytes | None] = []
    for size in sizes:
        items: list[Item] = [
            (None, rng.randbytes(rng.choice([1, 70, 9000])), []) for _ in range(size)
        ]
        data += batch(len(expected), items)
        expected += [value for _, value, _ in items]
    assert sum(sizes) >= places.IN_STEP * max(sizes)
    found = read(data, [])
    assert found.offsets.tolist() == list(range(len(expected)))
    assert column(found.value()) == expected


@pytest.mark.parametrize("odd_every", [0, 7, 150])
def test_records_alike_are_found_in_all_batches_at_once(
    odd_every: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One batch is far longer than the others, as a producer's first one is; nothing is walked but
    behind odd records.
    """
    walked: list[int] = []
    for name in ("one_by_one", "_in_step"):
        monkeypatch.setattr(places, name, _noting(getattr(places, name), walked))
    data = b""
    expected: list[bytes | None] = []
    rng = random.Random(5)
    for size in [900, *(rng.randint(1, 120) for _ in range(60))]:
        numbers = range(len(expected), len(expected) + size)
        values = [b"%018d" % n * (3 if odd_every and n % odd_every == 1 else 1) for n in numbers]
        data += batch(len(expected), [(None, value, []) for value in values])
        expected += values
    found = read(data, [])
    assert found.offsets.tolist() == list(range(len(expected)))
    assert column(found.value()) == expected
    assert bool(walked) == bool(odd_every)
    assert sum(walked) < len(expected)


def _noting(find: Any, walked: list[int]) -> Any:
    def noted(data: Any, starts: list[int], counts: list[int]) -> Any:
        walked.extend(counts)
        return find(data, starts, counts)

    return noted


def test_aborted_transactions_and_markers_are_not_read() -> None:
    """Two producers: one aborts and then commits, the other commits; a plain batch of the first
    one's id is read.
    """

    def items(*values: int) -> list[Item]:
        return [(None, str(value).encode(), []) for value in values]

    data = b"".join(
        [
            batch(0, items(1, 2), producer=7, transactional=True),
            batch(2, items(3), producer=8, transactional=True),
            marker(3, 7, commit=False),
            batch(4, items(4), producer=7, transactional=True),
            marker(5, 8, commit=True),
            marker(6, 7, commit=True),
            batch(7, items(5)),
        ]
    )
    assert column(read(data, [(0, 7)]).value()) == [b"3", b"4", b"5"]
    assert len(read(data, [])) == 5
    assert next_offset(data) == 8


def test_damage_is_told() -> None:
    """A flipped bit anywhere behind the checksum; a count that is not true; an old format."""
    data = batch(0, [(b"key", b"value", [])] * 3)
    for at in (21, 57, 70, len(data) - 1):
        broken = bytearray(data)
        broken[at] ^= 4
        with pytest.raises(DamagedBatchError, match="checksum"):
            read(bytes(broken), [])
    old = bytearray(data)
    old[16] = 1
    with pytest.raises(NotOursToReadError, match="old format"):
        read(bytes(old), [])
    assert next_offset(b"") is None
    assert not len(read(b"", []))


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        (r"^(\d+) ", "12 x", (None, 12)),
        (r"^(\d+) ", "x12 x", (None, None)),
        (r"^(.):(\d+)$", "a:5", ("a", 5)),
        (r"^(.):(\d+)$", "a:5\n", ("a", 5)),
        (r"^(.):(\d+)$", "\n:5", (None, None)),
        (r"seq=(\d{1,4})", "x seq=12345", (None, 1234)),
        (r"(?:order|item)-(\d+)", "item-7", (None, 7)),
        (r"([a-z]+)-(\d+)", "é-1 ab-2", ("ab", 2)),
        (r"(\d+)", "1" * 14, (None, None)),
    ],
)
def test_patterns_find_what_java_finds(
    pattern: str, text: str, expected: tuple[str | None, int | None]
) -> None:
    side = Rows("", "kafka", "", "value", pattern=pattern)
    reader = texts.reader_of(side)
    assert reader is not None
    columns = reader(read(batch(0, [(None, text.encode(), [])]), []))
    keys = [None] if columns.keys is None else columns.keys.to_pylist()
    assert (keys[0], columns.numbers.to_pylist()[0]) == expected


@pytest.mark.parametrize(
    "spec",
    [
        "id=value&pattern=(?i)x(\\d)",
        "id=value&pattern=(?<=a)(\\d)",
        "id=value&pattern=(\\d)\\b",
        "id=json:$.seq[0]",
        "id=value&key=json:$.k",
        "id=lostack",
        "id=value&pattern=^a|(\\d)",
    ],
)
def test_what_is_left_to_spark(spec: str) -> None:
    """Patterns that Java and RE2 may read differently, JSON, and our own payloads."""
    side = parse(f"kafka:localhost:9092/t#{spec}")
    assert isinstance(side, Rows)
    assert texts.reader_of(side) is None


def test_text_that_is_no_utf8() -> None:
    """A key that is none makes a row unreadable, whatever its number: with U+FFFD in it, it might
    be another one.
    """
    side = parse("kafka:localhost:9092/t#id=value&key=key")
    assert isinstance(side, Rows)
    reader = texts.reader_of(side)
    assert reader is not None
    columns = reader(
        read(
            batch(
                0, [(b"a\xff", b"1", []), (b"b", b"\xfe", []), (None, None, []), (b"b", b"2", [])]
            ),
            [],
        )
    )
    assert columns.keys is not None
    assert columns.keys.to_pylist() == ["a�", "b", None, "b"]
    assert columns.numbers.to_pylist() == [None, None, None, 2]


@pytest.mark.parametrize(
    ("number", "compress"),
    [
        (1, codec.gzip_encode),
        (3, codec.lz4_encode),
        (4, codec.zstd_encode),
        (2, lambda data: codec.snappy_encode(data, xerial_compatible=True)),
        (2, lambda data: codec.snappy_encode(data, xerial_compatible=False)),
        (4, lambda data: zstandard.ZstdCompressor(write_content_size=False).compress(data)),
    ],
    ids=[
        "gzip",
        "lz4",
        "zstd",
        "snappy in blocks",
        "snappy in one",
        "zstd of a size that is not told",
    ],
)
@pytest.mark.parametrize("size", [0, 1, 3_000_000])
def test_what_producers_compress(
    number: int, compress: Callable[[bytes], bytes], size: int
) -> None:
    data = random.Random(size).randbytes(min(size, 1000)) * max(1, size // 1000)
    assert bytes(batches.DECOMPRESS[number](compress(data))) == data
