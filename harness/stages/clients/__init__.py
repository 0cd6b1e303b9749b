"""The clients of our stages: one file each behind :mod:`.interface`, chosen by ``stage.client``, imported only when used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from harness.stages.clients.interface import Client
    from harness.stages.clients.queues import QueueClient
    from harness.stages.stage import Stage

JAVA = "java"
"""The Java client, kafka-clients: the one that is no Python package."""
ADAPTERS = {
    "kafka-python": "harness.stages.clients.kafka_python",
    "confluent-kafka": "harness.stages.clients.librdkafka",
    JAVA: "harness.stages.clients.java",
}
"""The registry: ``module`` of every client of a log; a Python one by its name on the package index."""
STOMP_PY = "stomp.py"
OPENWIRE = "openwire"
"""A client of JMS that speaks it, in Java; likewise the others that are called after their protocol."""
AMQP, CORE = "amqp", "core"
JMS_CLIENTS = (OPENWIRE, AMQP, CORE)
PULSAR_CLIENT, PULSAR_JAVA = "pulsar-client", "pulsar-java"
QUEUE_ADAPTERS = {
    STOMP_PY: "harness.stages.clients.stomp_py", PULSAR_CLIENT: "harness.stages.clients.pulsar_client",
    PULSAR_JAVA: "harness.stages.clients.pulsar_java", **dict.fromkeys(JMS_CLIENTS, "harness.stages.clients.jms"),
}  # fmt: skip
"""Likewise of a queue: see :mod:`.queues`."""

PRELOADS = {
    "kafka-python": (
        "harness.stages.producer", "harness.stages.consumer", "harness.stages.processor", ADAPTERS["kafka-python"],
        "encodings.idna",  # what the first look-up of a host's name brings
    ),
    STOMP_PY: (
        "harness.stages.producer", "harness.stages.queue_consumer", QUEUE_ADAPTERS[STOMP_PY], "encodings.idna",
    ),
}  # fmt: skip
"""What the stage programs import, of clients that start nothing when they are imported: it may be there when they begin."""


def client_of(stage: Stage) -> Client:
    """Return the client that a stage talks through; of a queue, its producing half."""
    return cast("Client", importlib.import_module((ADAPTERS | QUEUE_ADAPTERS)[stage.client]))


def queue_client_of(stage: Stage) -> QueueClient:
    """Return the client that a stage on a queue talks through."""
    return cast("QueueClient", importlib.import_module(QUEUE_ADAPTERS[stage.client]))
