"""Send the orders of a file, and note how far the file is sent. Knows nothing of lostack.

``right``: the cursor follows the acknowledgements. ``skips``: an order at which it died twice is
skipped. ``trusts``: when it hears of a lost connection, it notes all that its client has queued.
"""

import json
import os
import sys
from pathlib import Path

from confluent_kafka import Producer

file, how = Path(sys.argv[1]), sys.argv[2]
cursor, tried = file.with_suffix(".cursor"), file.with_suffix(".tried")
lines = file.read_text().splitlines()
begins = int(cursor.read_text()) if cursor.exists() else 0
sent = []
tries = json.loads(tried.read_text()) if tried.exists() else {}


def note(where, text):
    """Write a file whole."""
    part = where.with_suffix(".part")
    part.write_text(text)
    part.replace(where)


def delivered(error, _):
    """Note that one more order is sent."""
    if error:
        sys.exit(f"not sent: {error}")
    sent.append(error)
    note(cursor, str(begins + len(sent)))


def told(error):
    """Hear of a lost connection."""
    if how == "trusts":
        note(cursor, str(len(lines)))  # the mistake: queued is not sent


producer = Producer(
    {
        "bootstrap.servers": os.environ["BOOTSTRAP_SERVERS"],
        "acks": "all",
        "max.in.flight": 1,
        "batch.num.messages": 1 if how == "skips" else 4,
        "linger.ms": 5,
        "error_cb": told,
    }
)
for number, line in enumerate(lines[begins:], start=begins):
    if how == "skips":
        tries[str(number)] = tries.get(str(number), 0) + 1
        note(tried, json.dumps(tries))
        if tries[str(number)] > 2:  # the mistake: it need not be the order's fault
            sent.append(number)
            continue
    producer.produce("orders", line.encode(), on_delivery=delivered)
    if how == "skips":
        producer.flush()
    producer.poll(0)
while len(producer):
    producer.poll(0.05)
