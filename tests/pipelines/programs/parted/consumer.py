"""Write each order into a file, and save the position behind it. Knows nothing of lostack.

The second argument says how:

- ``waits``: four threads write; who gives partitions up waits for them first. Right.
- ``leaves``: four threads write, and go on when their partitions are another's. Wrong.
- ``once``: one thread writes; who writes an order again replaces its file. Right.
- ``again``: one thread writes, each time into another file. Wrong.

The third is the assignor: ``range``, which is eager, or ``cooperative-sticky``; or ``consumer``,
which is the newer group protocol.
"""

import contextlib
import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

from confluent_kafka import Consumer, KafkaException

folder, how, assignor = sys.argv[1:]
alone = how in {"once", "again"}
consumer = Consumer(
    {
        "bootstrap.servers": os.environ["BOOTSTRAP_SERVERS"],
        "group.id": "billing",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "max.poll.interval.ms": 6000 if alone else 60000,
        **(
            {"group.protocol": "consumer"}
            if assignor == "consumer"
            else {
                "heartbeat.interval.ms": 500,
                "session.timeout.ms": 6000,
                "partition.assignment.strategy": assignor,
            }
        ),
    }
)
pool = ThreadPoolExecutor(4)
work = []


def write(message):
    """Write one order, whole or not at all."""
    each = "" if how == "once" else f"-{os.getpid()}-{time.monotonic_ns()}"
    name = f"{json.loads(message.value())['order']}{each}"
    new = Path(folder, f"{name}.new")
    with new.open("wb") as file:
        file.write(message.value())
        file.flush()
        os.fsync(file.fileno())
    new.rename(Path(folder, f"{name}.txt"))
    return message


def save():
    """Save the positions behind the work that is done, up to the first that is not."""
    while work and work[0].done():
        with contextlib.suppress(KafkaException):  # others may have its partition by now
            consumer.commit(message=work.pop(0).result(), asynchronous=False)


def revoked(*_):
    """Give partitions up."""
    if how == "waits":
        wait(work)
    save()


consumer.subscribe(["orders"], on_revoke=revoked)
while True:
    message = consumer.poll(0.2)
    if message is not None and not message.error():
        work.append(pool.submit(write, message))
    if alone:
        wait(work)
    save()
