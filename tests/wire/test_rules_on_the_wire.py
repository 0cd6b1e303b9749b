"""What rules do to frames, seen from both ends and in the history."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness.model import events as kinds
from harness.protocols.kafka.steps import Api
from harness.wire.messages import WireError
from harness.wire.rules import Action, After, Direction, How, Rule
from tests.wire.broker import WITHIN_S, corr_of, request, response
from tests.wire.conftest import hold_of

if TYPE_CHECKING:
    from tests.wire.conftest import Bench

HEARTBEAT = Api.HEARTBEAT


def test_frames_pass_and_are_recorded(bench: Bench) -> None:
    client = bench.client()
    sent = request(HEARTBEAT, 7, bench.name(), b"body")
    assert client.ask(sent) == response(7, b"answer")
    assert bench.broker.frames == [sent]
    frames = bench.events(kinds.Frame)
    assert [(e.dir, e.api, e.corr, e.client) for e in frames] == [
        ("request", "Heartbeat", 7, bench.name()),
        ("response", "Heartbeat", 7, bench.name()),
    ]


def test_a_held_request_stalls_what_is_behind_it_and_keeps_the_order(bench: Bench) -> None:
    """A held request arrives only after its release, before everything sent behind it on the
    connection.
    """
    bench.arm(Rule("r", Action.HOLD, HEARTBEAT))
    client = bench.client()
    client.send(request(HEARTBEAT, 1, bench.name()), request(Api.METADATA, 2, bench.name()))
    hit = bench.hit()
    assert hit.held is not None
    assert client.silent()
    assert bench.broker.frames == []
    assert [held.held for held in bench.control.holds()] == [hit.held]
    result = bench.control.resolve(hold_of(hit), How.RELEASE)
    assert (result.outcome, result.reached) == ("released", True)
    bench.broker.wait_corrs(1, 2)
    assert [client.read()[7], client.read()[7]] == [1, 2]
    assert bench.phases("r") == ["armed", "hit", "held", "released"]
    assert bench.control.holds() == ()


def test_a_held_response_leaves_the_requests_flowing(bench: Bench) -> None:
    bench.arm(Rule("r", Action.HOLD, HEARTBEAT, Direction.RESPONSE))
    client = bench.client()
    client.send(request(HEARTBEAT, 1, bench.name()))
    hit = bench.hit()
    client.send(request(HEARTBEAT, 2, bench.name()))
    bench.broker.wait_corrs(1, 2)
    assert client.silent()
    bench.control.resolve(hold_of(hit), How.RELEASE)
    assert [client.read(), client.read()] == [response(1, b"answer"), response(2, b"answer")]


@pytest.mark.parametrize("action", [Action.DROP, Action.CUT])
def test_a_dropped_request_never_arrives_and_the_connection_ends(
    bench: Bench, action: Action
) -> None:
    """Drop with a cut, and cut, keep the frame from the broker and end the connection for both
    sides.
    """
    bench.arm(Rule("r", action, HEARTBEAT, occurrence=2))
    client = bench.client()
    client.ask(request(HEARTBEAT, 1, bench.name()))
    client.send(request(HEARTBEAT, 2, bench.name()))
    assert client.ended()
    bench.broker.wait_corrs(1)
    assert bench.broker.peers[0].ended.wait(WITHIN_S)
    assert bench.phases("r") == ["armed", "hit", "dropped", "cut"]
    assert bench.control.counts(bench.cell, "r").fired == 1


def test_a_black_hole_swallows_one_direction_from_there_on(bench: Bench) -> None:
    """After a drop into a black hole nothing more comes this way, the other way goes on, the
    connection stays.
    """
    bench.arm(Rule("r", Action.DROP, HEARTBEAT, Direction.RESPONSE, after=After.BLACK_HOLE))
    client = bench.client()
    client.send(request(HEARTBEAT, 1, bench.name()), request(HEARTBEAT, 2, bench.name()))
    bench.broker.wait_corrs(1, 2)
    assert client.silent()
    assert bench.phases("r") == ["armed", "hit", "dropped"]


def test_a_client_that_leaves_while_its_answer_is_held_is_seen_to_leave(bench: Bench) -> None:
    """It waits no more; the answer stays held, and the connection is not over."""
    bench.arm(Rule("r", Action.HOLD, HEARTBEAT, Direction.RESPONSE))
    client = bench.client()
    client.send(request(HEARTBEAT, 1, bench.name()))
    hit = bench.hit()
    assert not [e for e in bench.events(kinds.Conn) if e.phase == "left"]
    client.close()
    assert bench.wait_event(kinds.Conn, phase="left").conn == hit.conn
    assert not [e for e in bench.events(kinds.Conn) if e.phase == "close"]
    assert [held.held for held in bench.control.holds()] == [hit.held]


def test_a_client_that_leaves_with_nothing_held_just_ends(bench: Bench) -> None:
    """Also where an answer was held before, and has gone on."""
    bench.arm(Rule("r", Action.HOLD, HEARTBEAT, Direction.RESPONSE))
    client = bench.client()
    client.send(request(HEARTBEAT, 1, bench.name()))
    bench.control.resolve(hold_of(bench.hit()), How.RELEASE)
    client.read()
    client.close()
    assert bench.wait_event(kinds.Conn, phase="close").ended_by == "client"
    assert not [e for e in bench.events(kinds.Conn) if e.phase == "left"]


def test_a_client_that_leaves_a_black_hole_ends_the_connection(bench: Bench) -> None:
    """What it has asked never arrived; that it has left is seen, and the broker's end is closed."""
    bench.arm(Rule("r", Action.DROP, HEARTBEAT, after=After.BLACK_HOLE))
    client = bench.client()
    client.send(request(HEARTBEAT, 1, bench.name()))
    bench.hit()
    client.close()
    assert bench.wait_event(kinds.Conn, phase="close").ended_by == "client"
    assert bench.broker.frames == []


