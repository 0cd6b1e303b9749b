"""What the files of a stream say, made here as the server makes them; and what a live server says
of the same.
"""

from __future__ import annotations

import struct

import pytest
from lostack_nats.answers import led_in, slowest
from lostack_nats.answers import reader_in as reader_told
from lostack_nats.blocks import Reader, StrangeFileError, reader_of, records_in
from lostack_nats.config import server_text, stream_config, typed

from harness.run.queue_replicas import of_most


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
    found = reader_of(data)
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
        reader_of(data)


@pytest.mark.parametrize(
    ("text", "value"), [("1000", 1000), ("true", True), ("workqueue", "workqueue")]
)
def test_a_stream_s_setting_has_its_type(text: str, value: object) -> None:
    assert typed(text) == value


def test_only_what_most_servers_have_is_stored() -> None:
    """What a dead leader alone wrote is not; nor is another message of the same sequence."""
    one, two, three = (record(n, body) for n, body in ((1, b"a"), (2, b"b"), (3, b"c")))
    other = record(3, b"d")
    copies = [[*records_in(data)] for data in (one + two + three, one + two, one + other)]
    assert [(each.sequence, each.body) for each in of_most(copies)] == [(1, b"a"), (2, b"b")]
    assert of_most(copies[:1]) == copies[0]


def test_a_server_of_a_cluster_knows_the_others() -> None:
    """Clients are told no address: they would go past the wire. A server alone has no cluster."""
    told = {"sync_interval": "always", "stream.max_msgs": "3"}
    assert "cluster" not in server_text("broker-1", 4222, "/s", told)
    text = server_text("broker-2", 4223, "/s", told, (6223, 6222, 6224))
    assert 'listen: "127.0.0.1:6223"\n  no_advertise: true\n' in text
    assert '"nats://127.0.0.1:6222"' in text
    assert ("sync_interval: always" in text, "max_msgs" in text) == (True, False)
    config = stream_config("q", told, forgets=False, replicas=3)
    assert (config["num_replicas"], config["max_msgs"]) == (3, 3)


def test_who_leads_and_who_is_behind() -> None:
    """Not in sync, not there, or with something to copy. Without a leader nobody is named."""
    names = ["broker-1", "broker-2", "broker-3"]
    fine, late = {"name": "broker-2", "current": True}, {"name": "broker-3", "current": True}
    for more, behind in (({}, ()), ({"lag": 2}, ("broker-3",)), ({"offline": True}, ("broker-3",))):
        told = {"cluster": {"leader": "broker-1", "replicas": [fine, {**late, **more}]}}
        led = led_in("q", told, names)
        assert (led.leader, led.replicas, led.behind) == ("broker-1", tuple(names), behind)
    assert led_in("q", {"cluster": {}}, names).leader == ""


def test_how_far_a_consumer_is_by_its_numbers() -> None:
    """They do not tell which of those between are pending."""
    told = {"ack_floor": {"stream_seq": 3}, "delivered": {"stream_seq": 5}, "num_pending": 0}
    assert reader_told({**told, "num_ack_pending": 0}) == Reader(3, 5, frozenset())
    assert reader_told({**told, "num_ack_pending": 2}) == Reader(3, 5, frozenset({4, 5}))
    assert reader_told({**told, "num_ack_pending": 1}) is None
    much = {"num_pending": 4, "num_ack_pending": 0}
    assert (slowest([{**told, "num_ack_pending": 3}, much]), slowest([])) == (much, None)
