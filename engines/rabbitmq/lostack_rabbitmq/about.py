"""The declaration of the system RabbitMQ."""

from __future__ import annotations

from typing import Final

from harness.abilities import Beginning, BrokerSettings, TracedWrites
from harness.interfaces import PointsLine, System


def missing() -> str | None:
    """Say why RabbitMQ cannot be started here; ``None``: it can."""
    from lostack_rabbitmq import install  # noqa: PLC0415 - what looks is imported when it is asked

    return install.why_not()


SEMANTICS: Final = (
    "publish without confirm, automatic acknowledgement; ¹ confirm, no resend",
    "persistent, confirm, mandatory, resend; `basic.ack` after the work",
    "the same; the sink absorbs what comes twice",
)
BY_STOMP: Final = (
    "¹ receipt, no resend, `ack:auto`; where ACK has a receipt, ACK before the work",
    "persistent, receipt, resend; ACK with a receipt after the work",
    "the same; the sink absorbs what comes twice",
)
SYSTEM = System(
    name="rabbitmq",
    launcher="lostack_rabbitmq.system:RabbitSystem",
    clients=("pika", "stomp.py"),
    abilities=lambda _: frozenset({Beginning, BrokerSettings, TracedWrites}),
    scenarios="lostack_rabbitmq.scenarios:SCENARIOS",
    knowledge="lostack_rabbitmq.knowledge:KNOWLEDGE",
    points=(
        PointsLine("RabbitMQ 3.10.8, quorum queue", "quorum", "pika", SEMANTICS),
        PointsLine("RabbitMQ 3.10.8, quorum queue, STOMP", "quorum", "stomp.py", BY_STOMP),
    ),
    extra="rabbitmq",
    missing=missing,
)
