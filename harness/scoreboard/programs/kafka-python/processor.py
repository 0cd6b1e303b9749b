"""Copy every record to another topic, in one transaction with its position."""

import os

from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition

servers = os.environ["BOOTSTRAP_SERVERS"]
producer = KafkaProducer(bootstrap_servers=servers, transactional_id="pricing")
producer.init_transactions()
consumer = KafkaConsumer(
    "orders",
    bootstrap_servers=servers,
    group_id="pricing",
    auto_offset_reset="earliest",
    enable_auto_commit=False,
    isolation_level="read_committed",
)
while True:
    polled = consumer.poll(timeout_ms=1000)
    group = consumer.group_metadata()
    if not polled:
        continue
    producer.begin_transaction()
    positions = {}
    for partition, messages in polled.items():
        for message in messages:
            producer.send("priced", message.value)
        after = messages[-1]
        positions[TopicPartition(partition.topic, partition.partition)] = OffsetAndMetadata(
            after.offset + 1, "", after.leader_epoch
        )
    producer.send_offsets_to_transaction(positions, group)
    producer.commit_transaction()
