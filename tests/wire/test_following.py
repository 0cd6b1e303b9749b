"""A route whose answers name brokers: each gets a port of the wire, and nothing else changes."""

from __future__ import annotations

import asyncio
import itertools
import socket
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from harness.model import events as kinds
from harness.model.history import HistoryWriter, read_history
from harness.protocols.kafka.addresses import brokers_in, with_addresses
from harness.protocols.kafka.steps import Api
from harness.wire.connections import Connections
from harness.wire.following import Following
from harness.wire.messages import Route, Tls, WireError
from harness.wire.routes import Routes
from harness.wire.rules import Action, Rule
from tests.protocols.test_addresses import frame
from tests.wire.broker import Client, ScriptedBroker, corr_of, read_frame, request, response
from tests.wire.conftest import hit_in

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.wire.conftest import WireProcess

NUMBERS = itertools.count(1)
CELL = "cell/follows"


class Cluster:
    """Two brokers that name each other, and a route to the first that a cell has claimed."""

    def __init__(self, wire: WireProcess, folder: Path, **located: str) -> None:
        self.wire = wire
        self.folder = folder
        self.version = 12
        self.brokers = {number: ScriptedBroker(self.answer) for number in (1, 2)}
        self.named = {number: ("127.0.0.1", broker.port) for number, broker in self.brokers.items()}
        self.route = f"follows-{next(NUMBERS)}"
        route = Route(
            self.route,
            "bootstrap",
            "producer",
            0,
            self.brokers[1].port,
            protocol="kafka",
            follows=True,
            located=located,
        )
        self.port = wire.control.add_route(route).listen_port
        wire.control.open_cell(CELL, "follows", folder / "wire.jsonl", routes=[self.route])

    def answer(self, asked: bytes) -> bytes:
        """Name both brokers, or answer something else."""
        api = int.from_bytes(asked[4:6], "big")
        if api != Api.METADATA.number:
            return response(corr_of(asked), b"answer")
        named = with_addresses(Api.METADATA, 12, frame(Api.METADATA, 12), self.named)
        return named[:4] + asked[8:12] + named[8:]

    def metadata(self, client: Client, version: int = 12) -> bytes:
        """Ask for the brokers."""
        return client.ask(request(Api.METADATA, 5, "any", version=version))

    def ports(self) -> dict[int, int]:
        """Return the ports that a client is told."""
        with Client(self.port) as client:
            found = brokers_in(Api.METADATA, 12, self.metadata(client))
        assert {host for host, _ in found.values()} == {"127.0.0.1"}
        return {number: port for number, (_, port) in found.items()}

    def close(self) -> None:
        """End it."""
        self.wire.control.remove_route(self.route)
        self.wire.control.close_cell(CELL)
        for broker in self.brokers.values():
            broker.close()


@pytest.fixture
def cluster(wire: WireProcess, tmp_path: Path) -> Iterator[Cluster]:
    """Make one."""
    made = Cluster(wire, tmp_path)
    yield made
    made.close()


def test_each_broker_gets_a_port_that_leads_to_it(cluster: Cluster) -> None:
    """It is the same for every client, and what goes over it is the cell's, as what goes over the
    route itself.
    """
    ports = cluster.ports()
    assert not set(ports.values()) & {port for _, port in cluster.named.values()}
    assert cluster.ports() == ports
    with Client(ports[2]) as client:
        client.ask(request(Api.HEARTBEAT, 9, "any"))
    assert cluster.brokers[2].corrs() == [9]
    with Client(ports[2]) as client:
        assert brokers_in(Api.METADATA, 12, cluster.metadata(client)) == {
            number: ("127.0.0.1", port) for number, port in ports.items()
        }
    seen = read_history(cluster.folder).of(kinds.Frame)
    assert {(event.node, event.role) for event in seen} == {
        ("bootstrap", "producer"),
        ("broker-2", "producer"),
    }


def test_the_history_says_that_the_bytes_were_changed(cluster: Cluster) -> None:
    with Client(cluster.port) as client:
        cluster.metadata(client)
    [asked, answered] = read_history(cluster.folder).of(kinds.Frame)
    assert (asked.renamed, answered.renamed) == (None, 2)
    assert answered.size == len(cluster.answer(request(Api.METADATA, 5, "any"))) - 4


def test_a_broker_that_has_moved_keeps_its_port(cluster: Cluster) -> None:
    """Clients that were told it need not ask again."""
    ports = cluster.ports()
    with ScriptedBroker() as elsewhere:
        cluster.named[2] = ("127.0.0.1", elsewhere.port)
        assert cluster.ports() == ports
        with Client(ports[2]) as client:
            client.ask(request(Api.HEARTBEAT, 9, "any"))
        assert elsewhere.corrs() == [9]


