"""The wire's speed: one producer and one consumer at full speed, directly, through the wire, and
through Toxiproxy.

In turn, in one run, several rounds: what else the machine does meanwhile hits all three alike.
``ratio`` is by direct.
"""

from __future__ import annotations

import itertools
import socket
import statistics
import struct
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
from confluent_kafka import Consumer, Producer

from harness.model.record import Record
from harness.model.scenario import Deployment, Role
from harness.model.waiting import wait_until
from harness.provision.cache import cache_root
from harness.provision.toxiproxy import ensure_toxiproxy
from harness.run.wire import start_wire
from harness.runtimes.process.runtime import ProcessRuntime
from harness.services.toxiproxy.server import ToxiproxyServer
from harness.systems.kafka.system import KafkaSystem
from harness.wire.messages import Route

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from harness.runtimes.interface import Node
    from harness.systems.kafka.transport import KafkaTransport

RECORDS = 1_000_000
RECORD_BYTES = 200
IN_A_CELL = 200_000
ASKS = 2000
AT_ONCE = (1, 4, 16)
CONNECTIONS = 200
LARGE_BYTES = 50 << 20
LOOPBACK = "127.0.0.1"
WITHIN_S = 300.0
KEY = "bench000"


@dataclass(frozen=True)
class Way:
    """One way to the broker."""

    name: str
    bootstrap: str
    settings: Mapping[str, str] = field(default_factory=dict)
    """How a client is let in."""


def measure(rounds: int) -> dict[str, Any]:
    """Deploy, measure in turn, return figures."""
    return _deployed(lambda kafka, server, folder: _all(kafka, server, rounds, folder))


