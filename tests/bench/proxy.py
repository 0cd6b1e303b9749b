"""What the proxy costs a test: answers whose addresses it rewrites, small requests, memory.

In front of a scripted broker, in turn, in one run: directly, through a proxy that rewrites
addresses, and through one that does not. ``codec`` is the walk over one answer alone.
"""

from __future__ import annotations

import asyncio
import functools
import multiprocessing
import socket
import statistics
import struct
import tempfile
import time
import timeit
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import psutil
from kafka.protocol.metadata.metadata import MetadataResponse

from harness.model.identity import WHOLE, Identity
from harness.model.waiting import wait_until
from harness.protocols.kafka.addresses import brokers_in
from harness.protocols.kafka.steps import Api
from harness.proxy.running import OwnWire
from harness.wire.messages import LOOPBACK, Route
from tests.protocols import test_addresses as answers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection

ASKS = 2000
"""Requests a round, one in flight."""
MANY = 1_000_000
IN_FLIGHT = 100
CONNECTIONS = 10_000
AT_ONCE = 100
TIMES = 5000
CLIENT = b"bench"
WITHIN_S = 60.0
RECORDS = b"r" * 1024
METADATA, HEARTBEAT = 3, 12
WAYS = ("direct", "rewriting", "as it is")


def measure(rounds: int) -> dict[str, Any]:
    """Measure in turn, return figures."""
    codec = _codec(rounds)
    with _broker() as port, tempfile.TemporaryDirectory() as directory, ExitStack() as ends:
        wires = {
            name: ends.enter_context(_wire(Path(directory) / name, port, follows=follows))
            for name, follows in (("rewriting", True), ("as it is", False))
        }
        ports = {"direct": port, **{name: at for name, (_, at) in wires.items()}}
        asked: dict[str, dict[str, list[float]]] = {
            what: {name: [] for name in WAYS} for what in ("heartbeat", "metadata")
        }
        rates: dict[str, list[float]] = {name: [] for name in WAYS}
        for number in range(rounds):
            for name in WAYS[number % 3 :] + WAYS[: number % 3]:
                for what, api in (("heartbeat", HEARTBEAT), ("metadata", METADATA)):
                    asked[what][name].append(_p50(ports[name], api))
                rates[name].append(_rate(ports[name], ASKS * 10))
        wire, at = wires["rewriting"]
        memory = _memory(wire, at)
    return {
        "rounds": rounds,
        "answer that names nobody, codec, us": codec,
        "small request, p50, us": {
            what: {name: round(statistics.median(found[name])) for name in WAYS}
            for what, found in asked.items()
        },
        f"requests/s, {IN_FLIGHT} in flight": {
            name: round(statistics.median(found)) for name, found in rates.items()
        },
        "memory of the proxy, MB": memory,
    }


# -- the codec alone -------------------------------------------------------------------------------


def nameless(step: str, version: int) -> bytes:
    """Return an answer of one partition that names no broker."""
    made = answers.MADE[step][1](version)
    made.node_endpoints = []
    [topic] = made.responses
    parts = topic.partition_responses if step == Api.PRODUCE else topic.partitions
    del parts[1:]
    if hasattr(parts[0], "records"):
        parts[0].records = RECORDS
    made.with_header(correlation_id=1)
    return bytes(made.encode(header=True, framed=True))


def _codec(rounds: int) -> dict[str, float]:
    told = {}
    for step, (*_, versions) in answers.MADE.items():
        if step not in (Api.FETCH, Api.PRODUCE, Api.SHARE_FETCH, Api.SHARE_ACKNOWLEDGE):
            continue
        data = nameless(step, versions[-1])
        if brokers_in(step, versions[-1], data):
            raise RuntimeError(f"the answer of {step} names somebody")
        walk = functools.partial(brokers_in, step, versions[-1], data)
        timer = timeit.Timer(walk, timer=time.process_time)
        seconds = [timer.timeit(TIMES) for _ in range(max(rounds, 3))]
        told[f"{step} {versions[-1]}"] = round(1e6 * min(seconds) / TIMES, 1)
    return told


# -- a scripted broker, and wires in front of it ---------------------------------------------------


class _Answers(asyncio.Protocol):
    """Answers each request by the same bytes, in order."""

    def __init__(self, metadata: bytes) -> None:
        self._metadata = metadata
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the connection."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Answer all that is whole."""
        data, out, at = self._rest + data, [], 0
        while len(data) - at >= _HEAD.size:
            size, api, corr = _HEAD.unpack_from(data, at)
            if len(data) - at < 4 + size:
                break
            body = self._metadata if api == METADATA else bytes(7)
            out.append(struct.pack(">ii", 4 + len(body), corr) + body)
            at += 4 + size
        self._rest = data[at:]
        self._transport.write(b"".join(out))


