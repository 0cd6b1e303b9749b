"""Print every record of a topic."""

import asyncio
import os
import sys

from aiokafka import AIOKafkaConsumer

MODE = sys.argv[1]


async def main():
    consumer = AIOKafkaConsumer(
        "orders",
        bootstrap_servers=os.environ["BOOTSTRAP_SERVERS"],
        group_id="billing",
        auto_offset_reset="earliest",
        **({} if MODE == "as-it-comes" else {"enable_auto_commit": False}),
    )
    await consumer.start()
    async for message in consumer:
        if MODE == "at-most-once":
            await consumer.commit()
        print(message.value.decode(), flush=True)
        if MODE == "at-least-once":
            await consumer.commit()


asyncio.run(main())
