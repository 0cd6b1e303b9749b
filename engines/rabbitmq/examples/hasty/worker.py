"""Record every order in a database. The mistake: acknowledgement is automatic, so the broker is
done with an order when it has written it to the connection. Knows nothing of lostack.
"""

import os
import sqlite3
import time

import pika
from pika.exceptions import AMQPError

host, _, port = os.environ["BROKER"].rpartition(":")
database = sqlite3.connect(os.environ["DATABASE"])
database.execute("CREATE TABLE IF NOT EXISTS orders (number TEXT)")


def work(_channel, _delivery, _properties, body):
    """Record an order."""
    with database:
        database.execute("INSERT INTO orders VALUES (?)", (body.decode(),))


while True:
    try:
        channel = pika.BlockingConnection(pika.ConnectionParameters(host, int(port))).channel()
        channel.queue_declare("orders", durable=True, arguments={"x-queue-type": "quorum"})
        channel.basic_consume("orders", work, auto_ack=True)
        channel.start_consuming()
    except AMQPError:
        time.sleep(0.1)
