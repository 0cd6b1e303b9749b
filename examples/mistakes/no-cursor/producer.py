"""The mistake: an idempotent producer, called exactly-once, that does not remember how far it has
come.
"""

import json
import os
import sys
from pathlib import Path

from kafka import KafkaProducer

producer = KafkaProducer(
    bootstrap_servers=os.environ["BOOTSTRAP_SERVERS"], acks="all", enable_idempotence=True
)
for line in Path(sys.argv[1]).read_text().splitlines():
    order = json.loads(line)
    producer.send("orders", line.encode(), key=order["customer"].encode()).get(timeout=60)
producer.close()
