"""Print every record of a topic."""

import os
import sys

from kafka import KafkaConsumer

MODE = sys.argv[1]
consumer = KafkaConsumer(
    "orders",
    bootstrap_servers=os.environ["BOOTSTRAP_SERVERS"],
    group_id="billing",
    auto_offset_reset="earliest",
    **({} if MODE == "as-it-comes" else {"enable_auto_commit": False, "max_poll_records": 1}),
)
for message in consumer:
    if MODE == "at-most-once":
        consumer.commit()
    print(message.value.decode(), flush=True)
    if MODE == "at-least-once":
        consumer.commit()
