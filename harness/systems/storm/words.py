"""What our topology is told when it is submitted: words ``name=value``, see ``jvm/Topology.java``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.model.scenario import Role

if TYPE_CHECKING:
    from harness.systems.kafka.scene import Scene
    from harness.systems.storm.settings import StormSettings


def words_of(scene: Scene, settings: StormSettings, client: str) -> list[str]:
    """Return the words. ``client``: what its spout and its bolt call themselves to the broker."""
    topology, consumer, producer = settings.topology, settings.consumer, settings.producer
    words: dict[str, object] = {
        "bootstrap": scene.transport.bootstrap(Role.PROCESSOR), "in": scene.source, "out": scene.sink, "group": scene.group,
        "guarantee": topology.guarantee, "commit": topology.commit_ms, "forget": topology.ackers == 0,
        "spout.client.id": client, "spout.isolation.level": consumer.isolation, "spout.fetch.max.wait.ms": 50,
        "spout.max.poll.records": consumer.unit, "spout.request.timeout.ms": consumer.patience_ms,
        "spout.default.api.timeout.ms": 2 * consumer.patience_ms, "spout.enable.metrics.push": False,
        "bolt.client.id": client, "bolt.acks": producer.acks, "bolt.enable.idempotence": producer.idempotence,
        "bolt.linger.ms": topology.linger_ms, "bolt.request.timeout.ms": producer.request_timeout_ms,
        "bolt.delivery.timeout.ms": producer.delivery_timeout_ms, "bolt.enable.metrics.push": False,
        "conf.lostack.history": scene.history_folder.absolute(), "conf.lostack.cell": scene.cell.id,
        "conf.lostack.group": scene.group, "conf.lostack.anchored": topology.anchored,
        "conf.topology.workers": 1, "conf.topology.acker.executors": topology.ackers,
        "conf.topology.message.timeout.secs": topology.timeout_s, "conf.topology.max.spout.pending": topology.pending,
        "conf.topology.fall.back.on.java.serialization": True,
    }  # fmt: skip
    if consumer.unit == 1:
        words |= {"spout.fetch.max.bytes": 1, "spout.max.partition.fetch.bytes": 1}
    if not producer.retries:
        words |= {"bolt.retries": 0}
    return [f"{name}={str(told).lower() if isinstance(told, bool) else told}" for name, told in words.items()]
