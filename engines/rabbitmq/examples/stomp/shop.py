"""Read orders from standard input, one a line, and send each over STOMP to a quorum queue until the
broker has confirmed it by a receipt. Knows nothing of lostack.
"""

import itertools
import os
import sys
import threading
import time

import stomp
from stomp.exception import StompException

host, _, port = os.environ["BROKER"].rpartition(":")
QUEUE = {"x-queue-type": "quorum", "durable": "true", "auto-delete": "false"}
numbers = itertools.count(1)


class Receipts(stomp.ConnectionListener):
    """The receipts that have come."""

    def __init__(self):
        self.come, self.gone, self.news = set(), False, threading.Condition()

    def on_receipt(self, frame):
        """Keep a receipt."""
        with self.news:
            self.come.add(frame.headers["receipt-id"])
            self.news.notify_all()

    def on_disconnected(self):
        """Note that none will come any more."""
        with self.news:
            self.gone = True
            self.news.notify_all()


def connected():
    """Return a connection and its receipts."""
    while True:
        try:
            receipts = Receipts()
            connection = stomp.Connection12(
                [(host, int(port))], vhost="/", reconnect_attempts_max=1, heartbeats=(0, 0)
            )
            connection.set_listener("", receipts)
            connection.connect("guest", "guest", wait=True)
        except (StompException, OSError):
            time.sleep(0.1)
        else:
            return connection, receipts


def confirmed(order):
    """Send an order; say whether its receipt has come."""
    number = str(next(numbers))
    try:
        connection.send("/queue/orders", order, persistent="true", receipt=number, **QUEUE)
    except (StompException, OSError, AttributeError):
        return False
    with receipts.news:
        receipts.news.wait_for(lambda: number in receipts.come or receipts.gone, 10)
        return number in receipts.come


connection, receipts = connected()
for line in sys.stdin:
    while not confirmed(line.strip()):
        connection, receipts = connected()
