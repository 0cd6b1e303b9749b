"""Send each order in a transaction of its own. Knows nothing of lostack."""

import json
import os
import sys

from confluent_kafka import Producer

producer = Producer(
    {"bootstrap.servers": os.environ["BOOTSTRAP_SERVERS"], "transactional.id": "orders"}
)
producer.init_transactions()
for line in sys.stdin:
    order = json.loads(line)
    producer.begin_transaction()
    producer.produce("orders", line.strip(), key=order["customer"])
    producer.commit_transaction()
