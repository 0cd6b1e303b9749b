"""Take orders by HTTP and send each to a topic; answer when it is stored. Knows
nothing of lostack.
"""

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

from kafka import KafkaProducer

producer = KafkaProducer(bootstrap_servers=os.environ["BOOTSTRAP_SERVERS"], acks="all")


class Orders(BaseHTTPRequestHandler):
    """POST /orders."""

    def do_POST(self):
        """Store an order, then say so."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        producer.send("orders", body, key=json.loads(body)["customer"].encode()).get(timeout=60)
        self.send_response(201)
        self.end_headers()


HTTPServer(("127.0.0.1", int(sys.argv[1])), Orders).serve_forever()
