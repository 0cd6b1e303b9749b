"""Record every order in a database, then acknowledge it. Every twelfth can never be booked, and
is refused for good: its queue drops it, or moves it to its dead letters. Knows nothing of lostack.
"""

import os
import sqlite3
import time

import pika
from pika.exceptions import AMQPError

host, _, port = os.environ["BROKER"].rpartition(":")
database = sqlite3.connect(os.environ["DATABASE"])
database.execute("CREATE TABLE IF NOT EXISTS orders (number TEXT)")


def work(channel, delivery, _properties, body):
    """Record an order, and acknowledge it; or refuse it."""
    if int(body.split()[0]) % 12 == 0:
        channel.basic_nack(delivery.delivery_tag, requeue=False)
        return
    with database:
        database.execute("INSERT INTO orders VALUES (?)", (body.decode(),))
    channel.basic_ack(delivery.delivery_tag)


while True:
    try:
        channel = pika.BlockingConnection(pika.ConnectionParameters(host, int(port))).channel()
        channel.basic_qos(prefetch_count=1)
        channel.basic_consume("orders", work)
        channel.start_consuming()
    except AMQPError:
        time.sleep(0.1)
