"""Write down what could not be booked: ``right``, before the position is saved, or ``early``, after
it. Knows nothing of lostack.
"""

import os
import sys
from pathlib import Path

from kafka import KafkaConsumer

how, path = sys.argv[1:]
consumer = KafkaConsumer(
    "orders.dlq",
    bootstrap_servers=os.environ["BOOTSTRAP_SERVERS"],
    group_id="undertaker",
    enable_auto_commit=False,
    auto_offset_reset="earliest",
    max_poll_records=1,
)
with Path(path).open("a") as dead:
    for message in consumer:
        if how == "early":
            consumer.commit()
        dead.write(message.value.decode() + "\n")
        dead.flush()
        os.fsync(dead.fileno())
        if how == "right":
            consumer.commit()