def asks(rounds: int) -> dict[str, Any]:
    """Only how long a small request takes, with so many connections that ask at once."""

    def asked(kafka: KafkaTransport, server: ToxiproxyServer, _: Path) -> dict[str, Any]:
        ways = _ways(kafka, server)
        found: dict[str, Any] = {"rounds": rounds}
        for many in AT_ONCE:
            times: dict[str, list[list[float]]] = {way.name: [] for way in ways}
            for number in range(rounds):
                for way in ways[number % 3 :] + ways[: number % 3]:
                    times[way.name].append(_ask_at_once(way, ASKS // many, many))
            found[f"request to answer, us, {many} at once"] = _latencies(times)
        return found

    return _deployed(asked)


def _deployed(
    measured: Callable[[KafkaTransport, ToxiproxyServer, Path], dict[str, Any]],
) -> dict[str, Any]:
    """Measure with a broker, its wire and a Toxiproxy."""
    system = KafkaSystem()
    system.prepare(print)
    program = ensure_toxiproxy(cache_root(), print)
    with tempfile.TemporaryDirectory() as directory:
        deployed = system.deploy(Deployment.OWN, Path(directory))
        try:
            kafka = deployed.transport
            server = ToxiproxyServer(
                kafka.runtime, program, kafka.toxiproxy_port, Path(directory, "toxiproxy.log")
            )
            server.await_ready()
            return measured(kafka, server, Path(directory))
        finally:
            deployed.close()


def _ways(kafka: KafkaTransport, server: ToxiproxyServer) -> tuple[Way, ...]:
    return (
        Way("direct", kafka.broker.bootstrap),
        Way("wire", kafka.bootstrap(Role.PRODUCER)),
        Way("toxiproxy", _behind_toxiproxy(kafka, server)),
    )


def _all(
    kafka: KafkaTransport, server: ToxiproxyServer, rounds: int, directory: Path
) -> dict[str, Any]:
    ways = _ways(kafka, server)
    _produce(kafka, ways[0], "warm-up", RECORDS // 4)
    produced: dict[str, list[float]] = {way.name: [] for way in ways}
    consumed: dict[str, list[float]] = {way.name: [] for way in ways}
    proxies = {"wire": kafka.wire_node, "toxiproxy": server.node}
    since = {name: _cpu_s(node) for name, node in proxies.items()}
    for number in range(rounds):
        for way in ways[number % 3 :] + ways[: number % 3]:
            topic = f"{way.name}-{number}"
            produced[way.name].append(_produce(kafka, way, topic, RECORDS))
            consumed[way.name].append(_consume(way, topic, RECORDS))
    gigabytes = 2 * rounds * RECORDS * RECORD_BYTES / 1e9
    cost = {
        name: round((_cpu_s(node) - since[name]) / gigabytes, 2) for name, node in proxies.items()
    }
    kafka.wire.open_cell("bench", KEY, directory / "cell" / "wire.jsonl")
    in_a_cell = {
        kind: [
            _produce(
                kafka,
                ways[1],
                f"{KEY}.{kind}.{n}",
                IN_A_CELL,
                client=f"{KEY}.producer.1",
                named=kind == "named",
            )
            for n in range(rounds)
        ]
        for kind in ("nameless", "named")
    }
    kafka.wire.close_cell("bench")
    asked = {way.name: [_ask(way, ASKS) for _ in range(rounds)] for way in ways}
    return {
        "records": RECORDS,
        "record bytes": RECORD_BYTES,
        "rounds": rounds,
        "produce, records/s": _rates(produced),
        "consume, records/s": _rates(consumed),
        "processor seconds a gigabyte": cost,
        "produce in a recorded cell, records/s": {
            kind: round(statistics.median(rates)) for kind, rates in in_a_cell.items()
        },
        "request to answer, us": _latencies(asked),
        "memory of the wire, MB": _memory(directory),
    }


def _cpu_s(node: Node) -> float:
    times = psutil.Process(node.pid).cpu_times()
    return float(times.user + times.system)


def _memory(directory: Path) -> dict[str, float]:
    """Resident megabytes of a wire of its own: idle, with 200 connections, with a 50 MB frame on
    its way in each of them.

    Nobody reads behind it, so everything it could keep it would keep.
    """
    with (
        ProcessRuntime(directory=directory) as runtime,
        socket.create_server((LOOPBACK, 0), backlog=512) as nobody,
    ):
        folder = directory / "deployments" / "memory"
        folder.mkdir(parents=True)
        running = start_wire(runtime, folder, ())
        node = running.node
        with running.control as wire:
            route = wire.add_route(
                Route("r", "b", "producer", 0, nobody.getsockname()[1], protocol="kafka")
            )
            told = {"idle": _resident_mb(node)}
            socks = [
                socket.create_connection((LOOPBACK, route.listen_port), timeout=10)
                for _ in range(CONNECTIONS)
            ]
            wait_until(
                lambda: wire.routes()[0].connections == CONNECTIONS,
                within_s=20,
                because="the connections",
            )
            told[f"{CONNECTIONS} connections"] = _resident_mb(node)
            for sock in socks:
                sock.setblocking(False)
                _offer(sock, LARGE_BYTES)
            told[f"{CONNECTIONS} connections, {LARGE_BYTES >> 20} MB frames"] = _resident_mb(node)
            for sock in socks:
                sock.close()
        return told


def _offer(sock: socket.socket, size: int) -> None:
    """Begin a frame, and send of it what is taken."""
    head = struct.pack(">ihhih", size, 0, 9, 1, 5) + b"bench" + bytes(3)
    block = bytes(1 << 20)
    try:
        sock.send(head)
        while True:
            sock.send(block)
    except BlockingIOError:
        return


def _resident_mb(node: Node) -> float:
    held: int = psutil.Process(node.pid).memory_info().rss
    return round(held / (1 << 20), 1)


def _behind_toxiproxy(kafka: KafkaTransport, server: ToxiproxyServer) -> str:
    """Let Toxiproxy take the wire's place on one listener, whose advertised address is
    that port.
    """
    route = next(route for route in kafka.wire.routes() if route.role == Role.PROCESSOR)
    kafka.wire.remove_route(route.name)
    server.client.create("bench", route.upstream_port, listen_port=route.listen_port)
    return f"127.0.0.1:{route.listen_port}"


def _produce(
    kafka: KafkaTransport,
    way: Way,
    topic: str,
    count: int,
    client: str = "bench",
    *,
    named: bool = False,
) -> float:
    """Produce at full speed; return records a second, the last ack included. ``named``: with ids,
    each of which has lines.
    """
    kafka.observer.create_topics({topic: (1, {})})
    failed: list[object] = []
    producer = Producer(
        {
            "bootstrap.servers": way.bootstrap,
            "client.id": client,
            "enable.idempotence": True,
            "linger.ms": 5,
            "batch.size": 1 << 20,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 1 << 20,
            **way.settings,
        }
    )
    filler = "v" * (RECORD_BYTES - len(Record("k-100000", "k", 100000).encode(KEY)))
    values = (
        [Record(f"k-{n}", "k", n, filler).encode(KEY) for n in range(count)]
        if named
        else [b"v" * RECORD_BYTES] * count
    )
    since = time.perf_counter()
    for number, value in enumerate(values):
        producer.produce(
            topic, value, on_delivery=lambda error, _: failed.append(error) if error else None
        )
        if not number % 1000:
            producer.poll(0)
    left = producer.flush(WITHIN_S)
    seconds = time.perf_counter() - since
    if left or failed:
        raise RuntimeError(f"{way.name}: {left} records not acknowledged, {len(failed)} failed")
    return count / seconds


def _consume(way: Way, topic: str, count: int) -> float:
    """Consume from the beginning at full speed; return records a second, from the first one on."""
    consumer = Consumer(
        {
            "bootstrap.servers": way.bootstrap,
            "client.id": "bench",
            "group.id": f"bench-{topic}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "fetch.min.bytes": 1 << 16,
            "queued.max.messages.kbytes": 1 << 17,
            **way.settings,
        }
    )
    consumer.subscribe([topic])
    got, since, deadline = 0, 0.0, time.perf_counter() + WITHIN_S
    while got < count and time.perf_counter() < deadline:
        got += len(consumer.consume(10_000, timeout=1.0))
        if got and not since:
            since, first = time.perf_counter(), got
    seconds = time.perf_counter() - since
    consumer.close()
    if got < count:
        raise RuntimeError(f"{way.name}: {got} of {count} records consumed")
    return (count - first) / seconds


def _ask_at_once(way: Way, times: int, many: int) -> list[float]:
    """Ask over so many connections at once; return the microseconds of all, sorted."""
    with ThreadPoolExecutor(many) as pool:
        each = list(pool.map(lambda _: _ask(way, times), range(many)))
    return sorted(itertools.chain.from_iterable(each))


def _ask(way: Way, times: int) -> list[float]:
    """Ask for the API versions over and over, one request in flight; return
    microseconds, sorted.
    """
    host, port = way.bootstrap.split(":")
    request = struct.pack(">hhih", 18, 0, 1, 5) + b"bench"
    request = struct.pack(">i", len(request)) + request
    found = []
    with socket.create_connection((host, int(port)), timeout=10) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(times):
            since = time.perf_counter()
            sock.sendall(request)
            _frame(sock)
            found.append(1e6 * (time.perf_counter() - since))
    return sorted(found)


def _frame(sock: socket.socket) -> None:
    data = b""
    while len(data) < 4 or len(data) < 4 + struct.unpack_from(">i", data)[0]:
        more = sock.recv(1 << 16)
        if not more:
            raise ConnectionError("the other side has closed")
        data += more


def _rates(found: dict[str, list[float]]) -> dict[str, Any]:
    """Medians, and ratios: of each round by its own direct run, of which the median."""
    rates: dict[str, Any] = {
        name: round(statistics.median(values)) for name, values in found.items()
    }
    for name in ("wire", "toxiproxy"):
        ratios = [one / direct for one, direct in zip(found[name], found["direct"], strict=True)]
        rates[f"{name} / direct"] = round(statistics.median(ratios), 3)
    rates["all rounds"] = {
        name: [round(value) for value in values] for name, values in found.items()
    }
    return rates


def _latencies(found: dict[str, list[list[float]]]) -> dict[str, Any]:
    def at(name: str, share: float) -> float:
        return statistics.median(values[int(share * len(values))] for values in found[name])

    points: tuple[tuple[str, float], ...] = (("p50", 0.5), ("p99", 0.99))
    told: dict[str, Any] = {
        name: {word: round(at(name, share)) for word, share in points} for name in found
    }
    for name in ("wire", "toxiproxy"):
        told[f"{name}, added"] = {
            word: round(at(name, share) - at("direct", share)) for word, share in points
        }
    return told
