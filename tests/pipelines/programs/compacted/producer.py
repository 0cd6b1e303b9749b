"""Read orders from standard input, one JSON object a line, and send each to a topic, by the key of
its customer. Knows nothing of lostack.

Called with ``delete`` it sends a tombstone behind the 42nd order: its customer is forgotten.
Called with ``one`` it gives all orders the same key.
"""

import json
import os
import sys

from kafka import KafkaProducer

producer = KafkaProducer(bootstrap_servers=os.environ["BOOTSTRAP_SERVERS"], acks="all")
for number, line in enumerate(sys.stdin, start=1):
    key = b"shop" if "one" in sys.argv else json.loads(line)["customer"].encode()
    producer.send("orders", line.strip().encode(), key=key).get(timeout=60)
    if "delete" in sys.argv and number == 42:
        producer.send("orders", None, key=key).get(timeout=60)
producer.close()
