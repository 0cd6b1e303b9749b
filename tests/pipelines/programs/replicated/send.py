"""Send each line of standard input. ``all``: wait for all replicas in sync. ``one``: wait for the
leader alone.
"""

import os
import sys

from kafka import KafkaProducer

producer = KafkaProducer(
    bootstrap_servers=os.environ["BOOTSTRAP_SERVERS"],
    acks=1 if sys.argv[1] == "one" else "all",
    enable_idempotence=False,
    retry_backoff_ms=50,
)
for line in sys.stdin:
    value = line.strip().encode()
    producer.send("orders", value, key=value[-6:]).get(timeout=60)
producer.close()
