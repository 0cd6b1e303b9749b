"""Read orders from standard input, one a line, and publish each to a stream. Knows nothing of
lostack.
"""

import asyncio
import os
import sys

import nats


async def main():
    """Wait for each PubAck; where it does not come, publish again, with the same id."""
    client = await nats.connect(f"nats://{os.environ['BROKER']}", max_reconnect_attempts=-1)
    stream = client.jetstream()
    for line in sys.stdin:
        order = line.strip()
        while True:
            try:
                await stream.publish(
                    "orders", order.encode(), timeout=1, headers={"Nats-Msg-Id": order}
                )
                break
            except nats.errors.Error:
                await asyncio.sleep(0.1)
    await client.close()


asyncio.run(main())
