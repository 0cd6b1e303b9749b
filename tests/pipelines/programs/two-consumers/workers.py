"""Two workers, each started again when it ends; each records an order, then commits its position.
Knows nothing of lostack.
"""

import json
import os
import sqlite3
import subprocess
import sys

from confluent_kafka import Consumer


def work(path):
    """Consume until the client raises: then another life begins."""
    database = sqlite3.connect(path, timeout=30)
    consumer = Consumer(
        {
            "bootstrap.servers": os.environ["BOOTSTRAP_SERVERS"],
            "group.id": "billing",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["orders"])
    while True:
        message = consumer.poll(1.0)
        if message is None or message.error():
            continue
        order = json.loads(message.value())
        with database:
            database.execute(
                "INSERT INTO orders VALUES (?, ?)", (order["order"], order["customer"])
            )
        consumer.commit(message, asynchronous=False)


def start():
    """Start a worker."""
    return subprocess.Popen([sys.executable, __file__, sys.argv[1], "worker"])


if __name__ == "__main__":
    if "worker" in sys.argv:
        work(sys.argv[1])
    with sqlite3.connect(sys.argv[1]) as made:
        made.execute("CREATE TABLE IF NOT EXISTS orders (number TEXT, customer TEXT)")
    workers = [start(), start()]
    while True:
        pid, _ = os.wait()
        workers = [worker if worker.pid != pid else start() for worker in workers]
