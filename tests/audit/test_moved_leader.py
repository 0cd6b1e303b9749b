"""A topic on three brokers, audited while one of them dies: what is read is whole, each record
once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from kafka import KafkaProducer

from harness import registry
from harness.audit.fetching import OffsetRange, fetched
from harness.model.scenario import Deployment

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.kafka, pytest.mark.rest, pytest.mark.timeout(300)]
RECORDS, VALUE = 40, b"v" * 900_000
"""Several fetches of eight megabytes, so that the leader dies between two of them."""


def test_the_leader_dies_while_its_partition_is_read(tmp_path: Path) -> None:
    """SIGKILL after the first fetch: another replica leads, and reading goes on there, behind what
    was read.
    """
    system = registry.system("kafka")
    system.prepare(print)
    deployed: Any = system.deploy(Deployment.CLUSTER, tmp_path)
    kafka = deployed.transport
    try:
        servers = ",".join(broker.bootstrap for broker in kafka.brokers)
        kafka.observer.create_topics(
            {"moved": (1, {"max.message.bytes": "2000000"})}, lambda _: [2, 3, 1]
        )
        producer = KafkaProducer(
            bootstrap_servers=servers, acks="all", max_request_size=2_000_000, linger_ms=0
        )
        for answer in [
            producer.send("moved", VALUE, key=str(number).encode()) for number in range(RECORDS)
        ]:
            answer.get(30)
        producer.close()
        assert kafka.observer.leaderships("moved")[0].leader == kafka.brokers[1].number
        reading = fetched(OffsetRange(servers, "moved", 0, 0, RECORDS))
        seen = [int(offset) for offset in next(reading).offsets]
        assert 0 < len(seen) < RECORDS
        kafka.brokers[1].process().kill()
        for records in reading:
            seen += [int(offset) for offset in records.offsets]
        assert seen == list(range(RECORDS))
    finally:
        deployed.close()
