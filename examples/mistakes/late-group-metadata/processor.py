"""Price orders from topic to topic, exactly once but for a mistake: the group's metadata is taken
when the offsets are sent.

By then the group may have put this member out, and taken it in again: it is the new member's, and
fences nobody.
"""

import json
import os
import sys

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition

name = sys.argv[1]
address = {"bootstrap.servers": os.environ["BOOTSTRAP_SERVERS"]}
producer = Producer(address | {"transactional.id": f"pricing-{name}"})
producer.init_transactions()
consumer = Consumer(
    address
    | {
        "group.id": "pricing",
        "session.timeout.ms": 3000,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
    }
)
consumer.subscribe(
    ["orders"], on_assign=lambda _, given: print(f"{name} has {len(given)}", flush=True)
)
while True:
    message = consumer.poll(1.0)
    if message is None:
        continue
    if message.error():
        print(message.error(), file=sys.stderr)
        continue
    order = json.loads(message.value()) | {"price": 10}
    producer.begin_transaction()
    try:
        producer.produce("priced", json.dumps(order), key=message.key())
        while producer.flush(
            0.2
        ):  # storing it may take long: stay in the group meanwhile, and take nothing
            consumer.pause(consumer.assignment())
            consumer.poll(0)
        consumer.resume(consumer.assignment())
        done = TopicPartition(message.topic(), message.partition(), message.offset() + 1)
        producer.send_offsets_to_transaction([done], consumer.consumer_group_metadata())
        producer.commit_transaction()
    except KafkaException as error:  # refused: the record goes to whoever has its partition now
        print(error, file=sys.stderr)
        if not error.args[0].txn_requires_abort():
            raise
        producer.abort_transaction()
        for last in consumer.committed(
            consumer.assignment()
        ):  # others may have gone on meanwhile: from where the group stands
            consumer.seek(
                last
                if last.offset >= 0
                else TopicPartition(last.topic, last.partition, OFFSET_BEGINNING)
            )
