"""Read orders from standard input, one a line, and publish each until the broker has confirmed it.
The mistake: nothing asks whether a queue takes it (mandatory), and the queue is the worker's. The
broker confirms what no queue takes, and drops it. Knows nothing of lostack.
"""

import os
import sys
import time

import pika
from pika.exceptions import AMQPError

host, _, port = os.environ["BROKER"].rpartition(":")
PERSISTENT = pika.BasicProperties(delivery_mode=2)


def connected():
    """Return a channel with confirms."""
    while True:
        try:
            channel = pika.BlockingConnection(pika.ConnectionParameters(host, int(port))).channel()
            channel.confirm_delivery()
        except AMQPError:
            time.sleep(0.1)
        else:
            return channel


channel = connected()
for line in sys.stdin:
    while True:
        try:
            channel.basic_publish("", "orders", line.strip().encode(), PERSISTENT)
            break
        except AMQPError:  # not confirmed: it may be there or not
            channel = connected()
