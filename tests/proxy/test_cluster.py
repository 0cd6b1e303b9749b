"""The proxy in front of three real brokers, one of which is taken down in order and comes back at
another port, and another one is killed. Clients know them by names that lead nowhere.
"""

from __future__ import annotations

import signal
import threading
import time
import uuid
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, ElectionType, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from kafka import KafkaConsumer, KafkaProducer

from harness.model import events as kinds
from harness.model.history import read_history
from harness.model.waiting import wait_until
from harness.proxy.delivered import assert_delivered
from harness.proxy.proxy import Proxy
from harness.runtimes.ports import PortLease
from tests.proxy.own_kafka import OwnKafka, wait_for_brokers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [pytest.mark.kafka, pytest.mark.rest, pytest.mark.timeout(400)]
NODES = (1, 2, 3)
TAKEN_DOWN, KILLED = 2, 3
WITHIN_S = 90.0
A_STEP = 40
"""So many records of each client are acknowledged behind each step."""


class Cluster:
    """Three brokers, each a controller, too. ``located``: where their names lead."""

    def __init__(self, folder: Path, ports: tuple[int, ...]) -> None:
        self.kafka = OwnKafka(folder)
        self._controllers, self._inside, self._clients = ports[:3], ports[3:6], list(ports[6:9])
        self._another = ports[9]
        self.located = {
            f"kafka-{number}.example:{port}": f"127.0.0.1:{port}"
            for number, port in (*zip(NODES, self._clients, strict=True), (TAKEN_DOWN, ports[9]))
        }
        self.upstream = f"127.0.0.1:{self._clients[0]}"
        for number in NODES:
            self.kafka.start(number, self._settings(number))
        self.direct = f"127.0.0.1:{self._inside[0]}"
        wait_for_brokers(self.direct, len(NODES))
        self.admin = AdminClient({"bootstrap.servers": self.direct})

    def _settings(self, number: int) -> dict[str, str]:
        at = number - 1
        inside, client = f"INSIDE://127.0.0.1:{self._inside[at]}", self._clients[at]
        voters = zip(NODES, self._controllers, strict=True)
        return {
            "process.roles": "broker,controller",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": ",".join(f"{n}@127.0.0.1:{port}" for n, port in voters),
            "inter.broker.listener.name": "INSIDE",
            "listeners": f"CONTROLLER://127.0.0.1:{self._controllers[at]},{inside},"
            f"CLIENTS://127.0.0.1:{client}",
            "advertised.listeners": f"{inside},CLIENTS://kafka-{number}.example:{client}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,INSIDE:PLAINTEXT,"
            "CLIENTS:PLAINTEXT",
            "offsets.topic.num.partitions": "3",
            "group.initial.rebalance.delay.ms": "0",
            "broker.session.timeout.ms": "3000",
            "broker.heartbeat.interval.ms": "300",
            "auto.leader.rebalance.enable": "false",
        }

    def leaders(self, topic: str) -> list[int]:
        """Return who leads each partition."""
        partitions = self.admin.list_topics(topic, timeout=30).topics[topic].partitions
        return [partitions[number].leader for number in sorted(partitions)]

    def in_sync(self, topic: str) -> int:
        """Return how many replicas are in sync at the partition that has the fewest."""
        partitions = self.admin.list_topics(topic, timeout=30).topics[topic].partitions
        return min(len(each.isrs) for each in partitions.values())

    def take_down(self) -> None:
        """End a broker in order: others lead its partitions before it goes."""
        process = self.kafka.process(TAKEN_DOWN)
        process.send_signal(signal.SIGTERM)
        process.wait(WITHIN_S)
        self.kafka.kill(TAKEN_DOWN)

    def bring_back(self) -> int:
        """Start it again, at another port; return which."""
        self._clients[TAKEN_DOWN - 1] = self._another
        self.kafka.start(TAKEN_DOWN, self._settings(TAKEN_DOWN))
        return self._another


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Start it."""
    with PortLease(10) as lease:
        made = None
        try:
            made = Cluster(tmp_path, tuple(lease.ports))
            yield made
        finally:
            if made is not None:
                made.kafka.close()


class Shop:
    """A program that sends one record after the other until it is told to end, by one client."""

    def __init__(self, role: str, bootstrap: str) -> None:
        self.role, self.topic = role, f"orders-{role}-{uuid.uuid4()}"
        self.bootstrap = bootstrap
        self.sent: list[str] = []
        """Those that were acknowledged."""
        self.failed: Exception | None = None
        self._over = threading.Event()
        send = self._by_kafka_python if role == "python" else self._by_librdkafka
        self._thread = threading.Thread(target=self._run, args=(send,))

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def _run(self, send: Callable[[], None]) -> None:
        try:
            send()
        except Exception as error:  # noqa: BLE001 - the test looks at it
            self.failed = error

    def _by_kafka_python(self) -> None:
        producer = KafkaProducer(bootstrap_servers=self.bootstrap, acks="all")
        while not self._over.is_set():
            number = str(len(self.sent))
            producer.send(self.topic, number.encode(), key=number.encode()).get(timeout=WITHIN_S)
            self.sent.append(number)
        producer.close()

    def _by_librdkafka(self) -> None:
        producer = Producer(
            {"bootstrap.servers": self.bootstrap, "enable.idempotence": True, "linger.ms": 0}
        )
        while not self._over.is_set():
            number = str(len(self.sent))
            producer.produce(self.topic, number.encode(), key=number.encode())
            assert producer.flush(WITHIN_S) == 0
            self.sent.append(number)

    def goes_on(self) -> None:
        """Wait until so many more records were acknowledged."""
        until = len(self.sent) + A_STEP
        wait_until(
            lambda: self.failed is not None or len(self.sent) >= until,
            within_s=WITHIN_S,
            because=f"{A_STEP} more records of {self.role}",
            poll_s=0.05,
        )
        assert self.failed is None, self.failed

    def end(self) -> None:
        """Send no more."""
        self._over.set()
        self._thread.join(2 * WITHIN_S)
        assert not self._thread.is_alive()

    def rows(self) -> list[str]:
        """Read what is there, by the same client."""
        rows: list[str] = []
        deadline = time.monotonic() + WITHIN_S
        if self.role == "python":
            reading = {"auto_offset_reset": "earliest", "consumer_timeout_ms": 10_000}
            consumer = KafkaConsumer(
                self.topic, bootstrap_servers=self.bootstrap, group_id=self.topic, **reading
            )
            rows = [message.value.decode() for message in consumer]
            consumer.close()
            return rows
        other = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": self.topic,
                "auto.offset.reset": "earliest",
            }
        )
        other.subscribe([self.topic])
        silent = 0
        while time.monotonic() < deadline and (len(rows) < len(self.sent) or silent < 3):
            message = other.poll(1.0)
            if message is None or message.error():
                silent += 1
            else:
                rows.append((message.value() or b"").decode())
        other.close()
        return rows


def test_all_is_delivered_while_leaders_move_and_a_broker_is_killed(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Each role has its ports, which stay; the names of the brokers lead where the test says."""
    roles, seen = {"python": 0, "librdkafka": 0}, tmp_path / "seen"
    with Proxy(cluster.upstream, located=cluster.located, roles=roles, history=seen) as proxy:
        shops = [Shop(role, proxy.bootstrap_of(role)) for role in roles]
        try:
            for future in cluster.admin.create_topics(
                [NewTopic(shop.topic, 3, 3, config={"min.insync.replicas": "2"}) for shop in shops]
            ).values():
                future.result(WITHIN_S)
            for shop in shops:
                shop.start()
            _trouble(cluster, proxy, shops)
        finally:
            for shop in shops:
                shop.end()
        for shop in shops:
            rows = shop.rows()
            assert_delivered(shop.sent, rows, exactly="once", proxy=proxy)
            ways = proxy.records(shop.topic, role=shop.role)
            assert {way.acknowledged for way in ways} == {1}
            assert all(way.fetched for way in ways)  # a client may fetch again what it has
            assert len(ways) == len(shop.sent)
            [other] = [each for each in roles if each != shop.role]
            assert proxy.records(shop.topic, role=other) == []
    lines = read_history(seen / "history")
    reached = {(event.role, event.node) for event in lines.of(kinds.Frame)}
    assert {(role, f"broker-{number}") for role in roles for number in NODES} <= reached


