"""The mistake: nobody acknowledges (`ack` is `auto` where nobody says otherwise): the broker
forgets what it has sent.
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
database.execute("CREATE TABLE IF NOT EXISTS parcels (number TEXT)")
host, port = os.environ["BROKER"].split(":")
inbox = Inbox()
connection = stomp.Connection12([(host, int(port))])
connection.set_listener("", inbox)
connection.connect(wait=True)
connection.subscribe("/queue/parcels", id="1")
while True:
    message = inbox.messages.get()
    with database:
        database.execute("INSERT INTO parcels VALUES (?)", (json.loads(message.body)["parcel"],))
