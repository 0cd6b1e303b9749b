"""A mistake: acknowledges an order, then records it. Knows nothing of lostack."""

import asyncio
import os
import sqlite3

import nats
from nats.js.api import ConsumerConfig


async def main():
    """Pull one message after the other."""
    database = sqlite3.connect(os.environ["DATABASE"])
    database.execute("CREATE TABLE IF NOT EXISTS orders (number TEXT)")
    client = await nats.connect(f"nats://{os.environ['BROKER']}", max_reconnect_attempts=-1)
    config = ConsumerConfig(ack_wait=2)
    pulls = await client.jetstream().pull_subscribe("orders", durable="worker", config=config)
    while True:
        try:
            [message] = await pulls.fetch(1, 1)
        except nats.errors.Error:
            continue
        try:
            await message.ack_sync()
        except nats.errors.Error:
            continue
        with database:
            database.execute("INSERT INTO orders VALUES (?)", (message.data.decode(),))


asyncio.run(main())
