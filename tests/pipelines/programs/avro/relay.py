"""Copy each order, as it is, into another topic; then commit the position."""

import os

from kafka import KafkaConsumer, KafkaProducer

servers = os.environ["BOOTSTRAP_SERVERS"]
producer = KafkaProducer(bootstrap_servers=servers, acks="all")
consumer = KafkaConsumer(
    "orders",
    bootstrap_servers=servers,
    group_id="relay",
    enable_auto_commit=False,
    auto_offset_reset="earliest",
)
for message in consumer:
    producer.send("copies", message.value, key=message.key).get(timeout=60)
    consumer.commit()
