"""Book orders in rounds, each up to the end that the topic had when the round began; save the
position behind each. One client asks where the end is, another reads. Knows nothing of lostack.
"""

import json
import os
import sqlite3
import sys
import time

from confluent_kafka import Consumer, KafkaException, TopicPartition

database = sqlite3.connect(sys.argv[1])
database.execute("CREATE TABLE IF NOT EXISTS orders (number TEXT)")
settings = {
    "bootstrap.servers": os.environ["BOOTSTRAP_SERVERS"],
    "group.id": "billing",
    "enable.auto.commit": False,
}
meter, reader = Consumer(settings), Consumer(settings)
orders = TopicPartition("orders", 0)
[saved] = reader.committed([orders], timeout=30)
position = max(saved.offset, 0)
reader.assign([TopicPartition("orders", 0, position)])
while True:
    try:
        _, end = meter.get_watermark_offsets(orders, timeout=5)
    except KafkaException as error:
        print(f"asking again: {error}", flush=True)
        time.sleep(0.2)
        continue
    while position < end:
        message = reader.poll(1.0)
        if message is None or message.error():
            continue
        with database:
            number = json.loads(message.value())["order"]
            database.execute("INSERT INTO orders VALUES (?)", (number,))
        reader.commit(message=message, asynchronous=False)
        position = message.offset() + 1
    time.sleep(0.05)
