"""ActiveMQ Classic as a system under test."""

from __future__ import annotations

from typing import Final

from harness.run.queue_server import Product
from harness.run.queue_system import QueueSystem
from harness.systems.activemq.abilities import Compaction
from harness.systems.activemq.compaction import Compacting
from harness.systems.activemq.install import RECIPE
from harness.systems.activemq.journal import messages

CONNECTORS: Final = {
    # without it each MESSAGE after a RECEIPT waits 40 ms, by Nagle's algorithm
    "stomp": "stomp://{host}:{port}?transport.tcpNoDelay=true",
    # both options change the encoding, and the wire reads only the plain one
    "openwire": "tcp://{host}:{port}?wireFormat.tightEncodingEnabled=false&wireFormat.cacheEnabled=false",
    "amqp": "amqp://{host}:{port}?transport.tcpNoDelay=true",
}
CLASSIC: Final = Product(
    "ActiveMQ",
    RECIPE,
    messages,
    CONNECTORS,
    abilities=lambda broker, queue: {Compaction: Compacting(broker, queue)},
)


def launcher(runtime: str = "process", version: str | None = None) -> QueueSystem:
    """Return the launcher of ActiveMQ Classic."""
    return QueueSystem(CLASSIC, version, runtime)
