"""Send records to an engine that runs only to make its class-data archive."""

from __future__ import annotations

from kafka import KafkaProducer

from harness.model.record import Record

STORED_S = 60.0


def send_records(servers: str, count: int = 1) -> None:
    """Send ``count`` records of one key to the topic ``in``, and wait until they are stored.

    Raises:
        kafka.errors.KafkaError: a record was not stored within a minute.
    """
    producer = KafkaProducer(bootstrap_servers=servers)
    try:
        for position in range(1, count + 1):
            producer.send("in", Record(f"k-{position}", "k", position).encode("archive"), b"k").get(
                STORED_S
            )
    finally:
        producer.close(timeout=1)
