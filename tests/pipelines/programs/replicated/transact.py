"""Send each line of standard input in a transaction of its own. ``asks``: if the broker has not
said in time what became of the commit, ask again until it does. ``anew``: take it for aborted,
begin as a new producer, and send the line again.
"""

import os
import sys

from confluent_kafka import KafkaException, Producer

how = sys.argv[1]


def begun():
    """Return a producer that may begin transactions."""
    producer = Producer(
        {"bootstrap.servers": os.environ["BOOTSTRAP_SERVERS"], "transactional.id": "orders"}
    )
    producer.init_transactions()
    return producer


def is_committed(producer):
    """Whether the transaction is committed."""
    while True:
        try:
            producer.commit_transaction(0.5)
        except KafkaException as error:
            if how == "anew" or not error.args[0].retriable():
                print(f"not committed, I suppose: {error}", flush=True)
                return False
        else:
            return True


producer = begun()
for line in sys.stdin:
    value = line.strip().encode()
    while True:
        producer.begin_transaction()
        producer.produce("orders", value, key=value[-6:])
        if is_committed(producer):
            break
        producer = begun()
