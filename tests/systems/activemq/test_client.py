"""The adapter of stomp.py: what it makes of receipts, refusals and lost connections, against a
server that is played.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from harness.protocols.stomp.frames import head, made
from harness.scenarios.jms import LOCAL
from harness.stages.clients import stomp_py
from harness.stages.clients.interface import ClientError
from harness.stages.pushing import Acknowledge, AcknowledgeSettings
from harness.stages.settings import (
    QUEUE_AT_LEAST_ONCE,
    QUEUE_AT_MOST_ONCE,
    QUEUE_AT_MOST_ONCE_ANSWERED,
    Settings,
)
from harness.stages.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import TypeAlias

    Frame: TypeAlias = tuple[str, Mapping[str, str], bytes]
    Play: TypeAlias = Callable[["Server", Frame], list[bytes] | None]

QUEUE = "/queue/k.in"
EACH = "client-individual"


class Server:
    """Plays a broker: what it says to a frame says ``play``; None: it hangs up."""

    def __init__(self, play: Play) -> None:
        self.play = play
        self.heard: list[Frame] = []
        self.connections = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self.connections += 1
                threading.Thread(target=self._talk, args=(client,), daemon=True).start()

    def _talk(self, client: socket.socket) -> None:
        buffer = b""
        with client, suppress(OSError):
            while chunk := client.recv(65536):
                buffer += chunk
                while buffer and (found := head(buffer, escaped=True)) is not None:
                    end = found.size + (
                        found.body
                        if found.body >= 0
                        else buffer.index(b"\0", found.size) - found.size
                    )
                    frame = (found.command, found.headers, buffer[found.size : end])
                    buffer = buffer[end + 1 :].lstrip(b"\n")
                    self.heard.append(frame)
                    said = self.play(self, frame)
                    if said is None:
                        client.shutdown(socket.SHUT_RDWR)
                        return
                    client.sendall(b"".join(said))

    def commands(self) -> list[str]:
        """Return what was said, in order."""
        return [command for command, _, _ in self.heard]

    def close(self) -> None:
        """Take no more connections: who is waiting for one is woken."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


def polite(server: Server, frame: Frame) -> list[bytes]:
    """Greet, give every receipt, and say nothing else."""
    del server
    command, headers, _ = frame
    if command == "STOMP":
        return [made("CONNECTED", {"version": "1.2"})]
    return [made("RECEIPT", {"receipt-id": headers["receipt"]})] if "receipt" in headers else []


def message(name: str) -> bytes:
    """Return a message, as it is given."""
    headers = {
        "subscription": "1",
        "destination": QUEUE,
        "message-id": name,
        "ack": f"ack-{name}",
        "redelivered": "true",
    }
    return made("MESSAGE", headers, name.encode())


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Play], Server]]:
    """Return what makes servers; clients have less patience than in a cell."""
    monkeypatch.setattr(stomp_py, "CONNECT_S", 1.0)
    made_: list[Server] = []

    def make(play: Play) -> Server:
        made_.append(Server(play))
        return made_[-1]

    yield make
    for server in made_:
        server.close()


def stage(
    server: Server, settings: Settings = QUEUE_AT_LEAST_ONCE, *, receipt_ms: int = 2000
) -> Stage:
    """Return what a program is told."""
    producer = replace(settings.producer, request_timeout_ms=receipt_ms)
    return Stage(
        cell="cell",
        key="k",
        name="producer",
        incarnation=1,
        bootstrap=f"127.0.0.1:{server.port}",
        topic_in=QUEUE,
        topic_out="",
        topic_cursor="",
        group="",
        outbox="",
        sink="",
        history="",
        settings=replace(settings, producer=producer),
        client="stomp.py",
    )


def test_a_send_is_acknowledged_by_its_receipt(servers: Callable[[Play], Server]) -> None:
    """The message is to be kept, says its attempt, and is known by the program's own name."""
    server = servers(polite)
    producer = stomp_py.make_producer(stage(server), transactional_id="")
    producer.send(QUEUE, b"one", b"k", [("lostack-attempt", b"producer-1.0.1")]).wait(1)
    producer.close(1)
    assert server.commands() == ["STOMP", "SEND", "DISCONNECT"]
    assert server.heard[0][1]["client-id"].startswith("k.producer.1-")
    _, headers, body = server.heard[1]
    assert (headers["destination"], headers["persistent"], body) == (QUEUE, "true", b"one")
    assert headers["lostack-attempt"] == "producer-1.0.1"


