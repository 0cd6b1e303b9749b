"""Send each line of standard input to a topic."""

import os
import sys

from confluent_kafka import Producer

MODE = sys.argv[1]
SETTINGS = {
    "as-it-comes": {},
    "at-most-once": {"acks": 1, "retries": 0},
    "at-least-once": {"acks": "all", "enable.idempotence": False},
}


def told(error, _):
    if error is not None:
        print(f"not sent: {error}", file=sys.stderr, flush=True)
        if MODE != "at-most-once":
            os._exit(1)


producer = Producer({"bootstrap.servers": os.environ["BOOTSTRAP_SERVERS"]} | SETTINGS[MODE])
for line in sys.stdin:
    producer.produce("orders", line.strip(), on_delivery=told)
    producer.poll(0)
producer.flush()
