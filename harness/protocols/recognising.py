"""Recognise a protocol by the first bytes that a client sends, for a hint about a wrong setting."""

from __future__ import annotations

from typing import Final

from harness.protocols.core.session import GREETING

TLS: Final = "TLS"
NAMES: Final = {
    "amqp": "AMQP 1.0",
    "core": "Core",
    "kafka": "Kafka's protocol",
    "openwire": "OpenWire",
    "pulsar": "Pulsar's protocol",
    "stomp": "STOMP",
}
"""How people call the protocols that the wire reads, by their names in a declaration."""
_BEGINNINGS: Final = (
    (0, b"AMQP\0\0\x09\x01", "AMQP 0-9-1"),
    (0, b"AMQP", "amqp"),
    (0, GREETING, "core"),
    (0, b"CONNECT\n", "stomp"),
    (0, b"CONNECT\r\n", "stomp"),
    (0, b"STOMP\n", "stomp"),
    (0, b"STOMP\r\n", "stomp"),
    (4, b"\x01ActiveMQ", "openwire"),
    (4, b"MQTT", "MQTT"),
    (0, b"\x16\x03", TLS),
    (0, b"GET ", "HTTP"),
    (0, b"POST ", "HTTP"),
    (8, b"\x08\x02", "pulsar"),
    # a Kafka client begins by ApiVersions, Metadata or SaslHandshake, of a version below 256
    (4, b"\0\x12\0", "kafka"),
    (4, b"\0\x03\0", "kafka"),
    (4, b"\0\x11\0", "kafka"),
)
"""Where bytes stand, what they are, and in which protocol; the first that fits counts."""


def recognise(first: bytes) -> str | None:
    """Return the protocol that a client speaks, by its first bytes; ``None``: it is not known.

    A protocol that the wire reads has its name in declarations, another one that people call it.

    >>> recognise(b"AMQP" + bytes([0, 1, 0, 0])), recognise(b"POST /orders"), recognise(b"hello")
    ('amqp', 'HTTP', None)
    """
    fits = (name for at, said, name in _BEGINNINGS if first[at : at + len(said)] == said)
    return next(fits, None)
