"""Take an order by HTTP and write it into the database, with a message about it; relay the
messages. Knows nothing of lostack.
"""

import json
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import psycopg
from kafka import KafkaProducer

DATABASE = os.environ["DATABASE"]
EARLY = "early" in sys.argv
ORDER = "INSERT INTO orders VALUES (%s, %s) ON CONFLICT DO NOTHING"
MESSAGE = "INSERT INTO outbox (number, customer) VALUES (%s, %s)"
UNSENT = "SELECT position, number, customer FROM outbox WHERE NOT sent ORDER BY position LIMIT 20"
SENT = "UPDATE outbox SET sent = true WHERE position = %s"


class Shop(BaseHTTPRequestHandler):
    """Takes one order a request."""

    def do_POST(self):
        """Write the order and its message in one transaction: both rows, or none."""
        order = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        row = (order["number"], order["customer"])
        try:
            with psycopg.connect(DATABASE) as database:
                if database.execute(ORDER, row).rowcount:  # who had no answer asks again
                    database.execute(MESSAGE, row)
        except psycopg.Error as error:
            print("the database:", error, flush=True)
            self.send_error(503)
            return
        self.send_response(201)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        """Log nothing."""


def relay():
    """Send what is in the outbox, for ever."""
    producer = KafkaProducer(bootstrap_servers=os.environ["BOOTSTRAP_SERVERS"], acks="all")
    while True:
        try:
            with psycopg.connect(DATABASE, autocommit=True) as database:
                while True:
                    send(database, producer)
                    time.sleep(0.05)
        except Exception as error:  # noqa: BLE001 - the database or the broker is away for a time
            print("the relay:", error, flush=True)
            time.sleep(0.2)


def send(database, producer):
    """Send each message, wait for its acknowledgement, and note it as sent only then.

    With the argument ``early``, the mistake: it is noted as sent before that, and nobody waits.
    """
    for position, number, customer in database.execute(UNSENT).fetchall():
        value = json.dumps({"number": number, "customer": customer}).encode()
        if EARLY:
            database.execute(SENT, (position,))
        sent = producer.send("orders", value, key=customer.encode())
        if not EARLY:
            sent.get()
            database.execute(SENT, (position,))


threading.Thread(target=relay, daemon=True).start()
ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Shop).serve_forever()
