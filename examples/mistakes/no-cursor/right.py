"""Remember how far the file has been sent; what is sent again after a crash is recorded once."""

import json
import os
import sys
from pathlib import Path

from kafka import KafkaProducer

cursor = Path(sys.argv[2])
done = int(cursor.read_text()) if cursor.exists() else 0
producer = KafkaProducer(
    bootstrap_servers=os.environ["BOOTSTRAP_SERVERS"], acks="all", enable_idempotence=True
)
for position, line in enumerate(Path(sys.argv[1]).read_text().splitlines()):
    if position < done:
        continue
    order = json.loads(line)
    producer.send("orders", line.encode(), key=order["customer"].encode()).get(timeout=60)
    new = cursor.with_suffix(".new")
    new.write_text(str(position + 1))
    new.replace(cursor)
producer.close()
