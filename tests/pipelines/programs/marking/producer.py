"""Send each line of a file, and remember how many are sent. Knows nothing of lostack.

``producer.py HOW INPUT CURSOR``: ``behind`` saves the cursor behind the acknowledgement, ``before``
as soon as the record is handed to the client.
"""

import json
import os
import sys
from pathlib import Path

from kafka import KafkaProducer

how, lines, cursor = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
producer = KafkaProducer(bootstrap_servers=os.environ["BOOTSTRAP_SERVERS"], acks="all")


def save(count):
    """Save the cursor, durably."""
    new = cursor.with_suffix(".new")
    with new.open("w") as file:
        file.write(str(count))
        file.flush()
        os.fsync(file.fileno())
    new.replace(cursor)


done = int(cursor.read_text()) if cursor.exists() else 0
for number, line in enumerate(lines.read_text().splitlines(), start=1):
    if number <= done:
        continue
    sent = producer.send("orders", line.encode(), key=json.loads(line)["customer"].encode())
    if how == "before":
        save(number)
    sent.get(timeout=60)
    if how == "behind":
        save(number)
producer.close()
