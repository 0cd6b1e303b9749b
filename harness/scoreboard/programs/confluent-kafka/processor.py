"""Copy every record to another topic, in one transaction with its position."""

import os
import sys

from confluent_kafka import Consumer, Producer

address = {"bootstrap.servers": os.environ["BOOTSTRAP_SERVERS"]}
producer = Producer(address | {"transactional.id": "pricing"})
producer.init_transactions()
consumer = Consumer(
    address
    | {
        "group.id": "pricing",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
    }
)
consumer.subscribe(["orders"])
while True:
    message = consumer.poll(1.0)
    if message is None:
        continue
    if message.error():
        print(message.error(), file=sys.stderr, flush=True)
        continue
    producer.begin_transaction()
    producer.produce("priced", message.value())
    producer.send_offsets_to_transaction(
        consumer.position(consumer.assignment()), consumer.consumer_group_metadata()
    )
    producer.commit_transaction()
