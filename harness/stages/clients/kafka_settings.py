"""What a stage's settings are called by Kafka's clients: the Java client's names, which librdkafka
has as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.stages.consumer_settings import GroupProtocol, Members, SavePosition

if TYPE_CHECKING:
    from harness.stages.stage import Stage


def of_producer(stage: Stage, transactional_id: str) -> dict[str, object]:
    """Return the settings of a stage's producer."""
    settings = stage.settings.producer
    config: dict[str, object] = {
        "bootstrap.servers": stage.bootstrap,
        "client.id": stage.client_id,
        "acks": settings.acks,
        "enable.idempotence": settings.idempotence,
        "max.in.flight.requests.per.connection": settings.in_flight,
        "linger.ms": settings.linger_ms if settings.unit > 1 else 0,
        "request.timeout.ms": settings.request_timeout_ms,
        "delivery.timeout.ms": settings.delivery_timeout_ms,
    }
    if not settings.retries:
        config |= {"retries": 0, "delivery.timeout.ms": settings.delivery_timeout_ms // 3}
    if settings.transactional:
        config |= {
            "transactional.id": transactional_id,
            "transaction.timeout.ms": stage.settings.transaction_timeout_ms,
        }
    return config


def of_consumer(stage: Stage) -> dict[str, object]:
    """Return the settings of a stage's member of its group."""
    settings = stage.settings.consumer
    config: dict[str, object] = {
        "group.id": stage.group,
        "enable.auto.commit": settings.position is SavePosition.AUTO,
        "auto.commit.interval.ms": settings.auto_commit_interval_ms,
        "isolation.level": settings.isolation,
        "max.partition.fetch.bytes": 1 if settings.unit == 1 else 1 << 20,
    }
    if (
        settings.protocol is GroupProtocol.CONSUMER
    ):  # the group says how long a session is, and how often to tell of oneself
        config["group.protocol"] = str(settings.protocol)
    else:
        config |= {
            "session.timeout.ms": settings.session_ms,
            "heartbeat.interval.ms": settings.heartbeat_ms,
        }
    if settings.members is Members.STATIC:
        config["group.instance.id"] = f"{stage.key}-{stage.name}"
    return config
