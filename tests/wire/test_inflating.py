"""Record batches that are small on the wire and large inside."""

from __future__ import annotations

import io
import struct
from typing import TYPE_CHECKING

import pytest
import zstandard

from harness.model import events as kinds
from harness.protocols.kafka import inflating
from harness.protocols.kafka.batches import read_batches
from harness.protocols.kafka.codec import Produce, UndecodableError
from harness.protocols.kafka.reading import decode
from harness.protocols.kafka.steps import Api
from harness.wire.rules import Action, Direction, Rule
from tests.wire import kafka_frames as kf
from tests.wire.broker import ScriptedBroker
from tests.wire.test_contents import KafkaLike, produce

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.wire.conftest import Bench

COMPRESSED = ("gzip", "snappy", "lz4", "zstd")
GIGABYTES = 4


def gigabytes() -> bytes:
    """Make a batch of one record, compressed by zstd, whose value is so many gigabytes
    of nothing.
    """
    out = io.BytesIO()
    with zstandard.ZstdCompressor(level=1).stream_writer(out, closefd=False) as writer:
        for _ in range(GIGABYTES << 6):
            writer.write(bytes(1 << 24))
    head = bytearray(kf.batch([kf.payload("a-1")])[: inflating.RECORDS_AT])
    head[8:12] = struct.pack(">i", len(head) - inflating.LENGTH_ENDS + out.tell())
    head[21:23] = struct.pack(">h", kf.CODECS["zstd"])
    return bytes(head) + out.getvalue()


def in_frames(*batches: bytes) -> bytes:
    """Make a Produce request, without its length, of one partition."""
    return kf.produce(1, "me", b"".join(batches))[4:]


@pytest.mark.parametrize("codec", COMPRESSED)
def test_what_fits_is_read_and_a_byte_more_is_not(
    codec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every codec is measured by what comes out of it; the limit is one of the whole frame, not of
    each batch.
    """
    batch = kf.batch([kf.payload(f"a-{n}", "x" * 5000) for n in range(8)], codec=codec)
    plain = (
        len(kf.batch([kf.payload(f"a-{n}", "x" * 5000) for n in range(8)])) - inflating.RECORDS_AT
    )
    monkeypatch.setattr(inflating, "MOST_BYTES", plain)
    assert len(read_batches(batch)[0].items) == 8
    monkeypatch.setattr(inflating, "MOST_BYTES", plain - 1)
    with pytest.raises(inflating.NotReadError, match=f"more than {plain - 1} bytes"):
        read_batches(batch)
    monkeypatch.setattr(inflating, "MOST_BYTES", 2 * plain)
    content = decode(Api.PRODUCE, Direction.REQUEST, 9, in_frames(batch, batch))
    assert isinstance(content, Produce)
    monkeypatch.setattr(inflating, "MOST_BYTES", 2 * plain - 1)
    with pytest.raises(UndecodableError, match="decompressed"):
        decode(Api.PRODUCE, Direction.REQUEST, 9, in_frames(batch, batch))


def test_several_blocks_of_snappy_count_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Java client's snappy comes in blocks of 32 kB, each of which fits."""
    batch = kf.batch([kf.payload("a-1", "x" * 100_000)], codec="snappy")
    monkeypatch.setattr(inflating, "MOST_BYTES", 90_000)
    with pytest.raises(inflating.NotReadError):
        read_batches(batch)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_nonsense_under_a_codec_is_undecodable(codec: str) -> None:
    """Bytes that no codec takes end in the one error that a reader may raise."""
    batch = bytearray(kf.batch([kf.payload("a-1", "x" * 500)], codec=codec))
    batch[inflating.RECORDS_AT :] = b"\xff" * (len(batch) - inflating.RECORDS_AT)
    with pytest.raises(UndecodableError):
        decode(Api.PRODUCE, Direction.REQUEST, 9, in_frames(bytes(batch)))


def test_the_old_format_is_read_plain_and_not_compressed() -> None:
    """Message sets of magic 0 and 1 have no limit in their reader."""
    body = (
        struct.pack(">Ibb", 0, 1, 1)
        + bytes(8)
        + struct.pack(">i", -1)
        + struct.pack(">i", 1)
        + b"x"
    )
    old = struct.pack(">qi", 0, len(body)) + body
    with pytest.raises(inflating.NotReadError, match="Kafka 4"):
        read_batches(old)
    plain = bytearray(old)
    plain[inflating.OLD_ATTRIBUTES_AT] = 0
    assert [item.value for batch in read_batches(bytes(plain)) for item in batch.items] == [b"x"]


def test_gigabytes_in_a_frame_pass_untouched_and_are_told(make_bench: Callable[..., Bench]) -> None:
    """The frame reaches the broker byte for byte, the cell is void for what was not read, and the
    wire goes on.
    """
    bench = make_bench(ScriptedBroker(KafkaLike()))
    bench.arm(Rule("r", Action.CUT, Api.PRODUCE, record="a-2"))
    client = bench.client()
    bomb = kf.produce(1, bench.name(), gigabytes())
    assert len(bomb) < 1 << 20
    assert client.ask(bomb)
    assert client.ask(produce(bench, 2, "a-1"))
    assert bench.broker.frames[0] == bomb
    event = bench.wait_event(kinds.Undecodable, dir="request")
    assert event.api == "Produce"
    assert (
        event.because == f"NotReadError: record batches of more than {64 << 20} bytes, decompressed"
    )
    assert [event.record for event in bench.events(kinds.Sent)] == ["a-1"]
