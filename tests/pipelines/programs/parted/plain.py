"""Write each order into a file, and save the position behind it. ``once``: who writes an order
again replaces its file. ``again``: each time it is another file. Knows nothing of lostack.
"""

import contextlib
import json
import os
import sys
import time
from pathlib import Path

from kafka import KafkaConsumer
from kafka.errors import CommitFailedError

folder, how = sys.argv[1:]
consumer = KafkaConsumer(
    "orders",
    bootstrap_servers=os.environ["BOOTSTRAP_SERVERS"],
    group_id="billing",
    enable_auto_commit=False,
    auto_offset_reset="earliest",
    heartbeat_interval_ms=500,
    max_poll_interval_ms=6000,
    max_poll_records=1,
)


def write(value):
    """Write one order, whole or not at all."""
    each = "" if how == "once" else f"-{os.getpid()}-{time.monotonic_ns()}"
    name = f"{json.loads(value)['order']}{each}"
    new = Path(folder, f"{name}.new")
    with new.open("wb") as file:
        file.write(value)
        file.flush()
        os.fsync(file.fileno())
    new.rename(Path(folder, f"{name}.txt"))


while True:
    for messages in consumer.poll(timeout_ms=200).values():
        for message in messages:
            write(message.value)
            with contextlib.suppress(CommitFailedError):  # it may be another's by now
                consumer.commit()
