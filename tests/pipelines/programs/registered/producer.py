"""Register the schema of orders, and send each as Avro, with the schema's id in front."""

import io
import json
import os
import sys
import urllib.request

import fastavro
from kafka import KafkaProducer

NAMED = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "order", "type": "string"}, {"name": "customer", "type": "string"}],
}
asked = urllib.request.Request(  # noqa: S310
    f"{sys.argv[1]}/subjects/orders-value/versions",
    json.dumps({"schema": json.dumps(NAMED)}).encode(),
    method="POST",
)
with urllib.request.urlopen(asked, timeout=30) as answer:  # noqa: S310
    HEAD = b"\0" + json.load(answer)["id"].to_bytes(4, "big")
schema = fastavro.parse_schema(NAMED)
producer = KafkaProducer(bootstrap_servers=os.environ["BOOTSTRAP_SERVERS"], acks="all")
for line in sys.stdin:
    order = json.loads(line)
    value = io.BytesIO()
    fastavro.schemaless_writer(value, schema, order)
    producer.send("orders", HEAD + value.getvalue(), key=order["customer"].encode()).get(timeout=60)
producer.close()
