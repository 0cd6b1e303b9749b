"""Tests as a project has them, which know nothing of lostack: some are wrong.

Each gets the address of Kafka from a variable, and a word: which of the programs is tested.
"""

from __future__ import annotations

import os
import sys
import uuid

from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.errors import KafkaError

KAFKA = os.environ["LOSTACK_BOOTSTRAP"]
ORDERS = [f'{{"order": {number}}}'.encode() for number in range(12)]
QUIET_MS = 4000


def consumer(topic: str, **more: object) -> KafkaConsumer:
    """Return a consumer that reads from the beginning."""
    return KafkaConsumer(
        topic,
        bootstrap_servers=KAFKA,
        group_id=f"of-{topic}",
        auto_offset_reset="earliest",
        consumer_timeout_ms=QUIET_MS,
        **more,
    )


def send(producer: KafkaProducer, topic: str, value: bytes) -> None:
    """Send a record and wait for its acknowledgement."""
    producer.send(topic, value).get(timeout=30)


def ordered(*, idempotent: bool) -> None:
    """Send orders, and read them."""
    topic = f"orders-{uuid.uuid4()}"
    producer = KafkaProducer(bootstrap_servers=KAFKA, acks="all", enable_idempotence=idempotent)
    for order in ORDERS:
        send(producer, topic, order)
    producer.close()
    reader = consumer(topic)
    rows = {message.value for message in reader}  # a set: a duplicate is not seen
    reader.close()
    assert rows == set(ORDERS)


def worked(*, safe: bool) -> None:
    """Send orders, work on each, and read the results. ``safe``: a position is saved behind the
    work, and what failed is worked on again.
    """
    run = uuid.uuid4()
    orders, results = f"orders-{run}", f"results-{run}"
    producer = KafkaProducer(
        bootstrap_servers=KAFKA, acks="all", retries=0, enable_idempotence=False
    )
    source = KafkaProducer(bootstrap_servers=KAFKA, acks="all")
    for order in ORDERS:
        send(source, orders, order)
    reader = consumer(orders, enable_auto_commit=not safe, auto_commit_interval_ms=100)
    done = 0
    for message in reader:
        result = message.value.replace(b"order", b"done")
        while True:
            try:
                send(producer, results, result)
            except KafkaError:
                if safe:
                    continue
            break
        if safe:
            place = TopicPartition(message.topic, message.partition)
            reader.commit({place: OffsetAndMetadata(message.offset + 1, "", -1)})
        done += 1
        if done == len(ORDERS):
            break
    reader.close()
    sink = consumer(results)
    rows = [message.value for message in sink]
    sink.close()
    assert rows  # nothing of how many


PROGRAMS = {
    "twice": lambda: ordered(idempotent=False),
    "once": lambda: ordered(idempotent=True),
    "early": lambda: worked(safe=False),
    "behind": lambda: worked(safe=True),
}


if __name__ == "__main__":
    PROGRAMS[sys.argv[1]]()
