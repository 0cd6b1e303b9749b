"""Send each line of standard input to a topic. Knows nothing of lostack."""

import os
import sys

from confluent_kafka import Producer

producer = Producer({"bootstrap.servers": os.environ["BOOTSTRAP_SERVERS"], "acks": "all"})
for line in sys.stdin:
    producer.produce("orders", line.strip().encode())
    producer.flush()