def test_what_may_vanish_vanishes_alone(bench: Bench) -> None:
    bench.arm(
        Rule("r", Action.DROP, HEARTBEAT.label, Direction.RESPONSE, occurrence=2, after=After.GO_ON)
    )
    client = bench.client()
    assert client.ask(request(HEARTBEAT, 1, bench.name())) == response(1, b"answer")
    client.send(request(HEARTBEAT, 2, bench.name()), request(HEARTBEAT, 3, bench.name()))
    assert client.read() == response(3, b"answer")
    assert client.ask(request(HEARTBEAT, 4, bench.name())) == response(4, b"answer")
    assert bench.phases("r") == ["armed", "hit", "dropped"]


def test_cut_after_lets_the_broker_act_and_swallows_its_answer(bench: Bench) -> None:
    """A request cut after the broker has acted arrives whole, its answer never does, and then the
    connection ends.
    """
    bench.arm(Rule("r", Action.CUT_AFTER, HEARTBEAT))
    client = bench.client()
    client.send(request(HEARTBEAT, 1, bench.name()), request(HEARTBEAT, 2, bench.name()))
    assert client.ended()
    bench.broker.wait_corrs(1)
    assert bench.phases("r") == ["armed", "hit", "cut"]


def test_cut_after_a_response_delivers_it_first(bench: Bench) -> None:
    """A response cut after it was passed on is read whole by the client, then the
    connection ends.
    """
    bench.arm(Rule("r", Action.CUT_AFTER, HEARTBEAT, Direction.RESPONSE))
    client = bench.client()
    assert client.ask(request(HEARTBEAT, 1, bench.name())) == response(1, b"answer")
    assert client.ended()


def test_occurrence_and_limit_count_matches_since_arming(bench: Bench) -> None:
    """The n-th match is the first that fires, ``limit`` the last; all matches are counted before
    and after.
    """
    client = bench.client()
    client.ask(request(HEARTBEAT, 1, bench.name()))
    bench.arm(Rule("r", Action.DELAY, HEARTBEAT, occurrence=2, limit=2, delay_s=0.01))
    for corr in range(2, 7):
        client.ask(request(HEARTBEAT, corr, bench.name()))
    counts = bench.control.counts(bench.cell, "r")
    assert (counts.seen, counts.matched, counts.fired) == (5, 5, 2)
    assert [e.corr for e in bench.events(kinds.Rule) if e.phase == "delayed"] == [3, 4]
    assert bench.control.disarm(bench.cell, "r") == counts


def test_small_frames_can_be_passed_over(bench: Bench) -> None:
    """The second of those that are as long as a rule wants, whatever shorter ones come
    in between.
    """
    client = bench.client()
    bench.arm(Rule("r", Action.DROP, HEARTBEAT, occurrence=2, least=200))
    for corr, size in enumerate((10, 200, 10, 10), 1):
        client.ask(request(HEARTBEAT, corr, bench.name(), bytes(size)))
    client.send(request(HEARTBEAT, 5, bench.name(), bytes(300)))
    assert client.ended()
    assert bench.hit().corr == 5


def test_a_discarded_request_never_arrived(bench: Bench) -> None:
    bench.arm(Rule("r", Action.HOLD, HEARTBEAT))
    client = bench.client()
    client.send(request(HEARTBEAT, 1, bench.name()))
    hit = bench.hit()
    assert bench.control.resolve(hold_of(hit), How.DISCARD).outcome == "discarded"
    assert client.ended()
    assert bench.broker.frames == []
    with pytest.raises(WireError, match="no held frame"):
        bench.control.resolve(hold_of(hit), How.DISCARD)


def test_a_delivered_request_comes_over_a_fresh_connection(bench: Bench) -> None:
    """Delivering sends the very same frame over another connection and swallows the answer; the
    client has gone.
    """
    bench.arm(Rule("r", Action.HOLD, HEARTBEAT))
    client = bench.client()
    sent = request(HEARTBEAT, 1, bench.name(), b"late")
    client.send(sent)
    hit = bench.hit()
    client.close()
    result = bench.control.resolve(hold_of(hit), How.DELIVER)
    assert (result.outcome, result.reached, result.answered) == ("delivered", True, True)
    assert [peer.frames for peer in bench.broker.peers] == [[], [sent]]
    assert bench.phases("r") == ["armed", "hit", "held", "delivered"]


def test_a_detached_request_can_be_delivered_later(bench: Bench) -> None:
    """Release later: the connection is cut, the client goes on over another one, then the old
    request arrives.
    """
    bench.arm(Rule("r", Action.HOLD, HEARTBEAT))
    client = bench.client()
    client.send(request(HEARTBEAT, 1, bench.name()))
    hit = bench.hit()
    assert bench.control.resolve(hold_of(hit), How.RELEASE_LATER, cut=True).outcome == "detached"
    assert client.ended()
    bench.client().ask(request(HEARTBEAT, 2, bench.name()))
    assert bench.control.resolve(hold_of(hit), How.DELIVER).outcome == "delivered"
    assert [corr_of(frame) for frame in bench.broker.frames] == [2, 1]
