"""Post each order to a store, then commit the position. ``careful``: until the store
has answered.
"""

import json
import os
import sys
import time
import urllib.error
import urllib.request

from kafka import KafkaConsumer

STORE, CAREFUL = sys.argv[1], sys.argv[2] == "careful"


def post(number: str) -> None:
    """Let the store keep it."""
    while True:
        try:
            urllib.request.urlopen(STORE, number.encode(), timeout=2).close()  # noqa: S310
        except (urllib.error.URLError, OSError):
            if CAREFUL:
                time.sleep(0.1)
                continue
        return


consumer = KafkaConsumer(
    "orders",
    bootstrap_servers=os.environ["BOOTSTRAP_SERVERS"],
    group_id="posting",
    enable_auto_commit=False,
    auto_offset_reset="earliest",
)
for message in consumer:
    post(json.loads(message.value)["order"])
    consumer.commit()
