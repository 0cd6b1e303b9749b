"""Send each line of standard input to a topic."""

import asyncio
import os
import sys

from aiokafka import AIOKafkaProducer

MODE = sys.argv[1]
SETTINGS = {
    "as-it-comes": {},
    "at-most-once": {"acks": 0},
    "at-least-once": {"acks": "all"},
}


def told(sent):
    if sent.exception() is not None:
        print(f"not sent: {sent.exception()!r}", file=sys.stderr, flush=True)
        if MODE != "at-most-once":
            os._exit(1)


async def main():
    producer = AIOKafkaProducer(bootstrap_servers=os.environ["BOOTSTRAP_SERVERS"], **SETTINGS[MODE])
    await producer.start()
    while line := await asyncio.to_thread(sys.stdin.readline):
        (await producer.send("orders", line.strip().encode())).add_done_callback(told)
    await producer.stop()


asyncio.run(main())
