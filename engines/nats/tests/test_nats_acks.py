"""A server answers a *double ack* before it writes it: killed at once, it delivers again what was
acknowledged. A work queue's removal is written. This is why at-most-once does not apply where a
server dies, and what docs/systems/nats.md says of it.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
from typing import TYPE_CHECKING, Any

import nats
import pytest
from lostack_nats.direct import ask
from lostack_nats.install import SERVER
from nats.js.api import AckPolicy, ConsumerConfig, RetentionPolicy, StreamConfig

from harness.model.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.server
MESSAGES = 20


class Server:
    """A server of its own, on a free port."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._file = folder / "server.conf"
        self._file.write_text(
            f'listen: "127.0.0.1:{self.port}"\n'
            f'jetstream {{\n  store_dir: "{folder}/store"\n  sync_interval: always\n}}\n'
        )
        self._program = SERVER.ensure(lambda _: None)

    def start(self) -> subprocess.Popen[bytes]:
        """Start it, and wait until JetStream answers."""
        started = subprocess.Popen(
            [self._program, "-c", self._file], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        wait_until(self._answers, within_s=20, because="the server to answer", poll_s=0.02)
        return started

    def _answers(self) -> bool:
        try:
            return "memory" in ask(self.port, "$JS.API.INFO")
        except OSError:
            return False


async def _pulls(port: int) -> tuple[Any, Any]:
    client = await nats.connect(f"nats://127.0.0.1:{port}", allow_reconnect=False)
    config = ConsumerConfig(ack_policy=AckPolicy.EXPLICIT, ack_wait=1, max_ack_pending=1)
    pulls = await client.jetstream().pull_subscribe("S", durable="w", stream="S", config=config)
    return client, pulls


async def _acknowledge_all(port: int, retention: RetentionPolicy) -> None:
    client = await nats.connect(f"nats://127.0.0.1:{port}", allow_reconnect=False)
    stream = client.jetstream()
    await stream.add_stream(StreamConfig(name="S", subjects=["S"], retention=retention))
    for number in range(MESSAGES):
        await stream.publish("S", str(number).encode())
    await client.close()
    client, pulls = await _pulls(port)
    for _ in range(MESSAGES):
        [message] = await pulls.fetch(1, 10)
        await message.ack_sync()
    await client.close()


async def _first_again(port: int) -> bytes | None:
    """Return the message that the server gives next; ``None``: it has none."""
    client, pulls = await _pulls(port)
    try:
        [message] = await pulls.fetch(1, 3)
    except nats.errors.TimeoutError:
        return None
    else:
        return bytes(message.data)
    finally:
        await client.close()


@pytest.mark.parametrize(
    ("retention", "waits"), [(RetentionPolicy.LIMITS, MESSAGES), (RetentionPolicy.WORK_QUEUE, 0)]
)
def test_what_a_killed_server_has_forgotten(
    tmp_path: Path, retention: RetentionPolicy, waits: int
) -> None:
    """All 20 acknowledgements were answered; the server is killed behind the last one. With limits
    it has written none of them, or not the last ones; a work queue has removed the messages.
    """
    server = Server(tmp_path)
    running = server.start()
    try:
        asyncio.run(_acknowledge_all(server.port, retention))
    finally:
        running.kill()
        running.wait()
    running = server.start()
    try:
        told = ask(server.port, "$JS.API.CONSUMER.INFO.S.w")
        again = asyncio.run(_first_again(server.port))
    finally:
        running.kill()
        running.wait()
    left = told["num_pending"] + told["num_ack_pending"]
    assert left <= waits
    assert (left > 0, again is not None) == (waits > 0, waits > 0)
