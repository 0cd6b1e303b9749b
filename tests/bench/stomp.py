"""The wire's speed over STOMP: one producer and one consumer at full speed, directly and through
the wire, in turn in one run.

Sockets of our own, and messages that are not persistent: neither a client nor a disk is in the way.
"""

from __future__ import annotations

import socket
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from harness.model.scenario import Deployment, Role
from harness.systems.activemq.system import launcher

if TYPE_CHECKING:
    from harness.run.queue_server import QueueServer

RECORDS = 20_000
RECORD_BYTES = 200
WITHIN_S = 120.0
BLOCK = 1 << 18


def measure(rounds: int) -> dict[str, Any]:
    """Deploy, measure in turn, return figures."""
    system = launcher()
    system.prepare(print)
    with tempfile.TemporaryDirectory() as directory:
        deployed = system.deploy(Deployment.OWN, Path(directory))
        try:
            return _all(deployed.broker, rounds)
        finally:
            deployed.close()


def _all(broker: QueueServer, rounds: int) -> dict[str, Any]:
    ways = {
        "direct": (broker.direct, broker.direct),
        "wire": (broker.address(Role.PRODUCER), broker.address(Role.CONSUMER)),
    }
    _produce(ways["direct"][0], "warm-up")
    _consume(ways["direct"][1], "warm-up")
    wire = psutil.Process(broker.wire_node.pid)
    produced: dict[str, list[float]] = {name: [] for name in ways}
    consumed: dict[str, list[float]] = {name: [] for name in ways}
    since = sum(wire.cpu_times()[:2])
    for number in range(rounds):
        for name in sorted(ways, reverse=bool(number % 2)):
            queue = f"{name}-{number}"
            produced[name].append(_produce(ways[name][0], queue))
            consumed[name].append(_consume(ways[name][1], queue))
    gigabytes = 2 * rounds * RECORDS * RECORD_BYTES / 1e9
    return {
        "records": RECORDS,
        "record bytes": RECORD_BYTES,
        "rounds": rounds,
        "produce, records/s": _rates(produced),
        "consume, records/s": _rates(consumed),
        "processor seconds a gigabyte": round((sum(wire.cpu_times()[:2]) - since) / gigabytes, 2),
    }


def _rates(found: dict[str, list[float]]) -> dict[str, Any]:
    middle = {name: statistics.median(rates) for name, rates in found.items()}
    return {
        name: {"median": round(rate), "ratio": round(rate / middle["direct"], 3)}
        for name, rate in middle.items()
    }


def _connected(where: str) -> socket.socket:
    host, _, port = where.rpartition(":")
    sock = socket.create_connection((host, int(port)), timeout=WITHIN_S)
    sock.sendall(b"CONNECT\naccept-version:1.2\nhost:bench\nheart-beat:0,0\n\n\0")
    _read(sock, 1)
    return sock


def _read(sock: socket.socket, frames: int) -> bytes:
    """Read until so many frames have ended: no body here has a null in it. Raises RuntimeError
    where the broker hangs up.
    """
    last = b""
    while frames > 0:
        data = sock.recv(BLOCK)
        if not data:
            raise RuntimeError(f"the broker hung up: {last[-200:]!r}")
        frames -= data.count(b"\0")
        last = data
    return last


def _produce(where: str, queue: str) -> float:
    """Send; return records a second, the receipt of the last one included."""
    body = b"v" * RECORD_BYTES
    frame = b"SEND\ndestination:/queue/%s\ncontent-length:%d\n\n%s\0" % (
        queue.encode(),
        RECORD_BYTES,
        body,
    )
    last = b"SEND\ndestination:/queue/%s\nreceipt:last\ncontent-length:%d\n\n%s\0" % (
        queue.encode(),
        RECORD_BYTES,
        body,
    )
    block = frame * 100
    with _connected(where) as sock:
        since = time.perf_counter()
        for _ in range(RECORDS // 100 - 1):
            sock.sendall(block)
        sock.sendall(frame * 99 + last)
        said = _read(sock, 1)
        if not said.startswith(b"RECEIPT"):
            raise RuntimeError(f"the broker says {said[:200]!r}")
        return RECORDS / (time.perf_counter() - since)


def _consume(where: str, queue: str) -> float:
    """Take everything; return records a second."""
    with _connected(where) as sock:
        since = time.perf_counter()
        prefetch = b"activemq.prefetchSize:10000\n"
        sock.sendall(
            b"SUBSCRIBE\nid:1\ndestination:/queue/%s\nack:auto\n%s\n\0" % (queue.encode(), prefetch)
        )
        _read(sock, RECORDS)
        return RECORDS / (time.perf_counter() - since)
