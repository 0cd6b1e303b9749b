"""Send each order of standard input to a topic, and wait for its acknowledgement."""

import json
import os
import sys

from kafka import KafkaProducer

producer = KafkaProducer(bootstrap_servers=os.environ["BOOTSTRAP_SERVERS"], acks="all")
for line in sys.stdin:
    order = json.loads(line)
    producer.send("orders", line.strip().encode(), key=order["customer"].encode()).get(timeout=60)
producer.close()
