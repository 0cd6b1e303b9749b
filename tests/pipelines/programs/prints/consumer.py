"""Print every order, then commit its position. Knows nothing of lostack."""

import json
import os

from kafka import KafkaConsumer

consumer = KafkaConsumer(
    "orders",
    bootstrap_servers=os.environ["BOOTSTRAP_SERVERS"],
    group_id="billing",
    enable_auto_commit=False,
    auto_offset_reset="earliest",
)
for message in consumer:
    order = json.loads(message.value)
    print(order["order"], "of", order["customer"])
    consumer.commit()
