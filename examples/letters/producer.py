"""Read letters from standard input, one JSON object a line, and send each to a topic of Pulsar.
Knows nothing of lostack.
"""

import os
import sys

import pulsar

client = pulsar.Client(f"pulsar://{os.environ['BROKER']}")
producer = client.create_producer("persistent://public/default/letters", send_timeout_millis=0)
for line in sys.stdin:
    producer.send(line.strip().encode())
client.close()
