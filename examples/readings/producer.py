"""Make forty-eight readings and send each to a topic, remembering how far it has come. Knows
nothing of lostack.
"""

import json
import os
import sys
from pathlib import Path

from kafka import KafkaProducer

sent = Path(sys.argv[1])
first = int(sent.read_text()) + 1 if sent.exists() else 1
producer = KafkaProducer(bootstrap_servers=os.environ["BOOTSTRAP_SERVERS"], acks="all")
for number in range(first, 49):
    reading = {"reading": f"r-{number}", "degrees": 20 + number % 5}
    producer.send(
        "readings", json.dumps(reading).encode(), key=f"sensor-{number % 4}".encode()
    ).get(timeout=60)
    new = sent.with_suffix(".new")
    new.write_text(str(number))
    new.replace(sent)
producer.close()
