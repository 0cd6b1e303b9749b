"""The mistake: one ack, no retries, and nobody looks at what a send returns; the program is called
at-least-once.
"""

import json
import os
import sys

from kafka import KafkaProducer

producer = KafkaProducer(
    bootstrap_servers=os.environ["BOOTSTRAP_SERVERS"], acks=1, retries=0, enable_idempotence=False
)
for line in sys.stdin:
    order = json.loads(line)
    producer.send("orders", line.strip().encode(), key=order["customer"].encode())
producer.close()
