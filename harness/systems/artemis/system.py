"""ActiveMQ Artemis as a system under test."""

from __future__ import annotations

from typing import Final

from harness.abilities import Refusal
from harness.run.queue_server import Product
from harness.run.queue_system import QueueSystem, Refusing
from harness.systems.artemis.install import RECIPE
from harness.systems.artemis.journal import called, messages

CONNECTORS: Final = {
    # a client that has no heart-beats is quiet for as long as it likes: a week
    "stomp": "tcp://127.0.0.1:{port}?protocols=STOMP&anycastPrefix=/queue/&connectionTtl=604800000&useEpoll=false&useKQueue=false",
    "core": "tcp://127.0.0.1:{port}?protocols=CORE&useEpoll=false&useKQueue=false",
    "openwire": "tcp://127.0.0.1:{port}?protocols=OPENWIRE&supportAdvisory=false&useEpoll=false&useKQueue=false",
    "amqp": "tcp://127.0.0.1:{port}?protocols=AMQP&useEpoll=false&useKQueue=false",
}
ARTEMIS: Final = Product(
    "Artemis", RECIPE, messages, CONNECTORS, called, lambda broker, queue: {Refusal: Refusing(broker, queue)}
)  # fmt: skip


def launcher(_runtime: str = "process", version: str | None = None) -> QueueSystem:
    """Return its launcher."""
    return QueueSystem(ARTEMIS, version)
