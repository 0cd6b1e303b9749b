"""The settings of a worker and of lostack's connectors, by Kafka Connect's names for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.stages.consumer_settings import Members
from lostack_connect.settings import Aside

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lostack_connect.settings import ConnectSettings

TOPICS: Final = {"offset": "offsets", "config": "configs", "status": "statuses"}
"""What a worker keeps, by the names of its settings → the suffix of its topic."""
BYTES: Final = "org.apache.kafka.connect.converters.ByteArrayConverter"
CLIENT: Final = "LOSTACK_CLIENT"
"""The variable of the client id of a worker's tasks. It differs between workers, which share the
settings of a connector.
"""
PACKAGE: Final = "lostack.connect"


def topic_of(key: str, what: str) -> str:
    """Return the topic in which the workers of a cell keep their offsets, configs or statuses."""
    return f"{key}.{TOPICS[what]}"


def cluster_of(key: str) -> str:
    """Return the ``group.id`` of the workers of a cell."""
    return f"{key}.worker"


def worker_words(
    settings: ConnectSettings, key: str, *, client: str, bootstrap: str, port: int
) -> dict[str, str]:
    """Return the properties of a worker. It names its own clients ``group.id-client.id-``, and what
    they are for.
    """
    connect = settings.connect
    return {
        "bootstrap.servers": bootstrap,
        "group.id": cluster_of(key),
        "client.id": client,
        "listeners": f"http://127.0.0.1:{port}",
        "rest.advertised.host.name": "127.0.0.1",
        "plugin.discovery": "service_load",
        **dict.fromkeys(("key.converter", "value.converter", "header.converter"), BYTES),
        **{f"{name}.storage.topic": topic_of(key, name) for name in TOPICS},
        **{f"{name}.storage.replication.factor": "1" for name in TOPICS},
        "offset.storage.partitions": "1",
        "status.storage.partitions": "1",
        "offset.flush.interval.ms": str(connect.flush_ms),
        "exactly.once.source.support": "enabled" if connect.exactly_once else "disabled",
        # what a dead worker had is given to another at once, and not after five minutes
        "scheduled.rebalance.max.delay.ms": "0",
        "session.timeout.ms": str(connect.session_ms),
        "heartbeat.interval.ms": str(connect.session_ms // 10),
        "config.providers": "env",
        "config.providers.env.class": (
            "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
        ),
    }


def source_words(settings: ConnectSettings, file: str, topic: str) -> Mapping[str, str]:
    """Return the settings of the source connector. ``file``: what it reads."""
    once = {
        "exactly.once.support": "required",
        "transaction.boundary": "poll",
        # a worker that starts waits for the end of the transactions in its topic of offsets
        "producer.override.transaction.timeout.ms": str(settings.transaction_timeout_ms),
    }
    producer = {
        "client.id": f"${{env:{CLIENT}}}",
        "request.timeout.ms": settings.producer.request_timeout_ms,
        "retry.backoff.ms": 50,
    }
    return {
        "connector.class": f"{PACKAGE}.OutboxSource",
        "tasks.max": "1",
        "file": file,
        "topic": topic,
        "step": str(not settings.connect.exactly_once).lower(),
        "ahead": str(settings.connect.ahead),
        **{f"producer.override.{name}": str(value) for name, value in producer.items()},
        **(once if settings.connect.exactly_once else {}),
    }


def letters_of(key: str) -> str:
    """Return the topic of a cell's dead letters."""
    return f"{key}.letters"


def sink_words(
    settings: ConnectSettings, file: str, topic: str, group: str, *, letters: str, bad: str
) -> Mapping[str, str]:
    """Return the settings of the sink connector. ``file``: of the database that it writes to;
    ``bad``: the record that it sets aside in the topic ``letters``, if it does.
    """
    consumer = settings.consumer
    words: dict[str, object] = {
        "client.id": f"${{env:{CLIENT}}}",
        "group.id": group,
        "isolation.level": consumer.isolation,
        "interceptor.classes": f"{PACKAGE}.RowSink$Epochs",
        "max.poll.records": 1,
        "fetch.max.bytes": 1,
        "max.partition.fetch.bytes": 1,
        "fetch.max.wait.ms": 100,
        "request.timeout.ms": consumer.patience_ms,
        "session.timeout.ms": consumer.session_ms,
        "heartbeat.interval.ms": consumer.heartbeat_ms,
    }
    if consumer.members is Members.STATIC:
        words["group.instance.id"] = f"{group}-task"
    return {
        "connector.class": f"{PACKAGE}.RowSink",
        "tasks.max": "1",
        "topics": topic,
        "file": file,
        "mode": str(settings.connect.writes),
        **_aside_words(settings.connect.aside, letters, bad),
        **{f"consumer.override.{name}": str(value) for name, value in words.items()},
    }


def _aside_words(aside: Aside, letters: str, bad: str) -> dict[str, str]:
    if aside is Aside.NONE:
        return {}
    refuses = {
        "transforms": "refusal",
        "transforms.refusal.type": f"{PACKAGE}.RowSink$Refusal",
        "transforms.refusal.bad": bad,
    }
    return {
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": letters,
        "errors.deadletterqueue.topic.replication.factor": "1",
        "producer.override.client.id": f"${{env:{CLIENT}}}",
        **({"bad": bad} if aside is Aside.REPORTED else refuses),
    }


def launched_words(
    own: Mapping[str, str], *, bootstrap: str, cluster: str, port: int, plugins: str
) -> dict[str, str]:
    """Return the properties of a worker that runs a declared connector. ``own``: those that the
    declaration gives; ``cluster``: a name that no other cell has.

    A worker that comes back is given its tasks at once, and not after the five minutes in which the
    others of a cluster would wait for it.
    """
    # a topic whose name begins so is no topic of the pipeline while no record of the load is in it
    topics = {f"{name}.storage.topic": f"__{cluster}-{suffix}" for name, suffix in TOPICS.items()}
    return {
        "group.id": cluster,
        **topics,
        **{f"{name}.storage.replication.factor": "-1" for name in TOPICS},
        "offset.storage.partitions": "1",
        "status.storage.partitions": "1",
        **dict.fromkeys(
            ("key.converter", "value.converter"), "org.apache.kafka.connect.json.JsonConverter"
        ),
        "scheduled.rebalance.max.delay.ms": "0",
        "session.timeout.ms": "6000",
        "heartbeat.interval.ms": "500",
        "config.providers.env.class": (
            "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
        ),
        **({"plugin.path": plugins} if plugins else {}),
        **own,
        # besides those of the declaration
        "config.providers": ",".join(
            dict.fromkeys((*own.get("config.providers", "env").replace(" ", "").split(","), "env"))
        ),
        "bootstrap.servers": bootstrap,
        "listeners": f"http://127.0.0.1:{port}",
        "rest.advertised.host.name": "127.0.0.1",
    }


def own_topics_in(words: Mapping[str, str]) -> tuple[str, ...]:
    """Return the topics in which a worker keeps what it must know again."""
    return tuple(words[f"{name}.storage.topic"] for name in TOPICS)
