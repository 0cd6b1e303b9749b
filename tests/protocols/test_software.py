"""How a client of Kafka calls itself: its library says so in ApiVersions, and its line in the
history has it.
"""

from __future__ import annotations

import pytest
from kafka.protocol.consumer.group import JoinGroupRequest

from harness.protocols.kafka.session import Kafka, KafkaFrame
from harness.protocols.kafka.steps import Api
from harness.wire.protocol import Frame, Need
from harness.wire.rules import Direction
from tests.wire.broker import request
from tests.wire.kafka_frames import fetch, produce


def compact(text: str) -> bytes:
    """Make a compact string of the protocol."""
    return bytes([len(text.encode()) + 1]) + text.encode()


NAMED = compact("confluent-kafka-python") + compact("2.14.0-librdkafka-2.14.0")


@pytest.mark.parametrize(
    ("version", "body", "want"),
    [
        (3, b"\0" + NAMED + b"\0", "confluent-kafka-python 2.14.0-librdkafka-2.14.0"),
        (4, b"\0" + compact("librdkafka") + compact("") + b"\0", "librdkafka"),
        (
            3,
            b"\1\7\2xx" + compact("a") + compact("1") + b"\0",
            "a 1",
        ),  # a tagged field in the header
        (2, b"", None),
        (3, b"\0", None),
        (3, b"\0" + b"\x05\xff\xff\xff\xff\1\0", None),  # no UTF-8
        (3, b"\0\xff\xff\xff\xff\xff\xff\xff\xff", None),
    ],
)
def test_a_library_is_known_by_what_it_calls_itself(
    version: int, body: bytes, want: str | None
) -> None:
    """Whatever the bytes are, the frame is one, and passes; only where it says a name
    is there one.
    """
    data = request(Api.API_VERSIONS, 1, "c", body, version)
    session = Kafka().session(1, limit=1 << 20)
    for count in range(1, len(data)):
        assert isinstance(session.feed(Direction.REQUEST, data[:count]), Need)
    found = session.feed(Direction.REQUEST, data)
    assert isinstance(found, KafkaFrame)
    assert found.size == len(data)
    assert found.facts.get("software") == want


@pytest.mark.parametrize("name", ["", "me"])
@pytest.mark.parametrize("version", range(10))
def test_a_member_is_known_to_name_itself(version: int, name: str) -> None:
    """JoinGroup, as kafka-python writes it in every version: only where it has a group.instance.id,
    which is since version 5.
    """
    asked = JoinGroupRequest(
        version=version,
        group_id="billing",
        session_timeout_ms=1000,
        rebalance_timeout_ms=1000,
        member_id="m-1",
        group_instance_id=name or None,
        protocol_type="consumer",
        protocols=[],
        reason=None,
    )
    body = asked.encode(version=version) if version < 6 else b"\0" + asked.encode(version=version)
    found = (
        Kafka()
        .session(1, limit=1 << 20)
        .feed(Direction.REQUEST, request(Api.JOIN_GROUP, 1, "c", body, version))
    )
    assert isinstance(found, KafkaFrame)
    assert found.facts.get("named_member", False) is (bool(name) and version >= 5)


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b"\0" + compact("billing") + compact("m-1") + b"\0\0\0\1" + compact("me"), True),
        (b"\0" + compact("billing") + compact("m-1") + b"\0\0\0\1" + b"\0", False),
        (b"\0\xff\xff\xff\xff\xff\xff", False),
    ],
)
def test_a_member_by_heart_beats_is_known_to_name_itself(body: bytes, named: bool) -> None:
    """The newer protocol of groups has no JoinGroup; bytes that are no message pass."""
    found = (
        Kafka()
        .session(1, limit=1 << 20)
        .feed(Direction.REQUEST, request(Api.CONSUMER_GROUP_HEARTBEAT, 1, "c", body, 0))
    )
    assert isinstance(found, KafkaFrame)
    assert found.facts.get("named_member", False) is named


@pytest.mark.parametrize("acks", [-1, 0, 1])
def test_what_a_producer_asks_for_is_in_its_line(acks: int) -> None:
    found = (
        Kafka().session(1, limit=1 << 20).feed(Direction.REQUEST, produce(7, "c", b"", acks=acks))
    )
    assert isinstance(found, KafkaFrame)
    assert found.facts["acks"] == acks


@pytest.mark.parametrize("committed", [True, False])
def test_whether_a_reader_asks_for_committed_records_is_in_its_line(committed: bool) -> None:
    """As the request says it, once it is read; other requests say nothing of it."""
    protocol = Kafka()
    session = protocol.session(1, limit=1 << 20)
    data = fetch(7, "c", 3, committed=committed)
    found = session.feed(Direction.REQUEST, data)
    assert isinstance(found, KafkaFrame)
    session.read(found, data, protocol.ledger("c", None))
    assert found.facts["committed_only"] is committed
    other = session.feed(Direction.REQUEST, produce(8, "c", b""))
    assert isinstance(other, Frame)
    assert "committed_only" not in other.facts
