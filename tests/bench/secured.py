"""The wire's speed where clients speak TLS: TLS through the wire by TLS to the broker, in turn,
several rounds.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.model.scenario import Deployment, Role
from harness.stages.access import Access
from harness.systems.kafka.system import Prepared
from tests.bench.speed import RECORD_BYTES, RECORDS, Way, _consume, _cpu_s, _produce

if TYPE_CHECKING:
    from harness.systems.kafka.transport import KafkaTransport


def measure(rounds: int) -> dict[str, Any]:
    """Deploy, measure in turn, return figures; ratios are of each round by its own direct run, of
    which the median.
    """
    prepared = Prepared()
    prepared.prepare(print)
    with tempfile.TemporaryDirectory() as directory:
        kafka = prepared.transport(Deployment.TLS, Path(directory))
        direct = _straight(kafka)
        try:
            kafka.start()
            return _in_turn(kafka, direct, rounds)
        finally:
            kafka.close()


def _straight(kafka: KafkaTransport) -> int:
    """Let one listener advertise itself, past the wire; return its port."""
    ports, settings = kafka.broker.ports, kafka.broker._settings
    own, wire = ports.broker[Role.DRIVER], ports.wire[Role.DRIVER]
    settings["advertised.listeners"] = settings["advertised.listeners"].replace(
        f":{wire}", f":{own}"
    )
    return own


def _in_turn(kafka: KafkaTransport, direct: int, rounds: int) -> dict[str, Any]:
    assert kafka.secured is not None
    through = Access.read(kafka.secured.access)
    assert through is not None
    past = Access("SSL", through.authority.replace("/wire/", "/broker/"))
    ways = (
        Way("direct", f"127.0.0.1:{direct}", past.for_librdkafka()),
        Way("wire", kafka.bootstrap(Role.PRODUCER), through.for_librdkafka()),
    )
    _produce(kafka, ways[0], "warm-up", RECORDS // 4)
    found: dict[str, dict[str, list[float]]] = {
        what: {way.name: [] for way in ways} for what in ("produce", "consume")
    }
    since = _cpu_s(kafka.wire_node)
    for number in range(rounds):
        for way in ways if number % 2 else ways[::-1]:
            topic = f"{way.name}-{number}"
            found["produce"][way.name].append(_produce(kafka, way, topic, RECORDS))
            found["consume"][way.name].append(_consume(way, topic, RECORDS))
    gigabytes = 2 * rounds * RECORDS * RECORD_BYTES / 1e9
    return {
        "records": RECORDS,
        "record bytes": RECORD_BYTES,
        "rounds": rounds,
        **{f"{what}, records/s": _told(rates) for what, rates in found.items()},
        "processor seconds a gigabyte": round((_cpu_s(kafka.wire_node) - since) / gigabytes, 2),
    }


def _told(rates: dict[str, list[float]]) -> dict[str, Any]:
    ratios = [one / direct for one, direct in zip(rates["wire"], rates["direct"], strict=True)]
    return {
        **{name: round(statistics.median(values)) for name, values in rates.items()},
        "wire / direct": round(statistics.median(ratios), 3),
    }
