"""Read orders from standard input, one JSON object a line, and send each to a topic. Knows nothing
of lostack.
"""

import json
import sys

from confluent_kafka import Producer
from settings import CLIENT


def told(error, _message):
    """End where an order could not be sent: whoever started this sends it again."""
    if error is not None:
        sys.exit(f"an order was not sent: {error}")


producer = Producer({**CLIENT, "acks": "all"})
for line in sys.stdin:
    order = json.loads(line)
    producer.produce(
        "orders", line.strip().encode(), key=order["customer"].encode(), on_delivery=told
    )
    producer.flush()
