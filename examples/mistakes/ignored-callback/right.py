"""What was not delivered is sent again."""

import json
import os
import sys

from confluent_kafka import Producer

producer = Producer(
    {"bootstrap.servers": os.environ["BOOTSTRAP_SERVERS"], "retries": 0, "linger.ms": 0}
)


def send(key, value):
    """Send a record until it is delivered."""
    producer.produce(
        "orders", value, key=key, on_delivery=lambda error, _: send(key, value) if error else None
    )


for line in sys.stdin:
    send(json.loads(line)["customer"], line.strip())
    producer.poll(0)
while producer.flush(1):
    pass
