"""What the files of a stream say, made here as the server makes them; and what a live server says
of the same.
"""

from __future__ import annotations

import struct

import pytest
from lostack_nats.blocks import Reader, StrangeFileError, reader_in, records_in
from lostack_nats.broker import typed


def record(
    sequence: int, body: bytes = b"", *, removes: bool = False, erased: bool = False
) -> bytes:
    """Return a record of a block."""
    number = sequence | removes << 62 | erased << 63
    subject = b"" if removes else b"q"
    length = 22 + len(subject) + len(body) + 8
    return struct.pack("<IQqH", length, number, 7, len(subject)) + subject + body + bytes(8)


def test_records_and_tombstones() -> None:
    """A tombstone names the message that it removes; what is cut off was never whole."""
    data = record(1, b"one") + record(2, b"two") + record(1, removes=True)
    found = list(records_in(data))
    assert [(each.sequence, each.body, each.removes) for each in found] == [
        (1, b"one", False),
        (2, b"two", False),
        (1, b"", True),
    ]
    assert [each.sequence for each in records_in(data[:-5])] == [1, 2]
    assert [each.sequence for each in records_in(record(5, b"x", erased=True) + data)] == [1, 2, 1]


def test_headers_of_a_record() -> None:
    """They stand before the message, with their size."""
    headers = b"NATS/1.0\r\nNats-Msg-Id: k0-1\r\n\r\n"
    content = len(headers).to_bytes(4, "little") + headers + b"one"
    length = 22 + 1 + len(content) + 8
    data = struct.pack("<IQqH", length | 1 << 31, 3, 7, 1) + b"q" + content + bytes(8)
    [found] = records_in(data)
    assert (found.headers, found.body) == ({"Nats-Msg-Id": "k0-1"}, b"one")


def test_bytes_that_are_no_block() -> None:
    with pytest.raises(StrangeFileError):
        list(records_in(record(1, b"one") + bytes(64)))


@pytest.mark.parametrize(
    ("data", "reader"),
    [
        (
            b"\x16\x02\x14\x14\x18\x18\x01\x94\x94\xd2\xb0\r\x01\x01\x02\x00",
            Reader(20, 24, frozenset({21})),
        ),
        (b"\x16\x02\x00\x00\x00\x00\x00\x00", Reader(0, 0, frozenset())),
    ],
)
def test_how_far_a_consumer_is(data: bytes, reader: Reader) -> None:
    """As servers 2.10.25 and 2.15.1 wrote it."""
    found = reader_in(data)
    assert (found.floor, found.given, set(found.pending)) == (
        reader.floor,
        reader.given,
        set(reader.pending),
    )


def test_what_waits() -> None:
    reader = Reader(3, 6, frozenset({5}))
    assert [each for each in range(1, 9) if reader.waits(each)] == [5, 7, 8]


@pytest.mark.parametrize("data", [b"", b"\x16\x01\x00", b"\x16\x02\x14"])
def test_a_consumer_s_file_that_is_none(data: bytes) -> None:
    with pytest.raises(StrangeFileError):
        reader_in(data)


@pytest.mark.parametrize(
    ("text", "value"), [("1000", 1000), ("true", True), ("workqueue", "workqueue")]
)
def test_a_stream_s_setting_has_its_type(text: str, value: object) -> None:
    assert typed(text) == value
