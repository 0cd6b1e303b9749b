"""Read orders from standard input and send each to a topic. With a second thought, a record that
was not acknowledged in time is sent again; with patience, the client does that. Knows nothing of
lostack.
"""

import json
import os
import sys

from kafka import KafkaProducer
from kafka.errors import KafkaError

AGAIN = sys.argv[1:] == ["again"]
producer = KafkaProducer(
    bootstrap_servers=os.environ["BOOTSTRAP_SERVERS"],
    acks="all",
    request_timeout_ms=6000,
    delivery_timeout_ms=60000 if "patient" in sys.argv else 6000,
    retry_backoff_ms=1000,
    linger_ms=0,
)
for line in sys.stdin:
    key = json.loads(line)["customer"].encode()
    while True:
        try:
            producer.send("orders", line.strip().encode(), key=key).get(timeout=60)
        except KafkaError as error:  # the mistake: the client asks again by itself, or does it?
            print(error, flush=True)
            if AGAIN:
                continue
        break
producer.close()
