"""The mistake: the program ends when its input does, and what its client still has in hand ends
with it.
"""

import json
import os
import sys

from confluent_kafka import Producer

producer = Producer({"bootstrap.servers": os.environ["BOOTSTRAP_SERVERS"]})
for line in sys.stdin:
    producer.produce("orders", line.strip(), key=json.loads(line)["customer"])
    producer.poll(0)
