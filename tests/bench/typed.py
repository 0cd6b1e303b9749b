"""``lostack audit`` of a topic as a user types it, start included, beside kgo-verifier where there is one; in turn, in rounds.

The ids are keys of 18 digits; once more they are read from the JSON of the values. The peer (the program that ``KGO_VERIFIER``
names) validates the very same records by a header. An audit that does not find what was planted is an error and no figure.
``BENCH_RECORDS``: how many records (10⁷).
"""

from __future__ import annotations

import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from harness.model.scenario import Deployment
from harness.systems.kafka.system import KafkaSystem

PARTITIONS = 3
PAD = "x" * 120
PLANTED = 100
TOPIC = "typed"
WITHIN_S = 600


def measure(rounds: int) -> dict[str, Any]:
    """Return seconds, CPU seconds and records a second of each way, and ratios by the peer's of the same round."""
    count = int(float(os.environ.get("BENCH_RECORDS", "1e7")))
    system = KafkaSystem()
    system.prepare(print)
    with tempfile.TemporaryDirectory() as name:
        deployed = system.deploy(Deployment.OWN, Path(name))
        try:
            kafka = deployed.transport
            kafka.observer.create_topics({TOPIC: (PARTITIONS, {})})
            servers = kafka.broker.bootstrap
            stored = _fill(servers, count)
            found: dict[str, list[tuple[float, float]]] = {}
            for _ in range(rounds):
                for way, words in _ways(servers, count).items():
                    found.setdefault(way, []).append(_timed(way, words, Path(name), stored))
        finally:
            deployed.close()
    return {"records": stored, **{way: _figures(times, stored, found.get("kgo-verifier")) for way, times in found.items()}}


def _fill(servers: str, count: int) -> int:
    """Store the ids below ``count`` but PLANTED of them, as many others twice; return how many records that are."""
    step = count // (2 * PLANTED)
    producer = Producer({
        "bootstrap.servers": servers, "linger.ms": 20, "enable.idempotence": True, "queue.buffering.max.messages": 1_000_000,
        "queue.buffering.max.kbytes": 1 << 20,
    })  # fmt: skip
    offsets = [0] * PARTITIONS
    again = range(step, 2 * PLANTED * step, 2 * step)
    for turn, number in enumerate([*(n for n in range(count) if n % (2 * step) or n >= 2 * PLANTED * step), *again]):
        at = turn % PARTITIONS
        value = f'{{"seq":{number},"pad":"{PAD}"}}'
        while True:
            try:
                producer.produce(TOPIC, value, key=b"%018d" % number, partition=at,
                                 headers=[("o", b"000000.%018d" % offsets[at])])  # fmt: skip
                break
            except BufferError:
                producer.poll(0.1)
        offsets[at] += 1
        if not turn % 1000:
            producer.poll(0)
    if producer.flush(WITHIN_S):
        raise RuntimeError("the topic could not be filled")
    return sum(offsets)


def _ways(servers: str, count: int) -> dict[str, list[str]]:
    """Return the commands, by the name of the way."""
    audit = [sys.executable, "-m", "harness.cli", "audit", "--offered", f"range:0-{count - 1}", "--json", "--arrived"]
    ways = {
        "keys": [*audit, f"kafka:{servers}/{TOPIC}#id=key"],
        "JSON": [*audit, f"kafka:{servers}/{TOPIC}#id=json:$.seq"],
    }
    if peer := os.environ.get("KGO_VERIFIER"):
        ways["kgo-verifier"] = [peer, "--brokers", servers, "--topic", TOPIC, "--seq_read"]
    return ways


def _timed(way: str, words: list[str], folder: Path, stored: int) -> tuple[float, float]:
    """Run a command; return seconds and CPU seconds. Raises where it found something else than is there."""
    since, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    done = subprocess.run(words, capture_output=True, text=True, cwd=folder, check=False, timeout=WITHIN_S, env=environment)
    seconds, after = time.monotonic() - since, resource.getrusage(resource.RUSAGE_CHILDREN)
    if way == "kgo-verifier":
        if done.returncode or not re.search(rf'valid_reads\\*": *{stored}\b', done.stdout + done.stderr):
            raise RuntimeError(f"{way}: {(done.stdout + done.stderr)[-500:]}")
    else:
        told = json.loads(done.stdout) if done.returncode == 0 else {}
        if (told.get("lost"), told.get("duplicated")) != (PLANTED, PLANTED):
            raise RuntimeError(f"{way}: {told.get('lost')} lost, {told.get('duplicated')} duplicated; {done.stderr[-500:]}")
    print(f"{way} {seconds:.2f} s", flush=True)  # noqa: T201
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _figures(times: list[tuple[float, float]], stored: int, peer: list[tuple[float, float]] | None) -> dict[str, Any]:
    seconds, cpu = (statistics.median(column) for column in zip(*times, strict=True))
    ratios = [theirs[0] / mine[0] for mine, theirs in zip(times, peer, strict=True)] if peer else []
    told = {"seconds": round(seconds, 2), "CPU s": round(cpu, 2), "million records/s": round(stored / seconds / 1e6, 2)}
    return told | ({"times as fast as the peer": round(statistics.median(ratios), 2)} if ratios else {})
