"""Record every order, in one of several ways. Knows nothing of lostack.

``consumer.py HOW WHERE``: the right ways commit behind the work, the wrong ones before it is done.
``WHERE`` is a file, a PostgreSQL database, or the address of a store over HTTP. With ``ASKS``, the
address of a store, it asks there all the time whether the store is there.
"""

import asyncio
import json
import os
import sys
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor, wait

import psycopg
from confluent_kafka import Consumer

how, where = sys.argv[1:]
BOOK = "INSERT INTO bookings (number, customer) VALUES (%s, '') ON CONFLICT DO NOTHING"
BY_CLOCK = how in {"batch-by-clock", "pool-by-clock", "loop-by-clock"}
consumer = Consumer(
    {
        "bootstrap.servers": os.environ["BOOTSTRAP_SERVERS"],
        "group.id": "billing",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": BY_CLOCK,
        "auto.commit.interval.ms": 500,
    }
)
consumer.subscribe(["orders"])
lock = threading.Lock()
if "://" not in where:
    book = os.open(where, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o644)


def asks(store):
    """Ask a store whether it is there, over and over."""
    while True:
        urllib.request.urlopen(store).close()  # noqa: S310 - http
        time.sleep(0.02)


def record(*messages):
    """Record each order, durably."""
    orders = [json.loads(each.value())["order"] for each in messages]
    if where.startswith("http:"):
        for order in orders:
            urllib.request.urlopen(f"{where}/booked", order.encode()).close()  # noqa: S310 - http
    elif "://" in where:
        with psycopg.connect(where) as database:
            for order in orders:
                database.execute(BOOK, (order,))
    else:
        with lock:
            os.write(book, "".join(f"{order}\n" for order in orders).encode())
            os.fsync(book)


def polled(within_s=0.1):
    """Return the next message, or nothing."""
    message = consumer.poll(within_s)
    return message if message is not None and message.error() is None else None


def one_by_one():
    """One thread: the commit behind the record, or (wrong) before it."""
    while True:
        if (message := polled()) is None:
            continue
        if how == "commit-first":
            consumer.commit(message, asynchronous=False)
        record(message)
        if how == "commit-behind":
            consumer.commit(message, asynchronous=False)


def in_batches():
    """A batch of six in memory, or what is there after a while; the clock (wrong) commits what was
    polled.
    """
    batch, idle = [], 0
    while True:
        message = polled()
        batch += [] if message is None else [message]
        idle = idle + 1 if message is None else 0
        if batch and (len(batch) >= 6 or idle > 20):
            record(*batch)
            if not BY_CLOCK:
                consumer.commit(asynchronous=False)
            batch = []


def in_a_pool():
    """Four threads do the work; the clock (wrong) commits what was handed to them."""
    with ThreadPoolExecutor(4) as pool:
        while True:
            messages = [each for each in consumer.consume(8, 0.1) if each.error() is None]
            work = [pool.submit(record, each) for each in messages]
            if work and not BY_CLOCK:
                wait(work)
                consumer.commit(asynchronous=False)


async def in_a_loop():
    """An event loop, a task for each record; the clock (wrong) commits what has a task."""
    tasks = set()
    while True:
        message = await asyncio.to_thread(polled)
        if message is None:
            continue
        task = asyncio.create_task(asyncio.to_thread(record, message))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        if not BY_CLOCK:
            await asyncio.gather(*tasks)
            await asyncio.to_thread(consumer.commit, message, asynchronous=False)


if "ASKS" in os.environ:
    threading.Thread(target=asks, args=(os.environ["ASKS"],), daemon=True).start()
if how.startswith("commit"):
    one_by_one()
elif how.startswith("batch"):
    in_batches()
elif how.startswith("pool"):
    in_a_pool()
else:
    asyncio.run(in_a_loop())
