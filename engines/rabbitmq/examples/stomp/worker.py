"""Record every order in a database, then acknowledge it over STOMP. Knows nothing of lostack."""

import contextlib
import os
import queue
import sqlite3
import time

import stomp
from stomp.exception import StompException

host, _, port = os.environ["BROKER"].rpartition(":")
QUEUE = {"x-queue-type": "quorum", "durable": "true", "auto-delete": "false"}
database = sqlite3.connect(os.environ["DATABASE"])
database.execute("CREATE TABLE IF NOT EXISTS orders (number TEXT)")


class Inbox(stomp.ConnectionListener):
    """The messages that have come; ``None``: the connection is gone."""

    def __init__(self):
        self.messages = queue.Queue()

    def on_message(self, frame):
        """Keep a message."""
        self.messages.put(frame)

    def on_disconnected(self):
        """Note that none will come any more."""
        self.messages.put(None)


def work():
    """Record orders, and acknowledge each, until the connection is gone."""
    inbox = Inbox()
    connection = stomp.Connection12(
        [(host, int(port))], vhost="/", reconnect_attempts_max=1, heartbeats=(0, 0)
    )
    connection.set_listener("", inbox)
    connection.connect("guest", "guest", wait=True)
    told = {"prefetch-count": "1", **QUEUE}
    connection.subscribe("/queue/orders", "1", ack="client-individual", headers=told)
    while frame := inbox.messages.get():
        with database:
            database.execute("INSERT INTO orders VALUES (?)", (frame.body,))
        connection.ack(frame.headers["ack"])


while True:
    with contextlib.suppress(StompException, OSError, AttributeError):
        work()
    time.sleep(0.1)
