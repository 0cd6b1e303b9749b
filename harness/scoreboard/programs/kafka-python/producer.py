"""Send each line of standard input to a topic."""

import os
import sys

from kafka import KafkaProducer

MODE = sys.argv[1]
SETTINGS = {
    "as-it-comes": {},
    "at-most-once": {"acks": 1, "retries": 0, "enable_idempotence": False},
    "at-least-once": {"acks": "all", "enable_idempotence": False},
}


def failed(error):
    print(f"not sent: {error!r}", file=sys.stderr, flush=True)
    if MODE != "at-most-once":
        os._exit(1)


producer = KafkaProducer(bootstrap_servers=os.environ["BOOTSTRAP_SERVERS"], **SETTINGS[MODE])
for line in sys.stdin:
    producer.send("orders", line.strip().encode()).add_errback(failed)
producer.flush()
producer.close()
