"""Book orders. One that can never be booked goes to a topic for retries, twice, and then to the
dead letters. Knows nothing of lostack.

``right``: the position is saved when the order is booked or handed on. ``early``: before it is
handed on. ``skips``: it is not handed on, only skipped.
"""

import json
import os
import sys
from pathlib import Path

from kafka import KafkaConsumer, KafkaProducer

how, path = sys.argv[1:]
consumer = KafkaConsumer(
    "orders",
    "orders.retry",
    bootstrap_servers=os.environ["BOOTSTRAP_SERVERS"],
    group_id="booking",
    enable_auto_commit=False,
    auto_offset_reset="earliest",
    max_poll_records=1,
)
producer = KafkaProducer(bootstrap_servers=os.environ["BOOTSTRAP_SERVERS"], acks="all")
with Path(path).open("a") as booked:
    for message in consumer:
        if json.loads(message.value)["number"] % 12:
            booked.write(message.value.decode() + "\n")
            booked.flush()
            os.fsync(booked.fileno())
            consumer.commit()
            continue
        if how == "early":
            consumer.commit()
        tries = len(message.headers) + 1
        topic = "orders.dlq" if tries == 3 else "orders.retry"
        if how != "skips":
            headers = [("tried", b"")] * tries
            sent = producer.send(topic, message.value, key=message.key, headers=headers)
            sent.get(timeout=60)
        if how != "early":
            consumer.commit()
