"""The mistake: take orders by HTTP and send each to a topic; answer before it is stored."""

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

from kafka import KafkaProducer

producer = KafkaProducer(bootstrap_servers=os.environ["BOOTSTRAP_SERVERS"], acks="all")


class Orders(BaseHTTPRequestHandler):
    """POST /orders."""

    def do_POST(self):
        """Say that an order is stored, then store it."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(201)
        self.end_headers()
        producer.send("orders", body, key=json.loads(body)["customer"].encode())


HTTPServer(("127.0.0.1", int(sys.argv[1])), Orders).serve_forever()
