"""Send every order once; what fails is sent again 6 s later, beside everything else. Never ends.
Knows nothing of lostack.
"""

import json
import os
import queue
import sys
import threading
import time

from kafka import KafkaProducer
from kafka.errors import KafkaError

failed = queue.Queue()
producer = KafkaProducer(
    bootstrap_servers=os.environ["BOOTSTRAP_SERVERS"],
    acks="all",
    retries=0,
    enable_idempotence=False,
    max_in_flight_requests_per_connection=1,
)


def send(line):
    """Send an order, and remember it where that fails."""
    try:
        producer.send("orders", line.encode(), key=json.loads(line)["customer"].encode()).get(
            timeout=60
        )
    except KafkaError:
        failed.put((time.monotonic() + 6, line))


def send_again():
    """Send again what has failed, when it is due."""
    while True:
        due, line = failed.get()
        time.sleep(max(0.0, due - time.monotonic()))
        send(line)


threading.Thread(target=send_again, daemon=True).start()
for order in sys.stdin:
    send(order.strip())
threading.Event().wait()
