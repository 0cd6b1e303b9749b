"""On a real broker: what its ledgers and counts say, where it leads clients, what it takes twice,
its end, and lies found out.
"""

from __future__ import annotations

import signal
import socket
from typing import TYPE_CHECKING, Any

import pytest

from harness.model.places import Removal, Waiting
from harness.model.scenario import Deployment, Role
from harness.model.waiting import wait_until
from harness.protocols.pulsar import frames
from harness.protocols.pulsar.protobuf import made
from harness.protocols.pulsar.steps import NUMBERS, OF_NUMBER, Command
from harness.run.queue_broker import Count
from harness.scenarios.pulsar import SCENARIOS
from harness.stages.pushing import Cursor
from harness.systems.pulsar.admin import Admin
from harness.systems.pulsar.broker import BESIDES, ROLES, PulsarBroker
from harness.systems.pulsar.install import MAIN
from harness.systems.pulsar.ledgers import position
from harness.systems.pulsar.system import PulsarSystem
from tests.systems.queues import (
    WITHIN_S,
    assert_ends_with_the_harness,
    assert_found_out,
    lied,
    told,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.protocols.pulsar.protobuf import Message

pytestmark = [pytest.mark.pulsar, pytest.mark.rest(together=True), pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def system() -> PulsarSystem:
    """Return Pulsar, fetched."""
    found = PulsarSystem()
    found.prepare(lambda _: None)
    return found


class Client:
    """A client of a few commands, past our stages."""

    def __init__(
        self, broker: PulsarBroker, role: Role = Role.PRODUCER, *, direct: bool = False
    ) -> None:
        host, _, port = (broker.direct if direct else broker.address(role)).rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=WITHIN_S)
        self._buffer = b""
        self.say(Command.CONNECT, {1: "Pulsar-test-v1", 4: 20})
        self.hear(Command.CONNECTED)

    def say(self, command: Command, fields: dict[int, Any], message: bytes = b"") -> None:
        """Send a command."""
        self._socket.sendall(frames.command(NUMBERS[command], fields, message))

    def hear(self, wanted: Command) -> Message:
        """Wait for a command, and return what it says."""
        while True:
            head = frames.head(self._buffer)
            if not isinstance(head, int) and len(self._buffer) >= head.size:
                self._buffer = self._buffer[head.size :]
                if OF_NUMBER[head.type] is wanted:
                    return head.said
                continue
            data = self._socket.recv(1 << 16)
            assert data, f"the broker hung up before it said {wanted}"
            self._buffer += data

    def send(self, topic: str, *texts: str) -> None:
        """Send messages, and wait until they are stored."""
        self.say(Command.PRODUCER, {1: topic, 2: 0, 3: 1, 4: "sender"})
        self.hear(Command.PRODUCER_SUCCESS)
        for number, text in enumerate(texts):
            own: dict[int, Any] = {
                1: "sender",
                2: number,
                3: 1,
                4: made({1: "lostack-attempt", 2: f"a-{text}"}),
            }
            self.say(Command.SEND, {1: 0, 2: number}, frames.message(own, text.encode()))
            self.hear(Command.SEND_RECEIPT)

    def look_up(self, topic: str) -> str:
        """Return where the broker sends who asks for a topic."""
        self.say(Command.LOOKUP, {1: topic, 2: 9})
        return self.hear(Command.LOOKUP_RESPONSE).text(1)

    def take(self, topic: str, count: int) -> list[bytes]:
        """Subscribe, from the earliest message on, and return the ids of what is given."""
        self.say(Command.SUBSCRIBE, {1: topic, 2: "workers", 3: 1, 4: 0, 5: 2, 13: 1})
        self.hear(Command.SUCCESS)
        self.say(Command.FLOW, {1: 0, 2: 100})
        return [self.hear(Command.MESSAGE).raw(2) for _ in range(count)]

    def acknowledge(self, message_id: bytes) -> None:
        """Acknowledge, and wait for the answer."""
        self.say(Command.ACK, {1: 0, 2: 0, 3: message_id, 8: 3})
        self.hear(Command.ACK_RESPONSE)


@pytest.fixture(scope="module")
def broker(
    system: PulsarSystem, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PulsarBroker]:
    """Return a running broker."""
    deployed = system.deploy(Deployment.OWN, tmp_path_factory.mktemp("run") / "deployments" / "one")
    yield deployed.broker
    deployed.close()


def test_the_ledgers_say_what_was_kept_and_what_was_taken_off(broker: PulsarBroker) -> None:
    """By places, and in agreement with the broker's own count, also when the broker was killed."""
    topic = broker.queue("kept.in")
    assert (broker.messages(topic), broker.count(topic)) == ((), Count())
    taker = Client(broker, Role.CONSUMER)
    Client(broker).send(topic, "one", "two", "three")
    taker.acknowledge(taker.take(topic, 3)[1])
    want = [
        (b"one", Waiting.READY, None),
        (b"two", None, Removal.ACK),
        (b"three", Waiting.READY, None),
    ]
    wait_until(
        lambda: told(broker.messages(topic)) == want,
        within_s=WITHIN_S,
        because="the cursor to say so",
    )
    found = broker.messages(topic)
    assert [message.attempt for message in found] == ["a-one", "a-two", "a-three"]
    assert len({message.place for message in found}) == len(found)
    assert broker.count(topic) == Count(0, 2)
    assert broker.kill().signal == signal.SIGKILL
    broker.restart()
    assert broker.messages(topic) == found
    assert broker.count(topic) == Count(2)


@pytest.mark.parametrize("role", ROLES)
def test_lookup_leads_a_client_back_to_the_wire_it_came_by(
    broker: PulsarBroker, role: Role
) -> None:
    """By the address that it has come to: it names no listener. So no way leads past the wire, once
    a topic has a broker.
    """
    topic = broker.queue("looked.up")
    assert Client(broker, role).look_up(topic) == f"pulsar://{broker.address(role)}"
    [own] = broker.own_routes()
    assert (
        Client(broker, direct=True).look_up(topic)
        == f"pulsar://{own.listen_host}:{own.listen_port}"
    )


def test_deduplication_outlives_the_broker_beyond_its_snapshot(broker: PulsarBroker) -> None:
    """It begins at how far a producer was some messages ago, and learns the rest from its ledger:
    nothing is stored twice.
    """
    broker.become(BESIDES[Cursor.SNAPSHOTS])
    broker.place("known", f"public/{Cursor.SNAPSHOTS}")
    topic, texts = broker.queue("known.in"), [str(number) for number in range(14)]
    Client(broker).send(topic, *texts[:12])

    def snapshot() -> int:
        with Admin(broker._http) as admin:
            said = admin.of_topic(topic, "internalStats")
        return position(said["cursors"]["pulsar.dedup"]["markDeletePosition"])[1] if said else -1

    assert wait_until(lambda: 0 < snapshot() < 11, within_s=WITHIN_S, because="a snapshot") is True
    broker.kill()
    broker.restart()
    Client(broker).send(topic, *texts)
    assert [message.value.decode() for message in broker.messages(topic)] == texts


def test_sigkill_of_the_harness_leaves_no_broker(tmp_path: Path) -> None:
    """The guardian ends the JVM, the wire and the programs."""
    assert_ends_with_the_harness("pulsar", MAIN, tmp_path)


def test_lies_are_found_out(system: PulsarSystem, tmp_path: Path) -> None:
    """A disarmed fault, a wrong victim, an observer that forgets or miscounts, a planted loss and a
    planted duplicate.
    """
    assert_found_out(lied(system, SCENARIOS, tmp_path, PulsarBroker, "pulsar-client"))
