"""Send each line of standard input. ``all``: wait for all replicas in sync, and send again what was
refused. ``one``: wait for the leader alone. ``once``: take what was refused for sent.
"""

import os
import sys

from kafka import KafkaProducer
from kafka.errors import NotEnoughReplicasError

how = sys.argv[1]
producer = KafkaProducer(
    bootstrap_servers=os.environ["BOOTSTRAP_SERVERS"],
    acks=1 if how == "one" else "all",
    enable_idempotence=False,
    retries=0 if how == "once" else 2**31 - 1,
    retry_backoff_ms=50,
)
for line in sys.stdin:
    value = line.strip().encode()
    try:
        producer.send("orders", value, key=value[-6:]).get(timeout=60)
    except NotEnoughReplicasError as error:
        print(f"sent, I suppose: {error}", flush=True)
producer.close()
