"""Routes, cells, and the verbs that need no rule."""

from __future__ import annotations

import socket
import threading
import time
from typing import TYPE_CHECKING

import pytest

from harness.model import events as kinds
from harness.model.waiting import wait_until
from harness.protocols.kafka.steps import Api
from harness.wire.messages import Route, WireError
from harness.wire.rules import Action, How, Rule
from tests.wire.broker import Client, ScriptedBroker, request, response
from tests.wire.conftest import hit_in, hold_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.wire.conftest import Bench

HEARTBEAT = Api.HEARTBEAT


def test_a_closed_route_refuses_and_comes_back_on_its_port(bench: Bench) -> None:
    """While a broker is down its clients are refused and cut, not left waiting; afterwards the same
    port works.
    """
    client = bench.client()
    client.ask(request(HEARTBEAT, 1, bench.name()))
    assert not bench.control.close_route(bench.route).listening
    assert client.ended()
    for _ in range(3):
        with pytest.raises(ConnectionRefusedError):
            Client(bench.port)
        state = bench.control.open_route(bench.route)
        assert (state.listen_port, state.listening) == (bench.port, True)
        assert bench.client().ask(request(HEARTBEAT, 2, bench.name())) == response(2, b"answer")
        bench.control.close_route(bench.route)


def test_a_dead_upstream_is_no_silent_acceptance(bench: Bench) -> None:
    """Where nobody listens behind the wire the client is reset at once, and the history says
    refused.
    """
    bench.broker.close()
    began = time.monotonic()
    with pytest.raises(ConnectionError):
        bench.client().sock.recv(1)
    assert time.monotonic() - began < 1
    assert bench.wait_event(kinds.Conn, phase="refused").role == "producer"


def test_a_dying_broker_ends_its_clients_connections(bench: Bench) -> None:
    client = bench.client()
    client.ask(request(HEARTBEAT, 1, bench.name()))
    bench.broker.close()
    assert client.ended()


def test_cells_are_kept_apart(make_bench: Callable[..., Bench]) -> None:
    """Rules and history lines of a cell are about its own clients, whichever route they use."""
    one, two = make_bench(), make_bench()
    one.arm(Rule("r", Action.CUT, HEARTBEAT))
    two.arm(Rule("r", Action.CUT, HEARTBEAT))
    client = Client(one.port)
    client.send(request(HEARTBEAT, 1, two.name()))
    assert client.ended()
    assert one.control.counts(one.cell, "r").seen == 0
    assert two.control.counts(two.cell, "r").fired == 1
    assert one.events(kinds.Frame, kinds.Conn) == []
    assert [event.cell for event in two.events(kinds.Frame)] == [two.cell]
    foreign = Client(one.port)
    assert foreign.ask(request(HEARTBEAT, 1, "rdkafka")) == response(1, b"answer")
    client.close()
    foreign.close()


def test_a_claimed_route_takes_foreign_clients_in(bench: Bench, tmp_path: Path) -> None:
    """Programs whose client id cannot be set belong to the cell that claims their route."""
    broker = ScriptedBroker()
    state = bench.control.add_route(
        Route("claimed", "b", "consumer", 0, broker.port, protocol="kafka")
    )
    bench.control.open_cell("claiming", "claiming", tmp_path / "c" / "w.jsonl", routes=["claimed"])
    with pytest.raises(WireError, match="belongs to another cell"):
        bench.control.open_cell("rival", "rival", tmp_path / "r.jsonl", routes=["claimed"])
    bench.control.arm("claiming", Rule("r", Action.CUT, HEARTBEAT, occurrence=2))
    client = Client(state.listen_port)
    client.ask(request(HEARTBEAT, 1, None))
    client.send(request(HEARTBEAT, 2, "sarama"))
    assert client.ended()
    assert bench.control.close_cell("claiming").frames == 3
    bench.control.remove_route("claimed")
    broker.close()
    client.close()