def test_who_asks_for_no_receipt_waits_for_none(servers: Callable[[Play], Server]) -> None:
    """Only its goodbye does: then everything has been read."""
    server = servers(polite)
    producer = stomp_py.make_producer(stage(server, QUEUE_AT_MOST_ONCE), transactional_id="")
    producer.send(QUEUE, b"one", None, [])
    producer.close(1)
    assert "receipt" not in server.heard[1][1]
    assert server.commands() == ["STOMP", "SEND", "DISCONNECT"]


def test_a_receipt_that_does_not_come_is_not_known(servers: Callable[[Play], Server]) -> None:
    """It is no acknowledgement, and what comes next goes over another connection: a late one is
    nobody's.
    """
    server = servers(lambda server, frame: [] if len(server.heard) == 2 else polite(server, frame))
    producer = stomp_py.make_producer(stage(server, receipt_ms=100), transactional_id="")
    with pytest.raises(ClientError, match=r"Disconnected: a receipt did not come within 0\.1 s"):
        producer.send(QUEUE, b"one", None, [])
    producer.send(QUEUE, b"one", None, [])
    assert server.commands() == ["STOMP", "SEND", "STOMP", "SEND"]
    first, second = (
        headers["client-id"] for command, headers, _ in server.heard if command == "STOMP"
    )
    assert first != second


def test_a_send_on_a_lost_connection_is_not_known(servers: Callable[[Play], Server]) -> None:
    server = servers(
        lambda server, frame: None if len(server.heard) == 2 else polite(server, frame)
    )
    producer = stomp_py.make_producer(stage(server), transactional_id="")
    with pytest.raises(ClientError, match="Disconnected"):
        producer.send(QUEUE, b"one", None, [])
    producer.send(QUEUE, b"two", None, [])
    assert server.connections == 2


def test_a_refusal_is_told_with_its_words(servers: Callable[[Play], Server]) -> None:
    """An ERROR that names the receipt."""

    def refuse(server: Server, frame: Frame) -> list[bytes]:
        if frame[0] != "SEND":
            return polite(server, frame)
        return [made("ERROR", {"receipt-id": frame[1]["receipt"], "message": "the queue is full"})]

    producer = stomp_py.make_producer(stage(servers(refuse)), transactional_id="")
    with pytest.raises(ClientError, match="Refused: the queue is full"):
        producer.send(QUEUE, b"one", None, [])


def test_where_nobody_is_there_somebody_is_waited_for(servers: Callable[[Play], Server]) -> None:
    server = servers(polite)
    server.close()
    with pytest.raises(ClientError, match=r"a broker at 127\.0\.0\.1"):
        stomp_py.make_producer(stage(server), transactional_id="").send(QUEUE, b"one", None, [])


def giving(*names: str) -> Play:
    """Return a play that gives these messages to each who subscribes."""

    def play(server: Server, frame: Frame) -> list[bytes] | None:
        said = polite(server, frame)
        return [*said, *map(message, names)] if frame[0] == "SUBSCRIBE" else said

    return play


@pytest.mark.parametrize(
    ("settings", "mode"),
    [
        (QUEUE_AT_LEAST_ONCE, "client-individual"),
        (QUEUE_AT_MOST_ONCE_ANSWERED, "client-individual"),
        (QUEUE_AT_MOST_ONCE, "auto"),
        (
            replace(
                QUEUE_AT_LEAST_ONCE,
                consumer=replace(
                    QUEUE_AT_LEAST_ONCE.consumer,
                    acknowledging=AcknowledgeSettings(mode=Acknowledge.CLIENT),
                ),
            ),
            "client",
        ),
    ],
)
def test_messages_come_as_the_settings_say(
    servers: Callable[[Play], Server], settings: Settings, mode: str
) -> None:
    """One at a time; with what the broker calls them, and whether somebody had them before."""
    server = servers(giving("m-1"))
    consumer = stomp_py.make_consumer(stage(server, settings))
    consumer.subscribe(QUEUE)
    given = consumer.receive(2)
    assert given is not None
    assert (given.name, given.value, given.redelivered) == ("m-1", b"m-1", True)
    _, headers, _ = server.heard[1]
    assert (headers["ack"], headers["destination"], headers["activemq.prefetchSize"]) == (
        mode,
        QUEUE,
        "1",
    )
    consumer.acknowledge(given)
    assert [headers["id"] for command, headers, _ in server.heard if command == "ACK"] == (
        [] if mode == "auto" else ["ack-m-1"]
    )
    assert consumer.receive(0.01) is None


