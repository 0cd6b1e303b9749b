"""The list of protocols that the wire reads. Each is a codec without I/O that implements
:mod:`harness.wire.protocol`.
"""

from __future__ import annotations

from typing import Final

GROUP: Final = "lostack.protocols"
"""The entry-point group in which other packages register protocols: a name, and
``module:class``.
"""
PROTOCOLS: Final = {
    "amqp": "harness.protocols.amqp.session:Amqp",
    "core": "harness.protocols.core.session:Core",
    "kafka": "harness.protocols.kafka.session:Kafka",
    "openwire": "harness.protocols.openwire.session:OpenWire",
    "others-postgres": "harness.protocols.postgres.session:OthersPostgres",
    "postgres": "harness.protocols.postgres.session:Postgres",
    "pulsar": "harness.protocols.pulsar.session:Pulsar",
    "service": "harness.protocols.service:Service",
    "stomp": "harness.protocols.stomp.session:Stomp",
    "tcp": "harness.protocols.tcp.session:Tcp",
    "zookeeper": "harness.protocols.zookeeper.session:ZooKeeper",
}
"""lostack's own protocols: the name that a route gives, and the class that reads it
(``module:class``), imported when used.
"""
