"""The mistake: whether a record was delivered is told to nobody, and the program is called
at-least-once.
"""

import json
import os
import sys

from confluent_kafka import Producer

producer = Producer(
    {"bootstrap.servers": os.environ["BOOTSTRAP_SERVERS"], "retries": 0, "linger.ms": 0}
)
for line in sys.stdin:
    order = json.loads(line)
    producer.produce("orders", line.strip(), key=order["customer"])
    producer.poll(0)
producer.flush()
