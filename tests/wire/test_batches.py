"""Record batches on the wire: what is read here is what kafka-python reads, whatever stands in
them.
"""

from __future__ import annotations

import random

import pytest
from kafka.record.memory_records import MemoryRecords

from harness.model.record import ATTEMPT_HEADER
from harness.protocols.kafka import batches
from harness.protocols.kafka.batches import Batch, _batches, _other, read_batches
from tests.audit.test_record_batches import batch, marker, random_items
from tests.wire.kafka_frames import CODECS


def by_kafka_python(data: bytes) -> tuple[Batch, ...]:
    """Read batches without any shortcut."""
    return tuple(_other(one) for one in MemoryRecords(data))


def refused_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing be read by kafka-python."""

    def other(_: object) -> Batch:
        raise AssertionError("left to kafka-python")

    monkeypatch.setattr(batches, "_other", other)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("seed", range(5))
def test_the_same_as_kafka_python(codec: str, seed: int) -> None:
    """Several batches with gaps, of a transaction or not, with control batches between them, the
    last one cut.
    """
    rng = random.Random(seed)
    data, base = b"", 3
    for number in range(rng.randint(2, 6)):
        items = random_items(rng)
        items[0][2].append((ATTEMPT_HEADER, b"2"))
        data += batch(
            base,
            items,
            codec=CODECS[codec if number else "none"],
            producer=number,
            transactional=number % 2 > 0,
        )
        base += len(items) + rng.randint(0, 400)
        if number % 2:
            data += marker(base, number, commit=rng.random() < 0.5)
            base += 1
    cut = data + batch(base, [(None, b"x" * 300, [])])[: rng.randint(1, 300)]
    found = read_batches(cut)
    assert found == by_kafka_python(data)
    assert any(one.aborts or one.control for one in found)
    assert any(item.attempt == "2" for one in found for item in one.items)
    assert read_batches(memoryview(cut)) == found


def test_plain_batches_are_read_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """With keys, headers, nulls, numbers of several bytes; else nothing would be gained."""
    refused_here(monkeypatch)
    rng = random.Random(7)
    items = [item for _ in range(20) for item in random_items(rng)]
    (found,) = read_batches(batch(1 << 40, items, producer=4, transactional=True))
    assert [(one.key, one.value, list(one.headers)) for one in found.items] == items
    assert [one.offset for one in found.items] == list(range(1 << 40, (1 << 40) + len(items)))


@pytest.mark.parametrize("at", [61, 62, 64, 65, 70, 90])
def test_damage_is_kafka_pythons_to_judge(at: int) -> None:
    """Lengths that do not fit end in the same words, or the same records, as without a shortcut."""
    whole = bytearray(batch(0, [(b"key", b"v" * 40, [("h", b"1")]) for _ in range(3)]))
    for byte in (0x00, 0x01, 0x7F, 0x80, 0xFF):
        whole[at] = byte
        data = bytes(whole)
        try:
            expected = by_kafka_python(data)
        except Exception as error:  # noqa: BLE001 - whichever it is
            with pytest.raises(type(error)):
                read_batches(data)
        else:
            assert read_batches(data) == expected


@pytest.mark.parametrize("size", [-1, 0, 3, 48])
def test_a_batch_that_claims_less_than_a_header_is_kafka_pythons_to_judge(size: int) -> None:
    whole = bytearray(batch(0, [(None, b"v", [])]) * 2)
    whole[8:12] = size.to_bytes(4, "big", signed=True)
    try:
        expected = by_kafka_python(bytes(whole))
    except Exception as error:  # noqa: BLE001 - whichever it is
        with pytest.raises(type(error)):
            tuple(_batches(bytes(whole)))
    else:
        assert tuple(_batches(bytes(whole))) == expected
