"""What stands still when, and that nothing else does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.model import events as kinds
from harness.model.tail import SoFar
from harness.model.waiting import wait_until
from harness.protocols.kafka.steps import Api
from harness.wire.rules import Action, Direction, FreezeScope, How, Rule
from tests.wire.broker import WITHIN_S, request, response
from tests.wire.conftest import hold_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.wire.broker import Client
    from tests.wire.conftest import Bench

HEARTBEAT = Api.HEARTBEAT


def trip(bench: Bench, scope: FreezeScope, client: Client) -> kinds.Rule:
    """Let a hold with this freeze fire at a request of ``client``."""
    bench.arm(Rule("r", Action.HOLD, Api.END_TXN, freeze=scope))
    client.send(request(Api.END_TXN, 99, bench.name(incarnation="1")))
    return bench.hit()


def joined(bench: Bench, incarnation: str) -> Client:
    """Connect and be known."""
    client = bench.client()
    assert client.ask(request(HEARTBEAT, 1, bench.name(incarnation=incarnation))) == response(
        1, b"answer"
    )
    return client


def test_what_was_hit_is_held_and_frozen_when_its_line_is_there(bench: Bench) -> None:
    """However soon the line is read, and something is asked because of it."""
    rule = Rule("r", Action.HOLD, HEARTBEAT, freeze=FreezeScope.CLIENT, limit=None)
    bench.arm(rule)
    hits = SoFar(bench.path.parent).finder(kinds.Rule, lambda event: event.phase == "hit")
    for number in range(1, 21):
        held, other = bench.client(), bench.client()
        assert other.ask(request(Api.METADATA, 1, bench.name())) == response(1, b"answer")
        held.send(request(HEARTBEAT, 2, bench.name()))

        def hit(number: int = number) -> bool:
            return len(hits()) == number

        wait_until(hit, within_s=WITHIN_S, because="the hit", poll_s=0)
        other.send(request(Api.METADATA, 3, bench.name()))
        resolved = bench.control.resolve(hold_of(hits()[-1]), How.DISCARD)
        assert (resolved.outcome, held.ended(), other.ended()) == ("discarded", True, True)


def test_a_client_freeze_stops_all_its_connections_and_nobody_elses(bench: Bench) -> None:
    """Both directions of every connection of one process stand still, also of one that comes later;
    others go on.
    """
    mine, other, next_one = joined(bench, "1"), joined(bench, "2"), joined(bench, "10")
    suffixed = joined(bench, "1-metadata")
    hit = trip(bench, FreezeScope.CLIENT, bench.client())
    late = bench.client()
    for client, name in ((mine, "1"), (suffixed, "1-metadata"), (late, "1")):
        client.send(request(HEARTBEAT, 2, bench.name(incarnation=name)))
    assert other.ask(request(HEARTBEAT, 3, bench.name(incarnation="2"))) == response(3, b"answer")
    assert next_one.ask(request(HEARTBEAT, 4, bench.name(incarnation="10"))) == response(
        4, b"answer"
    )
    assert mine.silent()
    assert suffixed.silent()
    assert late.silent()
    assert sorted(bench.broker.corrs()) == [1, 1, 1, 1, 3, 4]
    bench.control.resolve(hold_of(hit), How.RELEASE)
    assert [mine.read(), suffixed.read(), late.read()] == [response(2, b"answer")] * 3


def test_a_node_freeze_stops_all_that_a_cell_has_to_do_with_that_broker_and_nothing_else(
    make_bench: Callable[..., Bench],
) -> None:
    """All processes' connections to one broker stand still; those of another cell, which may yet be
    held, do not.
    """
    one, twin = make_bench(node="shared"), make_bench(node="shared", role="consumer")
    elsewhere = make_bench()
    mine, neighbour, distant = joined(one, "2"), joined(twin, "1"), joined(elsewhere, "1")
    hit = trip(one, FreezeScope.NODE, one.client())
    newcomer = one.client()
    mine.send(request(HEARTBEAT, 2, one.name(incarnation="2")))
    newcomer.send(request(HEARTBEAT, 3, one.name(incarnation="3")))
    assert distant.ask(request(HEARTBEAT, 4, elsewhere.name())) == response(4, b"answer")
    assert neighbour.ask(request(HEARTBEAT, 5, twin.name())) == response(5, b"answer")
    assert mine.silent()
    assert newcomer.silent()
    one.control.resolve(hold_of(hit), How.DISCARD)
    assert mine.ended()
    assert newcomer.ended()
    assert twin.broker.corrs() == [1, 5]
    assert one.broker.corrs() == [1]


def test_two_cells_can_be_held_at_one_broker(make_bench: Callable[..., Bench]) -> None:
    """The second comes to its own trigger while the first stands still, and each is disposed of by
    itself.
    """
    one, twin = make_bench(node="shared"), make_bench(node="shared", role="consumer")
    first = trip(one, FreezeScope.NODE, one.client())
    other = trip(twin, FreezeScope.NODE, twin.client())
    mine, neighbour = one.client(), twin.client()
    mine.send(request(HEARTBEAT, 2, one.name()))
    neighbour.send(request(HEARTBEAT, 3, twin.name()))
    assert mine.silent()
    assert neighbour.silent()
    one.control.resolve(hold_of(first), How.DISCARD)
    assert mine.ended()
    assert neighbour.silent()
    twin.control.resolve(hold_of(other), How.RELEASE)
    assert neighbour.read() == response(3, b"answer")


def test_frozen_frames_are_neither_counted_nor_passed_on(bench: Bench) -> None:
    """What reaches the wire after the instant of the hit is no match of any rule, and never arrives
    after a discard.
    """
    bench.arm(Rule("count", Action.DELAY, HEARTBEAT, delay_s=0.001, limit=None))
    mine = joined(bench, "1")
    hit = trip(bench, FreezeScope.CLIENT, bench.client())
    mine.send(request(HEARTBEAT, 2, bench.name()))
    assert mine.silent()
    assert bench.control.counts(bench.cell, "count").seen == 1
    bench.control.resolve(hold_of(hit), How.DISCARD)
    assert mine.ended()
    assert bench.broker.corrs() == [1]


def test_a_response_on_its_way_is_frozen_too(bench: Bench) -> None:
    bench.arm(Rule("slow", Action.HOLD, HEARTBEAT, Direction.RESPONSE, freeze=FreezeScope.CLIENT))
    first, second = bench.client(), bench.client()
    for client, corr in ((first, 1), (second, 2)):
        client.send(request(Api.METADATA, corr, bench.name()))
        client.read()
    first.send(request(HEARTBEAT, 3, bench.name()))
    hit = bench.hit("slow")
    assert first.silent()
    bench.control.resolve(hold_of(hit), How.DELIVER)
    assert first.ended()
    assert second.ended()
    assert bench.phases("slow")[-1] == "discarded"


def test_a_freeze_meets_what_is_already_in_the_wire(bench: Bench) -> None:
    """A frame that waits inside the wire when its connection is frozen is not counted until it
    thaws, and nothing is lost.
    """
    bench.arm(Rule("count", Action.DELAY, HEARTBEAT, limit=None, delay_s=0.001))
    bench.arm(Rule("first", Action.HOLD, Api.SYNC_GROUP))
    client, other = joined(bench, "1"), bench.client()
    client.send(request(Api.SYNC_GROUP, 2, bench.name()), request(HEARTBEAT, 3, bench.name()))
    first = bench.hit("first")
    hit = trip(bench, FreezeScope.CLIENT, other)
    assert not bench.control.resolve(hold_of(first), How.RELEASE, within_s=0.1).reached
    assert client.silent()
    assert bench.control.counts(bench.cell, "count").seen == 1
    bench.control.resolve(hold_of(hit), How.RELEASE)
    assert client.read() == response(2, b"answer")
    assert client.read() == response(3, b"answer")
    assert bench.control.counts(bench.cell, "count").seen == 2
