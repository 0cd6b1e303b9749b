"""How a client of Kafka calls itself: its library says so in ApiVersions, and its line in the history has it."""

from __future__ import annotations

import pytest

from harness.protocols.kafka.session import Kafka
from harness.protocols.kafka.steps import Api
from harness.wire.protocol import Frame, Need
from harness.wire.rules import Direction
from tests.wire.broker import request


def compact(text: str) -> bytes:
    """Make a compact string of the protocol."""
    return bytes([len(text.encode()) + 1]) + text.encode()


NAMED = compact("confluent-kafka-python") + compact("2.14.0-librdkafka-2.14.0")


@pytest.mark.parametrize(("version", "body", "want"), [
    (3, b"\0" + NAMED + b"\0", "confluent-kafka-python 2.14.0-librdkafka-2.14.0"),
    (4, b"\0" + compact("librdkafka") + compact("") + b"\0", "librdkafka"),
    (3, b"\1\7\2xx" + compact("a") + compact("1") + b"\0", "a 1"),  # a tagged field in the header
    (2, b"", None),
    (3, b"\0", None),
    (3, b"\0" + b"\x05\xff\xff\xff\xff\1\0", None),  # no UTF-8
    (3, b"\0\xff\xff\xff\xff\xff\xff\xff\xff", None),
])  # fmt: skip
def test_a_library_is_known_by_what_it_calls_itself(version: int, body: bytes, want: str | None) -> None:
    """Whatever the bytes are, the frame is one, and passes; only where it says a name is there one."""
    data = request(Api.API_VERSIONS, 1, "c", body, version)
    session = Kafka().session(1, limit=1 << 20)
    for count in range(1, len(data)):
        assert isinstance(session.feed(Direction.REQUEST, data[:count]), Need)
    found = session.feed(Direction.REQUEST, data)
    assert isinstance(found, Frame)
    assert found.size == len(data)
    assert found.facts.get("software") == want
