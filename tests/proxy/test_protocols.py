"""The proxy in front of what is no Kafka: a real PostgreSQL, and scripted servers of queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest
import stomp

from harness.model import events as kinds
from harness.model.failures import UsageError
from harness.model.history import read_history
from harness.model.scenario import Deployment, Role
from harness.model.waiting import wait_until
from harness.proxy.fault import NeverStruckError
from harness.proxy.proxy import Proxy
from harness.systems.activemq.system import launcher
from harness.wire.rules import Direction
from tests.contract.protocols import PROTOCOLS, Speaker
from tests.postgres.conftest import server
from tests.proxy.test_proxy import connect, upstream
from tests.wire.broker import WITHIN_S, Client, ScriptedBroker, read_exactly

if TYPE_CHECKING:
    from pathlib import Path

    from harness.services.postgres.server import PostgresServer
    from tests.wire.broker import Peer

__all__ = ["server"]


def through(proxy: Proxy, server: PostgresServer) -> str:
    """Return the address of a database behind the proxy, as a program has it that asks for
    nothing else: the server says that it has no TLS.
    """
    port = int(proxy.bootstrap.rpartition(":")[2])
    return server.address("postgres", port=port).partition("?")[0]


@pytest.mark.postgres
def test_the_answer_to_a_commit_is_lost(server: PostgresServer, tmp_path: Path) -> None:
    """The row is committed, and the program has an exception. If the request is lost, there is no
    row; also of a statement that commits by itself.
    """
    place = f"127.0.0.1:{server.port}"
    with psycopg.connect(server.address("postgres"), autocommit=True) as database:
        database.execute("CREATE TABLE orders (id int)")
        with Proxy(place, protocol="postgres", history=tmp_path / "kept") as proxy:
            for number, answer, autocommit in (
                (1, True, False),
                (2, False, False),
                (3, True, True),
                (4, False, True),
            ):
                with (
                    proxy.lose("COMMIT", answer=answer) as fault,
                    pytest.raises(psycopg.OperationalError),
                    psycopg.connect(through(proxy, server), autocommit=autocommit) as client,
                ):
                    client.execute("INSERT INTO orders VALUES (%s)", (number,))
                assert fault.fired == 1
            with psycopg.connect(through(proxy, server)) as client:
                client.execute("INSERT INTO orders VALUES (5)")
            rows = database.execute("SELECT id FROM orders ORDER BY id").fetchall()
        assert [number for (number,) in rows] == [1, 3, 5]
    lines = [*read_history(tmp_path / "kept" / "history").of(kinds.Frame)]
    assert {line.api for line in lines} == {"DatabaseCommit"}


@pytest.mark.postgres
def test_a_transaction_that_commits_nothing_meets_no_fault(server: PostgresServer) -> None:
    with Proxy(f"127.0.0.1:{server.port}", protocol="postgres") as proxy:
        fault = proxy.lose("COMMIT")
        with psycopg.connect(through(proxy, server)) as client:
            client.execute("SELECT 1")
            client.rollback()
        with pytest.raises(NeverStruckError, match="lose DatabaseCommit request: of 0 frames"):
            fault.check()
        proxy.faults.clear()


def test_what_does_not_apply_is_refused_in_one_line() -> None:
    place = "127.0.0.1:1"
    with Proxy(place, protocol="postgres") as proxy:
        for asked, said in (
            ({"do": "lose", "record": "x"}, "cannot be selected by record"),
            ({"do": "lose", "topic": "x"}, "cannot be selected by topic"),
            ({"do": "late"}, "belongs to its connection, so it cannot be late: write `hold`"),
            ({"do": "refuse", "error": "x"}, "a DatabaseCommit is never refused by x"),
            ({"do": "lose", "api": "Produce"}, "there is no API 'Produce': there are COMMIT, "),
        ):
            with pytest.raises(UsageError, match=said) as error:
                proxy.fault({"api": "COMMIT", **asked})
            assert "\n" not in str(error.value)
        assert proxy.faults == {}
        with pytest.raises(UsageError, match="the wire reads no records"):
            proxy.records()
    with pytest.raises(UsageError, match="names another server: leave located out"):
        Proxy(place, protocol="stomp", located={"a:1": "b:1"})
    with pytest.raises(UsageError, match="there is no protocol 'mqtt': there are kafka, postgres"):
        Proxy(place, protocol="mqtt")


def speak(speaker: Speaker, client: Client, peer: Peer) -> None:
    """Say everything up to a question about a record."""
    for way, data in (*speaker.opening("k"), *speaker.question("k")):
        if way is Direction.REQUEST:
            client.send(data)
            assert read_exactly(peer.sock, len(data)) == data
        else:
            peer.sock.sendall(data)
            assert read_exactly(client.sock, len(data)) == data


@pytest.mark.parametrize("name", ["stomp", "amqp"])
def test_the_answer_to_a_message_is_lost(name: str) -> None:
    speaker = PROTOCOLS[name]
    with ScriptedBroker(raw=True) as broker, Proxy(upstream(broker), protocol=name) as proxy:
        with proxy.lose(speaker.answered_by, answer=True, record="") as fault:
            with connect(proxy) as client:
                peer = broker.new.get(timeout=WITHIN_S)
                speak(speaker, client, peer)
                peer.sock.sendall(speaker.answer)
                assert client.ended()
            assert fault.fired == 1
        [way] = proxy.records()
        assert (way.sent, way.acknowledged) == (1, 0)
        assert "the answer was lost" in way.steps[-1]


@pytest.mark.activemq
@pytest.mark.rest
def test_the_receipt_of_a_real_broker_is_lost(tmp_path: Path) -> None:
    """ActiveMQ has the message, and the program no receipt: sent again, it is there twice."""
    system = launcher()
    system.prepare(lambda _: None)
    deployed = system.deploy(Deployment.OWN, tmp_path / "one")
    try:
        broker = deployed.broker
        with Proxy(broker.address(Role.PRODUCER), protocol="stomp") as proxy:
            host, _, port = proxy.bootstrap.rpartition(":")
            with proxy.lose("RECEIPT", answer=True) as fault:
                sender = stomp.Connection12([(host, int(port))], reconnect_attempts_max=1)
                sender.connect(wait=True)
                sender.send("orders", "17", receipt="17", headers={"persistent": "true"})
                fault.wait(WITHIN_S)
            again = stomp.Connection12([(host, int(port))])
            again.connect(wait=True)
            again.send("orders", "17", headers={"persistent": "true"})
            again.disconnect()
            wait_until(
                lambda: sum(way.sent for way in proxy.records()) == 2,
                within_s=WITHIN_S,
                because="the message to be sent twice",
            )
        assert [message.value for message in broker.messages("orders")] == [b"17", b"17"]
    finally:
        deployed.close()
