"""The mistake: a message that the library has given up is complained of, and not sent again: an
outage of a second loses it.
"""

import os
import sys

import pulsar

client = pulsar.Client(f"pulsar://{os.environ['BROKER']}")
producer = client.create_producer("persistent://public/default/letters", send_timeout_millis=1000)
for line in sys.stdin:
    try:
        producer.send(line.strip().encode())
    except pulsar.PulsarException as error:
        print(f"{line.strip()}: {error}", file=sys.stderr)
client.close()
