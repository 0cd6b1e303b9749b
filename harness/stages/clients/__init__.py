"""The client libraries of lostack's stages. Each has an adapter module, chosen by ``stage.client``
and imported when used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from harness.stages.clients.interface import Client
    from harness.stages.clients.queues import QueueClient
    from harness.stages.stage import Stage

JAVA = "java"
"""Kafka's Java client, kafka-clients, which is not a Python package."""
ADAPTERS = {
    "kafka-python": "harness.stages.clients.kafka_python",
    "confluent-kafka": "harness.stages.clients.librdkafka",
    JAVA: "harness.stages.clients.java",
}
"""The adapter module of every client of a log. Python clients have their names on the package
index.
"""
STOMP_PY = "stomp.py"
OPENWIRE = "openwire"
"""The JMS client for this protocol, in Java. Other JMS clients are also named after
their protocol.
"""
AMQP, CORE = "amqp", "core"
JMS_CLIENTS = (OPENWIRE, AMQP, CORE)
PULSAR_CLIENT, PULSAR_JAVA = "pulsar-client", "pulsar-java"
QUEUE_ADAPTERS = {
    STOMP_PY: "harness.stages.clients.stomp_py",
    PULSAR_CLIENT: "harness.stages.clients.pulsar_client",
    PULSAR_JAVA: "harness.stages.clients.pulsar_java",
    **dict.fromkeys(JMS_CLIENTS, "harness.stages.clients.jms"),
}
"""The adapter module of every client of a queue: see :mod:`.queues`."""

_QUEUE_STAGES = ("harness.stages.producer", "harness.stages.queue_consumer", "encodings.idna")
PRELOADS = {
    "kafka-python": (
        "harness.stages.producer",
        "harness.stages.consumer",
        "harness.stages.processor",
        ADAPTERS["kafka-python"],
        f"{ADAPTERS['kafka-python']}_codecs",
        "encodings.idna",  # what the first look-up of a host's name brings
    ),
    STOMP_PY: (*_QUEUE_STAGES, QUEUE_ADAPTERS[STOMP_PY]),
}
"""Modules that stage programs import, and that start no threads on import. They may be imported
before a program starts.
"""


def client_of(stage: Stage) -> Client:
    """Return the adapter of a stage's client. For a client of a queue, only its producing half may
    be used.
    """
    where = stage.adapter or (ADAPTERS | QUEUE_ADAPTERS)[stage.client]
    return cast("Client", importlib.import_module(where))


def queue_client_of(stage: Stage) -> QueueClient:
    """Return the adapter of the client of a stage on a queue."""
    where = stage.adapter or QUEUE_ADAPTERS[stage.client]
    return cast("QueueClient", importlib.import_module(where))


def preloads(client: str, adapter: str = "") -> tuple[str, ...]:
    """Return what stage programs with a client import, and what may be imported before one starts.
    ``adapter``: the client's module, if another package brings it. It starts no thread on import.
    """
    return (*_QUEUE_STAGES, adapter) if adapter else PRELOADS.get(client, ())
