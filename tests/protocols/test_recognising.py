"""A protocol is recognised by its clients' first bytes; no session waits for more of another's."""

from __future__ import annotations

import struct
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

from harness.protocols import PROTOCOLS
from harness.protocols.recognising import NAMES, recognise
from harness.wire.protocol import Opaque
from harness.wire.rules import Direction
from tests.contract import protocols as contract

if TYPE_CHECKING:
    from collections.abc import Mapping

READ = ("amqp", "core", "kafka", "openwire", "pulsar", "stomp")
FIRST: Mapping[str, bytes] = {
    "amqp": b"AMQP\x03\x01\x00\x00",
    "core": b"ARTEMIS" + struct.pack(">ibq", 60, -18, 1) + bytes(51),
    "kafka": struct.pack(">ihhih", 40, 18, 3, 1, 8) + b"consumer" + bytes(22),
    "openwire": struct.pack(">i", 90) + b"\x01ActiveMQ" + struct.pack(">ib", 12, 0) + bytes(77),
    "pulsar": struct.pack(">ii", 30, 26) + b"\x08\x02\x12\x16\x0a\x0535555\x20\x15" + bytes(11),
    "stomp": b"CONNECT\naccept-version:1.2\nhost:h\n\n\0",
}
"""What a client of each protocol sends first."""


def test_each_protocol_that_is_read_has_a_name() -> None:
    assert set(NAMES) == {*READ} == {*FIRST}
    assert set(NAMES) <= set(PROTOCOLS)


@pytest.mark.parametrize("name", READ)
def test_a_client_is_recognised_by_its_first_bytes(name: str) -> None:
    """By sixteen of them; and as the clients in the contract begin."""
    assert recognise(FIRST[name][:16]) == name
    said = [
        data for way, data in contract.PROTOCOLS[name].opening("key") if way is Direction.REQUEST
    ]
    first = b"".join(said)[:16]
    assert recognise(first) in (name, None), "never taken for another one"


@pytest.mark.parametrize(
    ("first", "name"),
    [
        (b"AMQP\x00\x00\x09\x01", "AMQP 0-9-1"),
        (b"\x10\x20\x00\x04MQTT\x04\x02", "MQTT"),
        (b"\x16\x03\x01\x00\xc8\x01\x00", "TLS"),
        (b"GET / HTTP/1.1\r\n", "HTTP"),
        (b"hello, is it me", None),
        (b"", None),
    ],
)
def test_others_are_called_by_their_names(first: bytes, name: str | None) -> None:
    """What the wire does not read; or what nobody knows."""
    assert recognise(first) == name


@pytest.mark.parametrize("speaks", READ)
@pytest.mark.parametrize("reads", READ)
def test_no_session_waits_for_more_of_another_protocol(reads: str, speaks: str) -> None:
    """A client that waits for its answer would say nothing more, and nobody would learn why."""
    module, _, name = PROTOCOLS[reads].partition(":")
    protocol: Any = getattr(import_module(module), name)()
    fed = protocol.session(1, limit=1 << 20).feed(Direction.REQUEST, bytearray(FIRST[speaks]))
    assert isinstance(fed, Opaque) == (reads != speaks)
