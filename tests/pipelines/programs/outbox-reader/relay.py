"""Relay the rows of an outbox to Kafka, and remember how far. ``relay.py last`` goes by the highest
number that it has seen, ``relay.py xmin`` behind no transaction that is still open. With a port it
also takes orders by HTTP, and writes each in a transaction that takes a while.
"""

import json
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import psycopg
from kafka import KafkaProducer

TABLES = """
CREATE TABLE IF NOT EXISTS messages (
    position bigserial PRIMARY KEY, number text NOT NULL UNIQUE, customer text NOT NULL,
    transaction xid8 NOT NULL DEFAULT pg_current_xact_id());
CREATE TABLE IF NOT EXISTS relayed (transaction xid8 NOT NULL, position bigint NOT NULL);
INSERT INTO relayed SELECT '0', 0 WHERE NOT EXISTS (SELECT FROM relayed);
"""
NEWS = {
    "last": "o.position > r.position ORDER BY o.position",
    "xmin": "(o.transaction, o.position) > (r.transaction, r.position) "
    "AND o.transaction < pg_snapshot_xmin(pg_current_snapshot()) "
    "ORDER BY o.transaction, o.position",
}[sys.argv[1]]
INSERT = "INSERT INTO messages (number, customer) VALUES (%s, %s) ON CONFLICT DO NOTHING"
TAKES_S = 0.2


class Shop(BaseHTTPRequestHandler):
    """Takes one order a request."""

    def do_POST(self):
        """Write the order; some are dearer, and ask somebody else before they are committed."""
        order = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        try:
            with psycopg.connect(os.environ["DATABASE"]) as database:
                database.execute(INSERT, (order["number"], order["customer"]))
                time.sleep(TAKES_S if order["position"] % 3 == 0 else 0)
        except psycopg.Error as error:
            print("the database:", error, flush=True)
            self.send_error(503)
            return
        self.send_response(201)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        """Log nothing."""


def relay(database, producer):
    """Send what is new, then remember how far that was."""
    what = "o.number, o.customer, o.transaction::text, o.position"
    rows = database.execute(f"SELECT {what} FROM messages o, relayed r WHERE {NEWS}").fetchall()  # noqa: S608 - its own text
    for number, customer, transaction, position in rows:
        value = json.dumps({"order": number, "customer": customer}).encode()
        producer.send("orders", value, key=customer.encode()).get(timeout=60)
        database.execute(
            "UPDATE relayed SET transaction = %s::text::xid8, position = %s",
            (transaction, position),
        )


def connected():
    """Wait for the database."""
    while True:
        try:
            return psycopg.connect(os.environ["DATABASE"], autocommit=True)
        except psycopg.OperationalError as error:
            print("the database:", error, flush=True)
            time.sleep(0.1)


database = connected()
database.execute(TABLES)
if len(sys.argv) > 2:
    shop = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Shop)
    threading.Thread(target=shop.serve_forever, daemon=True).start()
producer = KafkaProducer(bootstrap_servers=os.environ["BOOTSTRAP_SERVERS"], acks="all")
print("ready", flush=True)
while True:
    try:
        relay(database, producer)
    except psycopg.OperationalError as error:
        print("the database:", error, flush=True)
        database = connected()
    time.sleep(0.02)
