"""The arguments of lostack's topologies: words ``name=value``, see ``jvm/Topology.java`` and
``jvm/Trident.java``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode, urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from harness.systems.storm.settings import StormSettings, TopologySettings, TridentSettings

LOSING: Final = "lostack.Losing"
"""The class of lostack's transport between workers."""
EMIT_MS: Final = 10
"""The shortest interval (ms) between Trident's batches."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a topology works: the broker, its topics and group, and the cell's folders and id.

    ``direct``: the broker's own address, without the wire. ``keeper``: host and port of the
    ZooKeeper with Trident's transactions.
    """

    bootstrap: str
    source: str
    sink: str
    group: str
    history: Path
    failpoints: Path
    cell: str
    direct: str = ""
    keeper: tuple[str, int] = ("", 0)
    jars: str = ""
    """The class path of a topology with a pinned Kafka client; empty for Storm's own."""
    database: str = ""
    """The address of the database with Trident's state; empty if the state is in the sink topic."""


def words_of(place: Place, settings: StormSettings, client: str) -> list[str]:
    """Return the topology's arguments. ``client``: the client id of spout and bolt, and of Trident
    at ZooKeeper.
    """
    consumer, producer = settings.consumer, settings.producer
    topology, trident = settings.topology, settings.trident
    words: dict[str, object] = {
        "bootstrap": place.bootstrap,
        "in": place.source,
        "out": place.sink,
        "group": place.group,
        "spout.client.id": client,
        "spout.isolation.level": consumer.isolation,
        "spout.fetch.max.wait.ms": 50,
        "spout.max.poll.records": consumer.unit,
        "spout.request.timeout.ms": consumer.patience_ms,
        "spout.default.api.timeout.ms": 2 * consumer.patience_ms,
        "spout.enable.metrics.push": False,
        "bolt.client.id": client,
        "bolt.acks": producer.acks,
        "bolt.enable.idempotence": producer.idempotence,
        "bolt.request.timeout.ms": producer.request_timeout_ms,
        "bolt.delivery.timeout.ms": producer.delivery_timeout_ms,
        "bolt.enable.metrics.push": False,
        "conf.lostack.history": place.history.absolute(),
        "conf.lostack.failpoints": place.failpoints.absolute(),
        "conf.lostack.cell": place.cell,
        "conf.lostack.group": place.group,
        "conf.topology.fall.back.on.java.serialization": True,
    }
    words |= _plain(topology) if trident is None else _trident(trident, place, client)
    if place.jars:
        words |= {"jars": place.jars, "conf.topology.classpath.beginning": place.jars}
    if consumer.unit == 1:
        words |= {"spout.fetch.max.bytes": 1, "spout.max.partition.fetch.bytes": 1}
    if not producer.retries:
        words |= {"bolt.retries": 0}
    return [
        f"{name}={str(told).lower() if isinstance(told, bool) else told}"
        for name, told in words.items()
    ]


def _plain(topology: TopologySettings) -> Mapping[str, object]:
    return {
        "class": "lostack.Topology",
        "guarantee": topology.guarantee,
        "commit": topology.commit_ms,
        "forget": topology.ackers == 0,
        "apart": topology.apart,
        "bolt.linger.ms": topology.linger_ms,
        "conf.lostack.anchored": topology.anchored,
        "conf.topology.workers": 2 if topology.apart else 1,
        "conf.topology.acker.executors": topology.ackers,
        "conf.topology.message.timeout.secs": topology.timeout_s,
        "conf.topology.max.spout.pending": topology.pending,
        **({"conf.storm.messaging.transport": LOSING} if topology.apart else {}),
    }


def _trident(trident: TridentSettings, place: Place, client: str) -> Mapping[str, object]:
    """Return the arguments of a Trident topology, which works on one batch at a time."""
    host, port = place.keeper
    return {
        "class": "lostack.Trident",
        "spout": trident.spout,
        "state": trident.state,
        "poll": trident.poll_ms,
        "direct": place.direct,
        "conf.topology.workers": 1,
        "conf.topology.acker.executors": 1,
        "conf.topology.max.spout.pending": 1,
        "conf.topology.message.timeout.secs": trident.timeout_s,
        "conf.topology.trident.batch.emit.interval.millis": EMIT_MS,
        "conf.transactional.zookeeper.servers": f"[{host}]",
        "conf.transactional.zookeeper.port": port,
        "conf.transactional.zookeeper.root": root_of(client),
        **({"database": jdbc(place.database, client)} if place.database else {}),
    }


def jdbc(address: str, client: str) -> str:
    """Return the JDBC address of a database, with the client's name, by which the wire recognises
    the connection.

    >>> jdbc("postgresql://me:word@127.0.0.1:5432/cell?sslmode=disable&gssencmode=disable", "cell.worker")
    'jdbc:postgresql://127.0.0.1:5432/cell?user=me&password=word&sslmode=disable&gssEncMode=disable&assumeMinServerVersion=9.0&ApplicationName=cell.worker'
    """  # noqa: E501
    parts = urlsplit(address)
    words = {
        "user": parts.username,
        "password": parts.password,
        "sslmode": "disable",
        "gssEncMode": "disable",
        "assumeMinServerVersion": "9.0",
        "ApplicationName": client,
    }
    return f"jdbc:{parts.scheme}://{parts.hostname}:{parts.port}{parts.path}?{urlencode(words)}"


def root_of(client: str) -> str:
    """Return the ZooKeeper node below which a client's topology keeps its transactions."""
    return f"/{client}"