def test_a_closed_cell_leaves_its_clients_alone(
    make_bench: Callable[..., Bench], tmp_path: Path
) -> None:
    """Closing discards what is held, disarms, and ends the history; the clients' later frames
    simply pass.
    """
    bench = make_bench()
    bench.control.open_cell("brief", "brief", tmp_path / "brief" / "wire.jsonl")
    bench.control.arm("brief", Rule("r", Action.HOLD, HEARTBEAT, limit=None))
    held, free = bench.client(), bench.client()
    held.send(request(HEARTBEAT, 1, "brief.p.1"))
    hit = hit_in(tmp_path / "brief")
    assert bench.control.close_cell("brief").discarded == (hit.held,)
    assert held.ended()
    assert free.ask(request(HEARTBEAT, 2, "brief.p.1")) == response(2, b"answer")
    with pytest.raises(WireError, match="no open cell"):
        bench.control.counts("brief", "r")


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda b: b.control.open_cell(b.cell, "other", b.path), "open already"),
        (lambda b: b.control.open_cell("c", "a.b", b.path), "cannot be a cell key"),
        (lambda b: b.control.open_cell("c", "x", b.path, {"t": "no id"}), "is no topic id"),
        (lambda b: b.control.open_cell("c", "x", b.path, routes=["nowhere"]), "no route nowhere"),
        (
            lambda b: b.control.open_cell("c", "x", b.path / "below-a-file.jsonl"),
            "the wire does not use",
        ),
        (lambda b: b.control.open_route("nowhere"), "no route nowhere"),
        (
            lambda b: b.control.add_route(Route(b.route, "b", "r", 0, 1, protocol="kafka")),
            "already",
        ),
        (lambda b: b.control.disarm(b.cell, "nothing"), "no rule nothing"),
        (lambda b: b.control.resolve("h0", How.RELEASE), "no held frame"),
        (lambda b: b.control.cut(), "say which"),
    ],
)
def test_what_cannot_be_done_is_one_clear_line(
    bench: Bench, call: Callable[[Bench], object], says: str
) -> None:
    """Every error of the harness comes back as a WireError with one line, and the wire goes on."""
    bench.path.touch()
    with pytest.raises(WireError, match=says) as caught:
        call(bench)
    assert "\n" not in str(caught.value)
    assert bench.client().ask(request(HEARTBEAT, 1, bench.name())) == response(1, b"answer")


def test_a_port_in_use_is_waited_for_a_bounded_time(bench: Bench) -> None:
    """A route whose port is still taken comes up when it is free."""
    taken = socket.create_server(("127.0.0.1", 0))
    port = taken.getsockname()[1]
    threading.Timer(0.2, taken.close).start()
    state = bench.control.add_route(
        Route("late", "b", "r", port, bench.broker.port, protocol="kafka")
    )
    assert state.listen_port == port
    bench.control.remove_route("late")


def test_cut_by_hand(bench: Bench) -> None:
    one, two = bench.client(), bench.client()
    one.ask(request(HEARTBEAT, 1, bench.name(incarnation="1")))
    two.ask(request(HEARTBEAT, 1, bench.name(incarnation="2")))
    assert bench.control.cut(client=bench.name(incarnation="1")) == 1
    assert one.ended()
    assert two.ask(request(HEARTBEAT, 2, bench.name(incarnation="2"))) == response(2, b"answer")


def test_releasing_onto_a_dead_connection_says_so(bench: Bench) -> None:
    """A release that cannot reach anybody is no release."""
    bench.arm(Rule("r", Action.HOLD, HEARTBEAT))
    client = bench.client()
    client.send(request(HEARTBEAT, 1, bench.name()))
    hit = bench.hit()
    bench.control.close_route(bench.route)
    result = bench.control.resolve(hold_of(hit), How.RELEASE)
    assert (result.outcome, result.reached, result.because) == (
        "discarded",
        False,
        "its connection is gone",
    )


def test_a_delivery_nobody_takes_keeps_the_frame(bench: Bench) -> None:
    """While the broker is down a delivery fails with one line and the frame stays held, to be
    delivered later.
    """
    bench.arm(Rule("r", Action.HOLD, HEARTBEAT))
    client = bench.client()
    client.send(request(HEARTBEAT, 1, bench.name()))
    hit = bench.hit()
    bench.broker.close()
    with pytest.raises(WireError, match="could not be delivered and is still held"):
        bench.control.resolve(hold_of(hit), How.DELIVER, within_s=1)
    held = bench.control.holds()
    assert [(each.held, each.attached) for each in held if each.cell == bench.cell] == [
        (hit.held, False)
    ]


def test_several_threads_share_one_control_connection(bench: Bench) -> None:
    bench.arm(Rule("r", Action.DELAY, HEARTBEAT, delay_s=0.001, limit=None))
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for _ in range(20):
                assert bench.control.counts(bench.cell, "r").fired == 0
                bench.control.arm(bench.cell, Rule(f"own-{number}", Action.CUT, Api.SYNC_GROUP))
                bench.control.disarm(bench.cell, f"own-{number}")
        except BaseException as error:  # noqa: BLE001 - reported below
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    wait_until(
        lambda: not any(thread.is_alive() for thread in threads), within_s=20, because="the threads"
    )
    assert failures == []
