"""Copy every record to another topic, in one transaction with its position."""

import asyncio
import os

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

SERVERS = os.environ["BOOTSTRAP_SERVERS"]


async def main():
    producer = AIOKafkaProducer(bootstrap_servers=SERVERS, transactional_id="pricing")
    await producer.start()
    consumer = AIOKafkaConsumer(
        "orders",
        bootstrap_servers=SERVERS,
        group_id="pricing",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
    )
    await consumer.start()
    while True:
        polled = await consumer.getmany(timeout_ms=1000)
        if not polled:
            continue
        async with producer.transaction():
            for messages in polled.values():
                for message in messages:
                    await producer.send("priced", message.value)
            await producer.send_offsets_to_transaction(
                {partition: messages[-1].offset + 1 for partition, messages in polled.items()},
                "pricing",
            )


asyncio.run(main())