_HEAD = struct.Struct(">ih2xi")


def _metadata(port: int) -> bytes:
    """Return an answer that names one broker, behind its length and its number."""
    kind = MetadataResponse
    broker = kind.MetadataResponseBroker(version=12, node_id=1, host=LOOPBACK, port=port, rack=None)
    made = kind(version=12, brokers=[broker], cluster_id="c", controller_id=1, topics=[])
    made.with_header(correlation_id=1)
    return bytes(made.encode(header=True, framed=True))[8:]


def _serve(told: Connection) -> None:
    """Serve, in a process of its own, and tell the port."""

    async def run() -> None:
        sock = socket.create_server((LOOPBACK, 0), backlog=512)
        port = sock.getsockname()[1]
        metadata = _metadata(port)
        serving = asyncio.get_running_loop().create_server(lambda: _Answers(metadata), sock=sock)
        server = await serving
        told.send(port)
        await server.serve_forever()

    asyncio.run(run())


@contextmanager
def _broker() -> Iterator[int]:
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(there,))
    process.start()
    try:
        yield here.recv()
    finally:
        process.terminate()
        process.join()


@contextmanager
def _wire(folder: Path, port: int, *, follows: bool) -> Iterator[tuple[OwnWire, int]]:
    """Start a wire as a proxy does, which keeps a line of every frame."""
    with OwnWire(folder) as wire:
        route = Route("r", "bootstrap", "client", 0, port, protocol="kafka", follows=follows)
        at = wire.control.add_route(route).listen_port
        file = wire.folder / "wire.jsonl"
        wire.control.open_cell("c", "c", file, routes=["r"], identity=Identity(where=WHOLE))
        yield wire, at


# -- clients ---------------------------------------------------------------------------------------


def _request(api: int, corr: int) -> bytes:
    body = struct.pack(">hhih", api, 12 if api == METADATA else 4, corr, len(CLIENT)) + CLIENT
    body += bytes(9)
    return struct.pack(">i", len(body)) + body


def _connect(port: int) -> socket.socket:
    sock = socket.create_connection((LOOPBACK, port), timeout=WITHIN_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def _read(sock: socket.socket, frames: int) -> None:
    """Read so many answers."""
    data, at = b"", 0
    while frames:
        more = sock.recv(1 << 16)
        if not more:
            raise ConnectionError("the other side has closed")
        data, at = data[at:] + more, 0
        while len(data) - at >= 4:
            size = 4 + int.from_bytes(data[at : at + 4], "big")
            if len(data) - at < size:
                break
            at += size
            frames -= 1


def _p50(port: int, api: int) -> float:
    """Return the median of microseconds from a request to its answer, one in flight."""
    found = []
    with _connect(port) as sock:
        for corr in range(ASKS):
            data = _request(api, corr)
            since = time.perf_counter()
            sock.sendall(data)
            _read(sock, 1)
            found.append(1e6 * (time.perf_counter() - since))
    return statistics.median(found)


def _rate(port: int, count: int) -> float:
    """Return requests a second, many in flight."""
    with _connect(port) as sock:
        since = time.perf_counter()
        for first in range(0, count, IN_FLIGHT):
            sock.sendall(b"".join(_request(HEARTBEAT, first + n) for n in range(IN_FLIGHT)))
            _read(sock, IN_FLIGHT)
        return count / (time.perf_counter() - since)


def _memory(wire: OwnWire, port: int) -> dict[str, float]:
    """Return resident megabytes after parts of many requests, then of many connections."""
    process = psutil.Process(wire._process.pid)

    def held() -> float:
        resident: int = process.memory_info().rss
        return round(resident / (1 << 20), 1)

    told = {"before": held()}
    for part in range(1, 5):
        _rate(port, MANY // 4)
        told[f"{part * MANY // 4:,} requests"] = held()
    for part in range(1, 3):
        for _ in range(CONNECTIONS // 2 // AT_ONCE):
            with ExitStack() as ends:
                for sock in [ends.enter_context(_connect(port)) for _ in range(AT_ONCE)]:
                    sock.sendall(_request(HEARTBEAT, 1))
                    _read(sock, 1)
        wait_until(
            lambda: all(not route.connections for route in wire.control.routes()),
            within_s=WITHIN_S,
            because="the connections to end",
        )
        told[f"and {part * CONNECTIONS // 2:,} connections"] = held()
    return told