def test_a_rule_strikes_at_a_port_that_was_opened_on_the_way(cluster: Cluster) -> None:
    rule = Rule("r", Action.CUT, Api.HEARTBEAT, node="broker-2")
    cluster.wire.control.arm(CELL, rule)
    ports = cluster.ports()
    with Client(ports[1]) as client:
        client.ask(request(Api.HEARTBEAT, 8, "any"))
    with Client(ports[2]) as client:
        client.send(request(Api.HEARTBEAT, 9, "any"))
        assert client.ended()
    assert hit_in(cluster.folder).corr == 9


def test_an_answer_that_cannot_be_read_passes_as_it_is_and_voids(cluster: Cluster) -> None:
    """Of a version that nobody here knows, and one that is laid out otherwise."""
    with Client(cluster.port) as client:
        assert cluster.metadata(client, 14) == cluster.answer(request(Api.METADATA, 5, "any"))
    with Client(cluster.port) as client:
        cluster.metadata(client, 3)
    told = [str(event.because) for event in read_history(cluster.folder).of(kinds.Undecodable)]
    assert "Metadata version 14" in told[0]
    assert "only versions 0 to 13 are known" in told[0]
    assert "is not laid out as such an answer is" in told[1]


def test_an_address_that_leads_nowhere_from_here_is_given_another(
    wire: WireProcess, tmp_path: Path
) -> None:
    with ScriptedBroker() as published:
        cluster = Cluster(wire, tmp_path, **{"kafka.example:9092": f"127.0.0.1:{published.port}"})
        cluster.named[2] = ("kafka.example", 9092)
        with Client(cluster.ports()[2]) as client:
            client.ask(request(Api.HEARTBEAT, 9, "any"))
        assert published.corrs() == [9]
        cluster.close()


STRANGE = ("a" * 255, "a..b", "b\u00fcro..")


@pytest.mark.parametrize("host", STRANGE)
def test_a_broker_at_no_address_refuses(cluster: Cluster, host: str) -> None:
    cluster.named[2] = (host, 9092)
    with Client(cluster.ports()[2]) as client:
        assert client.ended()
    told = [event.because for event in read_history(cluster.folder).of(kinds.Conn)]
    assert [because for because in told if because and "is no name of a host" in because]


def test_a_broker_at_an_ipv6_address_is_reached(cluster: Cluster) -> None:
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as server:
        cluster.named[2] = ("::1", server.getsockname()[1])
        with Client(cluster.ports()[2]) as client:
            client.send(request(Api.HEARTBEAT, 9, "any"))
            accepted, _ = server.accept()
            with accepted:
                assert corr_of(read_frame(accepted)) == 9


def test_with_tls_each_broker_has_a_name_of_its_own(tmp_path: Path) -> None:
    """By which it is verified: that which the answer gives it, also when it has moved."""

    async def names() -> list[tuple[str, str, int]]:
        async def serve(route: Route, sock: socket.socket) -> None:
            """Do nothing."""

        own = HistoryWriter(tmp_path / "own.jsonl", cell="", by="wire")
        routes = Routes(Connections(), own, serve)
        route = Route("a", "bootstrap", "r", 0, 9, protocol="kafka", follows=True, tls=Tls("x", ""))
        route = replace(route, located={"b.example:9": "127.0.0.1:7"})
        found = []
        for host in ("a.example", "b.example"):
            own_at = await Following(routes).follow(route, {2: (host, 9)})
            there = routes.listener("a#2").route
            assert there.tls is not None
            assert own_at == {2: ("127.0.0.1", there.listen_port)}
            found.append((there.tls.name, there.upstream_host, there.listen_port))
        await routes.remove("a#2")
        own.close()
        return found

    [(*first, port), (*second, again)] = asyncio.run(names())
    assert (first, second) == (["a.example", "a.example"], ["b.example", "127.0.0.1"])
    assert port == again


def test_the_ports_close_with_the_route(cluster: Cluster) -> None:
    ports = cluster.ports()
    control = cluster.wire.control
    control.remove_route(cluster.route)
    assert not [each for each in control.routes() if each.name.startswith(cluster.route)]
    for port in ports.values():
        with pytest.raises(ConnectionRefusedError):
            Client(port)
    control.add_route(
        Route(cluster.route, "bootstrap", "producer", 0, cluster.brokers[1].port, protocol="kafka")
    )


def test_other_protocols_name_no_servers(wire: WireProcess) -> None:
    route = Route("none", "db", "consumer", 0, 1, protocol="postgres", follows=True)
    with pytest.raises(WireError, match="no answer of postgres names a server"):
        wire.control.add_route(route)
