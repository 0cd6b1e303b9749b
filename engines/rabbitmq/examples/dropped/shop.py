"""Read orders from standard input, one a line, and publish each to a quorum queue until the broker
has confirmed it. The mistake: the queue has no dead-letter exchange, so what its worker refuses for
good is dropped, and nobody is told. Knows nothing of lostack.
"""

import os
import sys
import time

import pika
from pika.exceptions import AMQPError

host, _, port = os.environ["BROKER"].rpartition(":")
PERSISTENT = pika.BasicProperties(delivery_mode=2)
QUORUM = {"x-queue-type": "quorum"}


def connected():
    """Return a channel with confirms; both queues are there."""
    while True:
        try:
            channel = pika.BlockingConnection(pika.ConnectionParameters(host, int(port))).channel()
            channel.queue_declare("orders.dead", durable=True, arguments=QUORUM)
            channel.queue_declare("orders", durable=True, arguments=QUORUM)
            channel.confirm_delivery()
        except AMQPError:
            time.sleep(0.1)
        else:
            return channel


channel = connected()
for line in sys.stdin:
    while True:
        try:
            channel.basic_publish("", "orders", line.strip().encode(), PERSISTENT, mandatory=True)
            break
        except AMQPError:  # not confirmed: it may be there or not
            channel = connected()
