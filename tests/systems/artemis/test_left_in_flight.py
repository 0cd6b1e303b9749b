"""Proves on a real Artemis that a message can stay in flight for a consumer whose STOMP connection
has ended: see docs/published-bugs.md, *Seen, and not in the corpus*. When a version mends it, this
fails, and that page says so.
"""

from __future__ import annotations

import itertools
import threading
import time
from typing import TYPE_CHECKING

import pytest

from harness.model.scenario import Deployment, Role
from harness.model.waiting import WaitTimeoutError, wait_until
from harness.run.queue_broker import Count
from harness.systems.artemis.system import launcher
from tests.systems.queues import WITHIN_S, Client

if TYPE_CHECKING:
    from pathlib import Path

    from harness.run.queue_server import QueueServer

pytestmark = [pytest.mark.artemis, pytest.mark.rest, pytest.mark.timeout(240)]
SEEN_WITHIN_S = 90.0
"""About one connection in a hundred is hit, and several hundred end in this time."""
MESSAGES = 8
AT_ONCE = 6


def left_by_dead(broker: QueueServer, queue: str) -> bool:
    """End a connection with messages in hand. Return whether one of them stays in flight."""
    sender, taker = Client(broker), Client(broker, Role.CONSUMER)
    for number in range(MESSAGES):
        sender.stomp.send(queue, str(number), headers={"persistent": "true"})
    sender.send(queue, "last")
    taker.take(queue, MESSAGES + 1)
    for each in (sender, taker):
        each.stomp.transport.disconnect_socket()

    def at_rest() -> bool:
        return broker.count(queue).in_flight <= 1

    wait_until(at_rest, within_s=WITHIN_S, because="the broker to notice the end of a connection")
    try:  # it may be on its way back still
        wait_until(
            lambda: not broker.count(queue).in_flight, within_s=2, because="the last one to return"
        )
    except WaitTimeoutError:
        return broker.count(queue) == Count(ready=MESSAGES, in_flight=1)
    return False


def test_a_message_stays_in_flight_for_a_consumer_that_is_gone(tmp_path: Path) -> None:
    """It is given to nobody while the broker runs, and is there after a restart."""
    system = launcher()
    system.prepare(lambda _: None)
    broker = system.deploy(Deployment.OWN, tmp_path / "deployments" / "one").broker
    hit: list[str] = []
    rounds = itertools.count(1)
    until = time.monotonic() + SEEN_WITHIN_S

    def end_connections() -> None:
        while not hit and time.monotonic() < until:
            queue = broker.queue(f"left-{next(rounds)}")
            if left_by_dead(broker, queue):
                hit.append(queue)

    threads = [threading.Thread(target=end_connections) for _ in range(AT_ONCE)]
    try:
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert hit, f"{next(rounds) - 1} connections ended, and no message stayed: is it mended?"
        heir = Client(broker, Role.CONSUMER)
        assert len(heir.take(hit[0], MESSAGES)) == MESSAGES
        assert broker.count(hit[0]).in_flight == MESSAGES + 1
        heir.stomp.disconnect()
        broker.kill()
        broker.restart()
        assert len(Client(broker, Role.CONSUMER).take(hit[0], MESSAGES + 1)) == MESSAGES + 1
    finally:
        broker.close()
