"""Send each line of standard input to a topic, and do not wait for one before the next. Knows
nothing of lostack.

HOW: ``idempotent``. ``plain``: with five requests in flight, and no idempotence. ``each`` and
``last``: without retries; at the end look whether every delivery report, or only the last one,
says that the line was stored.
"""

import json
import os
import sys

from confluent_kafka import Producer

how = sys.argv[1]
more = {
    "idempotent": {"enable.idempotence": True},
    "plain": {"max.in.flight": 5},
    "each": {"max.in.flight": 5, "retries": 0},
    "last": {"max.in.flight": 5, "retries": 0},
}
producer = Producer(
    {"bootstrap.servers": os.environ["BOOTSTRAP_SERVERS"], "acks": "all", **more[how]}
)
reports = []


def delivered(error, _message):
    """Keep a delivery report; ``last``: instead of the one before."""
    if how == "last":
        reports.clear()
    reports.append(error)


for line in sys.stdin:
    order = json.loads(line)
    key = order["customer"].encode()
    producer.produce("orders", line.strip().encode(), key=key, on_delivery=delivered)
    producer.poll(0)
producer.flush()
if any(reports) and how in ("each", "last"):
    sys.exit("a line was not stored")
