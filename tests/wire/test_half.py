"""A request that is held when half of it has gone on, and a client that leaves meanwhile."""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING

import pytest

from harness.model import events as kinds
from harness.model.waiting import wait_until
from harness.protocols.kafka.steps import Api
from harness.wire.messages import WireError
from harness.wire.rules import Action, Direction, How, Rule, RuleError
from tests.wire.broker import WITHIN_S, ScriptedBroker, read_exactly, request
from tests.wire.conftest import hold_of
from tests.wire.test_contents import produce

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.wire.conftest import Bench

HEARTBEAT = Api.HEARTBEAT


def raw_bench(make_bench: Callable[..., Bench]) -> Bench:
    """A broker whose bytes are read by the test."""
    return make_bench(ScriptedBroker(raw=True))


def test_half_of_a_request_goes_on_and_the_rest_when_it_is_released(
    make_bench: Callable[..., Bench],
) -> None:
    """Also the half of one that is only streamed. What is behind it waits, and goes on in order."""
    bench = raw_bench(make_bench)
    bench.arm(Rule("r", Action.HOLD, HEARTBEAT, limit=2, half=True))
    client = bench.client()
    small = request(HEARTBEAT, 1, bench.name())
    large = request(HEARTBEAT, 2, bench.name(), bytes(1 << 20))
    sending = threading.Thread(target=client.send, args=(small, large), daemon=True)
    sending.start()
    broker = bench.broker.new.get(timeout=WITHIN_S).sock
    broker.settimeout(WITHIN_S)
    for number, frame in enumerate((small, large), 1):
        half = len(frame) // 2
        assert read_exactly(broker, half) == frame[:half]
        held = bench.wait_event(kinds.Rule, phase="held", corr=number)
        assert held.passed == half
        broker.settimeout(0.15)
        with pytest.raises(TimeoutError):
            broker.recv(1)
        broker.settimeout(WITHIN_S)
        threading.Thread(
            target=bench.control.resolve, args=(hold_of(held), How.RELEASE), daemon=True
        ).start()
        assert read_exactly(broker, len(frame) - half) == frame[half:]
    sending.join(WITHIN_S)


def test_half_of_a_request_closes_the_window_behind_it(make_bench: Callable[..., Bench]) -> None:
    """The client cannot get rid of what it sends behind: its own buffers fill up."""
    bench = raw_bench(make_bench)
    bench.arm(Rule("r", Action.HOLD, HEARTBEAT, half=True))
    client = bench.client()
    client.send(request(HEARTBEAT, 1, bench.name()))
    hit = bench.hit()
    client.sock.settimeout(0.3)
    with pytest.raises(TimeoutError):
        client.send(request(HEARTBEAT, 2, bench.name(), bytes(1 << 24)))
    assert [held.held for held in bench.control.holds()] == [hit.held]


def test_a_request_stops_before_its_rest_is_read(make_bench: Callable[..., Bench]) -> None:
    """Where its record stands in the first half: its client has not got rid of it. When all of it
    has come, the history has all that was sent. One whose first half has another record goes on.
    """
    bench = raw_bench(make_bench)
    bench.arm(Rule("r", Action.HOLD, Api.PRODUCE, record="a-1", half=True))
    client = bench.client()
    client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 14)
    ids = [f"a-{number}" for number in range(1, 12_001)]
    other, frame = produce(bench, 1, *ids[10:]), produce(bench, 2, *ids)
    sending = threading.Thread(target=client.send, args=(other, frame), daemon=True)
    sending.start()
    broker = bench.broker.new.get(timeout=WITHIN_S).sock
    broker.settimeout(WITHIN_S)
    half = len(frame) // 2
    assert read_exactly(broker, len(other) + half) == other + frame[:half]
    held = bench.wait_event(kinds.Rule, phase="held", corr=2)
    assert (held.passed, held.records) == (half, ("a-1",))
    sending.join(0.3)
    assert sending.is_alive()
    threading.Thread(
        target=bench.control.resolve, args=(hold_of(held), How.RELEASE), daemon=True
    ).start()
    assert read_exactly(broker, len(frame) - half) == frame[half:]
    sending.join(WITHIN_S)
    bench.wait_event(kinds.Rule, phase="released")
    wait_until(
        lambda: [e.record for e in bench.events(kinds.Sent)] == [*ids[10:], *ids],
        within_s=WITHIN_S,
        because="all records to be sent",
    )


def test_who_leaves_half_of_a_request_is_seen_to_leave(make_bench: Callable[..., Bench]) -> None:
    """Though nothing of it is read; the rest goes on all the same. It cannot go elsewhere."""
    bench = raw_bench(make_bench)
    bench.arm(Rule("r", Action.HOLD, HEARTBEAT, half=True))
    client = bench.client()
    frame = request(HEARTBEAT, 1, bench.name())
    client.send(frame)
    hit = bench.hit()
    assert not [e for e in bench.events(kinds.Conn) if e.phase == "left"]
    client.close()
    assert bench.wait_event(kinds.Conn, phase="left").conn == hit.conn
    for how in (How.DELIVER, How.RELEASE_LATER):
        with pytest.raises(WireError, match="half on its way"):
            bench.control.resolve(hold_of(hit), how)
    bench.control.resolve(hold_of(hit), How.RELEASE)
    broker = bench.broker.new.get(timeout=WITHIN_S).sock
    assert read_exactly(broker, len(frame)) == frame


def test_who_leaves_while_an_answer_is_owed_is_seen_to_leave(
    make_bench: Callable[..., Bench],
) -> None:
    """As where a broker stands still: it has the request, and says nothing."""
    bench = raw_bench(make_bench)
    client = bench.client()
    client.send(request(HEARTBEAT, 1, bench.name()))
    bench.wait_event(kinds.Frame, corr=1)
    client.close()
    assert bench.wait_event(kinds.Conn, phase="left").role == "producer"
    assert not [e for e in bench.events(kinds.Conn) if e.phase == "close"]


@pytest.mark.parametrize(
    ("action", "direction"), [(Action.CUT, Direction.REQUEST), (Action.HOLD, Direction.RESPONSE)]
)
def test_only_a_held_request_can_be_half_on_its_way(action: Action, direction: Direction) -> None:
    with pytest.raises(RuleError, match="only a request can be held when half of it is on"):
        Rule("r", action, HEARTBEAT, direction, half=True)
