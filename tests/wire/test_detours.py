"""A cell may reach the broker by another way than its neighbours, and what passes
there is counted.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from harness.model import events as kinds
from harness.model.waiting import wait_until
from harness.protocols.kafka.steps import Api
from harness.wire.messages import Traffic, WireError
from tests.wire.broker import WITHIN_S, ScriptedBroker, corr_of, request, response

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.wire.conftest import Bench

HEARTBEAT = Api.HEARTBEAT


def by_the_other_way(frame: bytes) -> bytes:
    """Answer so that it shows which broker did."""
    return response(corr_of(frame), b"the other")


def test_only_the_cell_takes_its_detour(bench: Bench) -> None:
    """New connections of the cell go the other way; those of others, and later ones, the ordinary
    one.
    """
    with ScriptedBroker(by_the_other_way) as other:
        bench.control.detour(bench.cell, bench.route, other.port)
        assert bench.client().ask(request(HEARTBEAT, 1, bench.name())) == response(1, b"the other")
        assert bench.client().ask(request(HEARTBEAT, 2, "somebody else")) == response(2, b"answer")
        bench.control.detour(bench.cell, bench.route, None)
        assert bench.client().ask(request(HEARTBEAT, 3, bench.name())) == response(3, b"answer")
        assert (other.corrs(), sorted(bench.broker.corrs())) == ([1], [2, 3])


def test_a_header_that_comes_in_pieces_still_shows_whose_it_is(bench: Bench) -> None:
    """The first request may arrive a few bytes at a time."""
    with ScriptedBroker(by_the_other_way) as other:
        bench.control.detour(bench.cell, bench.route, other.port)
        client = bench.client()
        frame = request(HEARTBEAT, 1, bench.name())
        for at in range(0, len(frame), 7):
            client.send(frame[at : at + 7])
        assert client.read() == response(1, b"the other")


def test_who_says_nothing_or_no_protocol_is_not_misled(make_bench: Callable[..., Bench]) -> None:
    """A client that leaves without a word leaves nothing behind; bytes that are no frames take the
    ordinary way.
    """
    bench = make_bench(ScriptedBroker(raw=True))
    with ScriptedBroker(by_the_other_way, raw=True) as other:
        bench.control.detour(bench.cell, bench.route, other.port)
        bench.client().close()
        bench.client().send(b"\xff" * 64)
        bench.broker.new.get(timeout=WITHIN_S)  # one of the two, of which only the second need come
        assert not other.peers


def test_a_detour_that_leads_nowhere_is_a_refused_connection(bench: Bench) -> None:
    """Where nobody listens on the other way the client is reset, and the cell's history says so."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    bench.control.detour(bench.cell, bench.route, port)
    client = bench.client()
    client.send(request(HEARTBEAT, 1, bench.name()))
    assert client.ended()
    bench.wait_event(kinds.Conn, phase="refused")
    assert not bench.broker.frames


def test_a_detour_needs_a_route_and_a_cell(bench: Bench) -> None:
    with pytest.raises(WireError, match="no route"):
        bench.control.detour(bench.cell, "nowhere", 1)
    with pytest.raises(WireError, match="no open cell"):
        bench.control.detour("nobody", bench.route, 1)


def test_what_passes_is_counted_in_bytes_and_pieces(bench: Bench) -> None:
    """Live and ended connections count; another role's do not."""
    ask, answer = request(HEARTBEAT, 1, bench.name()), response(1, b"answer")
    client = bench.client()
    client.ask(ask)
    seen = bench.control.traffic(bench.cell, "producer")
    assert replace(seen, longest_s=0, rate=0) == Traffic(
        sent=len(ask), received=len(answer), reads=1, opened=1, answers=1
    )
    client.close()
    assert bench.wait_event(kinds.Conn, phase="close").ended_by == "client"
    bench.client().ask(ask)
    seen = bench.control.traffic(bench.cell, "producer")
    assert (seen.sent, seen.received, seen.opened, seen.left, seen.lost) == (
        2 * len(ask),
        2 * len(answer),
        2,
        1,
        0,
    )
    assert bench.control.traffic(bench.cell, "consumer") == Traffic()


def test_a_restarted_count_knows_nothing_of_before(make_bench: Callable[..., Bench]) -> None:
    """Counted are bytes from the restart on, and the answers to requests from the restart on; how
    long they wait too.
    """
    bench = make_bench(
        ScriptedBroker(lambda frame: response(corr_of(frame)) if corr_of(frame) < 3 else None)
    )
    client, role = bench.client(), "producer"
    client.ask(request(HEARTBEAT, 1, bench.name()))
    bench.control.traffic(bench.cell, role, restart=True)
    assert bench.control.traffic(bench.cell, role) == Traffic()
    client.ask(request(HEARTBEAT, 2, bench.name()))
    seen = bench.control.traffic(bench.cell, role)
    assert (seen.answers, seen.opened, seen.received) == (1, 0, 8)
    assert 0 < seen.longest_s < 1 < seen.rate
    client.send(request(HEARTBEAT, 3, bench.name()))
    wait_until(
        lambda: bench.control.traffic(bench.cell, role).longest_s > 0.3,
        within_s=WITHIN_S,
        because="a wait in vain",
    )
    bench.control.traffic(bench.cell, role, restart=True)
    assert bench.control.traffic(bench.cell, role) == Traffic()


def test_who_ended_a_connection_is_known(bench: Bench) -> None:
    """A connection that the broker's side closes, or resets, is lost; one that the client closes is
    left.
    """
    client = bench.client()
    client.ask(request(HEARTBEAT, 1, bench.name()))
    bench.broker.peers[0].sock.setsockopt(
        socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
    )
    bench.broker.peers[0].sock.shutdown(socket.SHUT_RDWR)
    assert client.ended()

    def lost() -> bool:
        return bench.control.traffic(bench.cell, "producer").lost == 1

    client.close()
    wait_until(lost, within_s=WITHIN_S, because="the lost connection to be counted")
    assert bench.wait_event(kinds.Conn, phase="close").ended_by == "broker"
