"""Asks once where its group has got to; one that is not answered goes on at the end. Knows nothing
of lostack.
"""

import json
import os
import sqlite3
import sys
import time

from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.errors import CoordinatorNotAvailableError, KafkaError

BROKER = os.environ["BOOTSTRAP_SERVERS"]
database = sqlite3.connect(sys.argv[1])
database.execute("CREATE TABLE IF NOT EXISTS orders (number TEXT)")
consumer = KafkaConsumer(bootstrap_servers=BROKER, group_id="billing", enable_auto_commit=False)
partitions = [
    TopicPartition("orders", number) for number in consumer.partitions_for_topic("orders")
]
consumer.assign(partitions)
admin = KafkaAdminClient(bootstrap_servers=BROKER)
while True:
    try:
        saved = admin.list_group_offsets("billing")["billing"]
    except CoordinatorNotAvailableError:
        time.sleep(0.1)  # a new cluster has none yet
        continue
    except KafkaError:  # the mistake: no answer is no position
        consumer.seek_to_end(*partitions)
        break
    consumer.seek_to_beginning(*partitions)
    for partition, position in saved.items():
        if position.offset >= 0:
            consumer.seek(partition, position.offset)
    break
for message in consumer:
    with database:
        database.execute("INSERT INTO orders VALUES (?)", (json.loads(message.value)["order"],))
    consumer.commit()
