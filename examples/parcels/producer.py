"""Read parcels from standard input, one JSON object a line, and send each to a queue. Knows nothing
of lostack.
"""

import os
import queue
import sys

import stomp


class Receipts(stomp.ConnectionListener):
    """What the broker says of what was sent."""

    def __init__(self):
        self.said = queue.Queue()
        self.ending = False

    def on_receipt(self, frame):
        """It has taken a message."""
        self.said.put(frame.headers["receipt-id"])

    def on_disconnected(self):
        """There is no broker: whoever supervises this program starts it again."""
        if not self.ending:
            os._exit(1)


host, port = os.environ["BROKER"].split(":")
receipts = Receipts()
connection = stomp.Connection12([(host, int(port))])
connection.set_listener("", receipts)
connection.connect(wait=True)
for number, line in enumerate(sys.stdin):
    connection.send(
        "/queue/parcels", line.strip(), headers={"persistent": "true"}, receipt=str(number)
    )
    receipts.said.get(timeout=60)
receipts.ending = True
connection.disconnect()
