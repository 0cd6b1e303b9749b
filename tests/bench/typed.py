"""``lostack audit`` of a topic as a user types it, start included, beside kgo-verifier where there
is one; in turn, in rounds.

The ids are keys of 18 digits; once more they are read from the JSON of the values. The peer (the
program that ``KGO_VERIFIER`` names) validates the very same records by a header. An audit that does
not find what was planted is an error and no figure. ``BENCH_RECORDS``: how many records (10⁷);
``BENCH_TOPICS``: of which shapes (plain), e.g. ``lz4,zstd,snappy,transactions,many``.
"""

from __future__ import annotations

import json
import os
import random
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer

from harness.model.scenario import Deployment
from harness.systems.kafka.system import KafkaSystem

if TYPE_CHECKING:
    from collections.abc import Sequence

PADS = tuple("".join(random.Random(n).choices("0123456789abcdef", k=120)) for n in range(1000))
"""What fills a value: of so many texts, that compression has something to do."""
PLANTED = 100
TOPIC = "typed"
WITHIN_S = 600
IN_TRANSACTION = 10_000


@dataclass(frozen=True)
class Shape:
    """How a topic is filled."""

    partitions: int = 3
    compression: str = "none"
    transactions: bool = False
    """In transactions of IN_TRANSACTION records; behind every tenth an aborted one with the same
    records.
    """


SHAPES = {
    "plain": Shape(),
    "lz4": Shape(compression="lz4"),
    "zstd": Shape(compression="zstd"),
    "snappy": Shape(compression="snappy"),
    "transactions": Shape(transactions=True),
    "many": Shape(partitions=100),
}


def measure(rounds: int) -> dict[str, Any]:
    """Return for each shape seconds, CPU seconds and records a second of each way, and ratios by
    the peer's of the same round.
    """
    names = os.environ.get("BENCH_TOPICS", "plain").split(",")
    return {name: _of_shape(SHAPES[name], rounds) for name in names}


def _of_shape(shape: Shape, rounds: int) -> dict[str, Any]:
    count = int(float(os.environ.get("BENCH_RECORDS", "1e7")))
    system = KafkaSystem()
    system.prepare(print)
    with tempfile.TemporaryDirectory() as name:
        deployed = system.deploy(Deployment.OWN, Path(name))
        try:
            kafka = deployed.transport
            kafka.observer.create_topics({TOPIC: (shape.partitions, {})})
            servers = kafka.broker.bootstrap
            stored = _fill(servers, count, shape)
            found: dict[str, list[tuple[float, float]]] = {}
            for _ in range(rounds):
                for way, words in _ways(servers, count, shape).items():
                    found.setdefault(way, []).append(_timed(way, words, Path(name), stored))
        finally:
            deployed.close()
    return {
        "records": stored,
        **{way: _figures(times, stored, found.get("kgo-verifier")) for way, times in found.items()},
    }


def _fill(servers: str, count: int, shape: Shape) -> int:
    """Store the ids below ``count`` but PLANTED of them, as many others twice; return how many
    records that are.
    """
    step = count // (2 * PLANTED)
    again = range(step, 2 * PLANTED * step, 2 * step)
    numbers = [*(n for n in range(count) if n % (2 * step) or n >= 2 * PLANTED * step), *again]
    filler = _Filler(servers, shape)
    units = range(0, len(numbers), IN_TRANSACTION)
    for turn, first in enumerate(units):
        unit = numbers[first : first + IN_TRANSACTION]
        filler.put(unit)
        if shape.transactions and turn % 10 == 0:
            filler.put(unit, abort=True)
    filler.flush()
    return len(numbers)


