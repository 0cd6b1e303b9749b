"""A task that records an order. It is acknowledged before its work, as Celery does by default: a
task whose worker dies may be run again all the same. The database has a key, so that its result is
recorded at most once. Knows nothing of lostack.
"""

import os
import sqlite3

from celery import Celery

app = Celery("shop", broker=f"redis://{os.environ['BROKER']}/0")
app.conf.update(
    task_publish_retry=False,
    task_ignore_result=True,
    task_default_queue="orders",
    worker_prefetch_multiplier=1,
    broker_connection_retry_on_startup=True,
    broker_transport_options={
        "visibility_timeout": 2,
        "unacked_restore_interval": 1,
        "unacked_restore_throttle": 1,
    },
)


@app.task
def record(order):
    """Record an order in the database."""
    with sqlite3.connect(os.environ["DATABASE"]) as database:
        database.execute("CREATE TABLE IF NOT EXISTS orders (number TEXT PRIMARY KEY)")
        database.execute("INSERT OR IGNORE INTO orders VALUES (?)", (order,))
