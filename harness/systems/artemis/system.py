"""ActiveMQ Artemis as a system under test."""

from __future__ import annotations

from typing import Final

from harness.abilities import Refusal
from harness.run.queue_server import Product
from harness.run.queue_system import QueueSystem, Refusing
from harness.systems.artemis.install import RECIPE
from harness.systems.artemis.journal import called, messages

CONNECTORS: Final = {
    # a client without heart-beats may be silent for a week
    "stomp": "tcp://{host}:{port}?protocols=STOMP&anycastPrefix=/queue/&connectionTtl=604800000&useEpoll=false&useKQueue=false",
    "core": "tcp://{host}:{port}?protocols=CORE&useEpoll=false&useKQueue=false",
    # ArtemisBroker.java starts it, when it has set what Artemis has no setting for
    "openwire": "tcp://{host}:{port}?protocols=OPENWIRE&supportAdvisory=false&useEpoll=false&useKQueue=false&autoStart=false",
    "amqp": "tcp://{host}:{port}?protocols=AMQP&useEpoll=false&useKQueue=false",
}
ARTEMIS: Final = Product(
    "Artemis",
    RECIPE,
    messages,
    CONNECTORS,
    called,
    lambda broker, queue: {Refusal: Refusing(broker, queue)},
)


def launcher(runtime: str = "process", version: str | None = None) -> QueueSystem:
    """Return the launcher of ActiveMQ Artemis."""
    return QueueSystem(ARTEMIS, version, runtime)