def _trouble(cluster: Cluster, proxy: Proxy, shops: list[Shop]) -> None:
    """Take a broker down in order, bring it back at another port, let it lead again, and kill
    another one.
    """
    for shop in shops:
        shop.goes_on()
    before = ports_of(proxy)
    assert len(before) == (len(NODES) + 1) * len(shops) + 1
    led = {shop.topic: cluster.leaders(shop.topic) for shop in shops}
    assert all(set(leaders) == set(NODES) for leaders in led.values())
    cluster.take_down()
    for shop in shops:
        shop.goes_on()
        assert TAKEN_DOWN not in cluster.leaders(shop.topic)
    another = cluster.bring_back()
    wait_until(
        lambda: {cluster.in_sync(shop.topic) for shop in shops} == {len(NODES)},
        within_s=WITHIN_S,
        because="the broker to have caught up",
        poll_s=0.2,
    )
    every = [TopicPartition(shop.topic, number) for shop in shops for number in range(3)]
    cluster.admin.elect_leaders(ElectionType.PREFERRED, every).result(WITHIN_S)
    for shop in shops:
        shop.goes_on()
        assert cluster.leaders(shop.topic) == led[shop.topic]
    assert ports_of(proxy) == before
    moved = [each for each in proxy.control.routes() if each.name.endswith(f"#{TAKEN_DOWN}")]
    assert {each.upstream_port for each in moved} == {another}
    cluster.kafka.kill(KILLED)
    for shop in shops:
        shop.goes_on()
    assert ports_of(proxy) == before


def ports_of(proxy: Proxy) -> dict[str, int]:
    """Return the proxy's own ports, by the names of the wire's routes."""
    return {each.name: each.listen_port for each in proxy.control.routes()}
