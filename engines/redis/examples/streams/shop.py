"""Read orders from standard input, one a line, and add each to a stream until the server says that
it has it. Knows nothing of lostack.
"""

import os
import sys
import time

import redis

broker = redis.Redis.from_url(f"redis://{os.environ['BROKER']}/0", decode_responses=True)
for line in sys.stdin:
    while True:
        try:
            broker.xadd("orders", {"order": line.strip()})
            break
        except redis.RedisError:
            time.sleep(0.1)