def test_a_message_is_acknowledged_in_a_transaction_when_it_comes(
    servers: Callable[[Play], Server],
) -> None:
    """What the program says of it commits that, and is answered; nothing else is."""
    consuming = replace(
        QUEUE_AT_LEAST_ONCE.consumer, acknowledging=AcknowledgeSettings(mode=Acknowledge.TRANSACTED)
    )
    server = servers(giving("m-1"))
    consumer = stomp_py.make_consumer(
        stage(server, replace(QUEUE_AT_LEAST_ONCE, consumer=consuming))
    )
    consumer.subscribe(QUEUE)
    given = consumer.receive(2)
    assert given is not None
    consumer.acknowledge(given)
    begun, acked, committed = (
        headers for command, headers, _ in server.heard if command in {"BEGIN", "ACK", "COMMIT"}
    )
    assert acked["id"] == "ack-m-1"
    assert begun["transaction"] == acked["transaction"] == committed["transaction"]
    assert ["receipt" in headers for headers in (begun, acked, committed)] == [False, False, True]


def transacted(server: Server) -> stomp_py.StompProducer:
    """Return a producer that sends in transactions."""
    return stomp_py.make_producer(stage(server, LOCAL), transactional_id="")


def test_a_transaction_is_committed_by_its_name_and_its_commit_is_answered(
    servers: Callable[[Play], Server],
) -> None:
    server = servers(polite)
    producer = transacted(server)
    for _ in range(2):
        producer.begin()
        producer.send(QUEUE, b"one", b"k", []).wait(1)
        producer.commit()
    assert server.commands() == ["STOMP", *["BEGIN", "SEND", "COMMIT"] * 2]
    names = [headers["transaction"] for _, headers, _ in server.heard[1:]]
    assert names[:3] == [names[0]] * 3
    assert names[3:] == [names[3]] * 3
    assert names[0] != names[3]
    assert ["receipt" in headers for _, headers, _ in server.heard[1:4]] == [False, False, True]


def test_a_commit_that_is_refused_is_no_commit(servers: Callable[[Play], Server]) -> None:
    def play(server: Server, frame: Frame) -> list[bytes] | None:
        if frame[0] != "COMMIT":
            return polite(server, frame)
        return [made("ERROR", {"receipt-id": frame[1]["receipt"], "message": "duplicate"})]

    producer = transacted(servers(play))
    producer.begin()
    producer.send(QUEUE, b"one", b"k", []).wait(1)
    with pytest.raises(ClientError, match="duplicate"):
        producer.commit()
    with pytest.raises(ClientError, match="Disconnected"):
        producer.abort()


def test_a_transaction_is_taken_back_on_its_connection(servers: Callable[[Play], Server]) -> None:
    server = servers(polite)
    producer = transacted(server)
    producer.begin()
    producer.send(QUEUE, b"one", b"k", []).wait(1)
    producer.abort()
    assert server.commands() == ["STOMP", "BEGIN", "SEND", "ABORT"]
    assert server.heard[3][1]["transaction"] == server.heard[1][1]["transaction"]


def test_an_acknowledgement_belongs_to_the_connection_that_gave_the_message(
    servers: Callable[[Play], Server],
) -> None:
    """Lost with it, it is not known; the consumer subscribes again, and is given it again."""

    def play(server: Server, frame: Frame) -> list[bytes] | None:
        lost = frame[0] == "ACK" and server.connections == 1
        return None if lost else giving(f"m-{server.connections}")(server, frame)

    server = servers(play)
    consumer = stomp_py.make_consumer(stage(server))
    consumer.subscribe(QUEUE)
    given = consumer.receive(2)
    assert given is not None
    with pytest.raises(ClientError, match="Disconnected"):
        consumer.acknowledge(given)
    again = consumer.receive(2)
    assert again is not None
    assert again.name == "m-2"
    consumer.acknowledge(again)
    with pytest.raises(ClientError, match="Disconnected"):
        consumer.acknowledge(given)


@pytest.mark.parametrize(
    ("settings", "worked_on"), [(QUEUE_AT_LEAST_ONCE, False), (QUEUE_AT_MOST_ONCE, True)]
)
def test_what_a_lost_connection_had_given(
    servers: Callable[[Play], Server], settings: Settings, worked_on: bool
) -> None:
    """It is worked on where it will not come again, and left where it will."""

    def play(server: Server, frame: Frame) -> list[bytes] | None:
        if frame[0] == "SUBSCRIBE" and server.connections == 1:
            return [*polite(server, frame), message("m-1"), message("m-2")]
        return giving("m-3")(server, frame) if frame[0] != "SEND" else None

    server = servers(play)
    consumer = stomp_py.make_consumer(stage(server, settings))
    consumer.subscribe(QUEUE)
    first = consumer.receive(2)
    assert first is not None
    connection = first.token.connection
    connection._stomp.transport.disconnect_socket()
    names = [given.name for given in (consumer.receive(2) for _ in range(3)) if given is not None]
    assert names[0] == ("m-2" if worked_on else "m-3")
    assert "m-3" in names