class _Filler:
    """Who sends records whose header says which offset they will have, as the peer wants it:
    markers of transactions count.
    """

    def __init__(self, servers: str, shape: Shape) -> None:
        self._shape = shape
        self._offsets = [0] * shape.partitions
        self._turn = 0
        self._producer: Any = Producer(
            {
                "bootstrap.servers": servers,
                "linger.ms": 20,
                "enable.idempotence": True,
                "compression.type": shape.compression,
                "queue.buffering.max.messages": 1_000_000,
                "queue.buffering.max.kbytes": 1 << 20,
            }
            | ({"transactional.id": TOPIC} if shape.transactions else {})
        )
        if shape.transactions:
            self._producer.init_transactions(WITHIN_S)

    def put(self, numbers: Sequence[int], *, abort: bool = False) -> None:
        """Send the records of some ids, where the shape says so in a transaction."""
        if self._shape.transactions:
            self._producer.begin_transaction()
        before = list(self._offsets)
        for number in numbers:
            self._one(number)
        if self._shape.transactions:
            end = self._producer.abort_transaction if abort else self._producer.commit_transaction
            self._producer.flush(WITHIN_S)
            end(WITHIN_S)
            self._offsets = [
                now + (now > was) for now, was in zip(self._offsets, before, strict=True)
            ]

    def flush(self) -> None:
        """Wait until everything is stored. Raises RuntimeError where that cannot be."""
        if self._producer.flush(WITHIN_S):
            raise RuntimeError("the topic could not be filled")

    def _one(self, number: int) -> None:
        at = self._turn % self._shape.partitions
        value = f'{{"seq":{number},"pad":"{PADS[number % len(PADS)]}"}}'
        header = [("o", b"000000.%018d" % self._offsets[at])]
        while True:
            try:
                self._producer.produce(
                    TOPIC, value, key=b"%018d" % number, partition=at, headers=header
                )
                break
            except BufferError:
                self._producer.poll(0.1)
        self._offsets[at] += 1
        self._turn += 1
        if not self._turn % 1000:
            self._producer.poll(0)


def _ways(servers: str, count: int, shape: Shape) -> dict[str, list[str]]:
    """Return the commands, by the name of the way. The peer counts aborted records as read, so it
    reads no transactions.
    """
    audit = [
        sys.executable,
        "-m",
        "harness.cli",
        "audit",
        "--offered",
        f"range:0-{count - 1}",
        "--json",
        "--arrived",
    ]
    ways = {
        "keys": [*audit, f"kafka:{servers}/{TOPIC}#id=key"],
        "JSON": [*audit, f"kafka:{servers}/{TOPIC}#id=json:$.seq"],
    }
    peer = os.environ.get("KGO_VERIFIER")
    if peer and not shape.transactions:
        ways["kgo-verifier"] = [peer, "--brokers", servers, "--topic", TOPIC, "--seq_read"]
    return ways


def _timed(way: str, words: list[str], folder: Path, stored: int) -> tuple[float, float]:
    """Run a command; return seconds and CPU seconds. Raises where it found something else than is
    there.
    """
    since, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    done = subprocess.run(
        words,
        capture_output=True,
        text=True,
        cwd=folder,
        check=False,
        timeout=WITHIN_S,
        env=environment,
    )
    seconds, after = time.monotonic() - since, resource.getrusage(resource.RUSAGE_CHILDREN)
    if way == "kgo-verifier":
        if done.returncode or not re.search(
            rf'valid_reads\\*": *{stored}\b', done.stdout + done.stderr
        ):
            raise RuntimeError(f"{way}: {(done.stdout + done.stderr)[-500:]}")
    else:
        told = json.loads(done.stdout) if done.returncode == 0 else {}
        if (told.get("lost"), told.get("duplicated")) != (PLANTED, PLANTED):
            raise RuntimeError(
                f"{way}: {told.get('lost')} lost, {told.get('duplicated')} duplicated; "
                f"{done.stderr[-500:]}"
            )
    print(f"{way} {seconds:.2f} s", flush=True)  # noqa: T201
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _figures(
    times: list[tuple[float, float]], stored: int, peer: list[tuple[float, float]] | None
) -> dict[str, Any]:
    seconds, cpu = (statistics.median(column) for column in zip(*times, strict=True))
    ratios = [theirs[0] / mine[0] for mine, theirs in zip(times, peer, strict=True)] if peer else []
    told = {
        "seconds": round(seconds, 2),
        "CPU s": round(cpu, 2),
        "million records/s": round(stored / seconds / 1e6, 2),
    }
    return told | (
        {"times as fast as the peer": round(statistics.median(ratios), 2)} if ratios else {}
    )
