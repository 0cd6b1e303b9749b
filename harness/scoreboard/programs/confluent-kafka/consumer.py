"""Print every record of a topic."""

import os
import sys

from confluent_kafka import Consumer

MODE = sys.argv[1]
SETTINGS = {"as-it-comes": {}, "kip-848": {"group.protocol": "consumer"}}
consumer = Consumer(
    {
        "bootstrap.servers": os.environ["BOOTSTRAP_SERVERS"],
        "group.id": "billing",
        "auto.offset.reset": "earliest",
    }
    | SETTINGS.get(MODE, {"enable.auto.commit": False})
)
consumer.subscribe(["orders"])
while True:
    message = consumer.poll(1.0)
    if message is None:
        continue
    if message.error():
        print(message.error(), file=sys.stderr, flush=True)
        continue
    if MODE == "at-most-once":
        consumer.commit(message, asynchronous=False)
    print(message.value().decode(), flush=True)
    if MODE == "at-least-once":
        consumer.commit(message, asynchronous=False)
