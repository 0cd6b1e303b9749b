"""The mistake: what was recorded is known by STOMP's `message-id`, in which Artemis also names who
was given the message.
"""

import json
import os
import queue
import sqlite3
import sys

import stomp


class Inbox(stomp.ConnectionListener):
    """What was delivered."""

    def __init__(self):
        self.messages = queue.Queue()

    def on_message(self, frame):
        """One has come."""
        self.messages.put(frame)

    def on_disconnected(self):
        """There is no broker: whoever supervises this program starts it again."""
        os._exit(1)


database = sqlite3.connect(sys.argv[1])
database.execute("CREATE TABLE IF NOT EXISTS invoices (number TEXT, message TEXT UNIQUE)")
host, port = os.environ["BROKER"].split(":")
inbox = Inbox()
connection = stomp.Connection12([(host, int(port))])
connection.set_listener("", inbox)
connection.connect(wait=True)
connection.subscribe("/queue/invoices", id="1", ack="client-individual")
while True:
    message = inbox.messages.get()
    name = message.headers["message-id"]
    with database:
        database.execute(
            "INSERT OR IGNORE INTO invoices VALUES (?, ?)",
            (json.loads(message.body)["invoice"], name),
        )
    connection.ack(message.headers["ack"])
