"""Book each order in a store over HTTP, then commit the position. ``book.py PORT together`` notes
the order and books it by one request, ``book.py PORT apart`` by two.
"""

import http.client
import json
import os
import sys
import time

from kafka import KafkaConsumer

PORT, APART = int(sys.argv[1]), sys.argv[2] == "apart"
WITHIN_S = 60.0


def post(path: str, number: str) -> bool:
    """Post it until the store answers, for a limited time; return whether it was new there."""
    until = time.monotonic() + WITHIN_S
    while True:
        store = http.client.HTTPConnection("127.0.0.1", PORT, timeout=5)
        try:
            store.request("POST", path, number)
            return store.getresponse().status == 201
        except (OSError, http.client.HTTPException) as error:
            if time.monotonic() > until:
                raise
            print("waiting for the store:", error, flush=True)
            time.sleep(0.1)  # between two questions
        finally:
            store.close()


consumer = KafkaConsumer(
    "orders",
    bootstrap_servers=os.environ["BOOTSTRAP_SERVERS"],
    group_id="books",
    enable_auto_commit=False,
    auto_offset_reset="earliest",
)
for message in consumer:
    order = json.loads(message.value)["number"]
    if not APART:
        post("/both", order)
    elif post("/noted", order):
        post("/booked", order)
    consumer.commit()
