"""Send each order as Avro, with a registry's five bytes in front."""

import io
import json
import os
import sys

import fastavro
from kafka import KafkaProducer

schema = fastavro.schema.load_schema("order.avsc")
producer = KafkaProducer(bootstrap_servers=os.environ["BOOTSTRAP_SERVERS"], acks="all")
for line in sys.stdin:
    order = json.loads(line)
    value = io.BytesIO(b"\0\0\0\0\x01")
    value.seek(0, io.SEEK_END)
    fastavro.schemaless_writer(value, schema, order)
    producer.send("orders", value.getvalue(), key=order["customer"].encode()).get(timeout=60)
producer.close()
