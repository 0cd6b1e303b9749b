"""The protocols that the wire reads: codecs without I/O, by the contract of :mod:`harness.wire.protocol`. Here is their list."""

from __future__ import annotations

from typing import Final

GROUP: Final = "lostack.protocols"
"""The group of entry points by which packages of others bring protocols: a name, and ``module:class``."""
PROTOCOLS: Final = {
    "amqp": "harness.protocols.amqp.session:Amqp",
    "core": "harness.protocols.core.session:Core",
    "kafka": "harness.protocols.kafka.session:Kafka",
    "openwire": "harness.protocols.openwire.session:OpenWire",
    "postgres": "harness.protocols.postgres.session:Postgres",
    "pulsar": "harness.protocols.pulsar.session:Pulsar",
    "stomp": "harness.protocols.stomp.session:Stomp",
    "zookeeper": "harness.protocols.zookeeper.session:ZooKeeper",
}
"""Ours: what a route says it speaks, and what reads that (``module:class``), imported when it is used."""
