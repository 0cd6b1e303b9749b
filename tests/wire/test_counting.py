"""Frames that count from another: the wire decides, frame by frame."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness.model import events as kinds
from harness.protocols.kafka.steps import Api
from harness.wire.messages import WireError
from harness.wire.rules import Action, Direction, Rule
from tests.wire.broker import request

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.wire.conftest import Bench

BEAT, JOIN = Api.HEARTBEAT, Api.JOIN_GROUP
MARK = Rule("mark", Action.MARK, JOIN)


def delayed(bench: Bench, rule: str = "r") -> list[int | None]:
    """Return the numbers of the frames at which a rule has fired."""
    return [
        event.corr
        for event in bench.events(kinds.Rule)
        if event.rule == rule and event.phase == "hit"
    ]


def ask(bench: Bench, *asked: tuple[Api, int], client: str | None = None) -> None:
    """Ask one after the other."""
    sock = bench.client()
    for api, corr in asked:
        sock.ask(request(api, corr, client or bench.name()))


def test_the_kth_behind_an_anchor_is_the_one(bench: Bench) -> None:
    """None before it counts, nor does the anchor itself, where it is of the same kind."""
    bench.arm(MARK)
    bench.arm(Rule("r", Action.DELAY, BEAT, occurrence=2, delay_s=0.001, since="mark"))
    bench.arm(Rule("own", Action.DELAY, JOIN, delay_s=0.001, since="mark"))
    ask(bench, (BEAT, 1), (BEAT, 2), (JOIN, 3), (BEAT, 4), (JOIN, 5), (BEAT, 6), (BEAT, 7))
    assert (delayed(bench, "mark"), delayed(bench), delayed(bench, "own")) == ([3], [6], [5])
    assert bench.control.counts(bench.cell, "r").seen == 3


def test_what_counts_from_an_anchor_that_never_came_never_fires(bench: Bench) -> None:
    bench.arm(MARK)
    bench.arm(Rule("r", Action.DELAY, BEAT, delay_s=0.001, since="mark"))
    ask(bench, (BEAT, 1), (BEAT, 2))
    assert delayed(bench) == []


def test_a_mark_takes_nothing_from_others(bench: Bench) -> None:
    """The same frame may be delayed, dropped or held by another rule, armed before it
    or after it.
    """
    bench.arm(Rule("before", Action.DELAY, JOIN, delay_s=0.001))
    bench.arm(MARK)
    bench.arm(Rule("behind", Action.DELAY, JOIN, delay_s=0.001, since="before"))
    ask(bench, (JOIN, 1), (JOIN, 2))
    assert (delayed(bench, "mark"), delayed(bench, "before"), delayed(bench, "behind")) == (
        [1],
        [1],
        [2],
    )


def test_of_one_role_it_is_one_process(bench: Bench) -> None:
    """What another process of the role does meanwhile is none of it; a process may have several
    connections.
    """
    bench.arm(MARK)
    bench.arm(Rule("r", Action.DELAY, BEAT, delay_s=0.001, since="mark"))
    other = bench.name(incarnation="2")
    ask(bench, (BEAT, 1), client=other)
    ask(bench, (JOIN, 2))
    ask(bench, (BEAT, 3), client=other)
    ask(bench, (BEAT, 4), client=f"{bench.name()}-restore")
    assert delayed(bench) == [4]


def test_of_another_role_it_may_be_any_process(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(role="producer")
    other = make_bench(role="consumer")
    bench.arm(MARK)
    bench.arm(Rule("r", Action.DELAY, BEAT, role="consumer", delay_s=0.001, since="mark"))
    consumer = bench.name("consumer")
    other.client().ask(request(BEAT, 1, consumer))
    ask(bench, (JOIN, 2))
    other.client().ask(request(BEAT, 3, consumer))
    assert delayed(bench) == [3]


def test_an_answer_can_be_the_anchor(bench: Bench) -> None:
    """Then what was asked before it does not count."""
    bench.arm(Rule("mark", Action.MARK, JOIN, Direction.RESPONSE))
    bench.arm(Rule("r", Action.DELAY, BEAT, delay_s=0.001, since="mark"))
    ask(bench, (BEAT, 1), (JOIN, 2), (BEAT, 3))
    assert delayed(bench) == [3]


def test_what_is_armed_anew_begins_anew(bench: Bench) -> None:
    bench.arm(MARK)
    ask(bench, (JOIN, 1))
    bench.control.disarm(bench.cell, "mark")
    bench.arm(MARK)
    bench.arm(Rule("r", Action.DELAY, BEAT, delay_s=0.001, since="mark"))
    ask(bench, (BEAT, 2), (JOIN, 3), (BEAT, 4))
    assert delayed(bench) == [4]


def test_nothing_counts_from_a_rule_that_is_not_there(bench: Bench) -> None:
    """It would never fire, and nobody would know why."""
    with pytest.raises(WireError, match="has no rule mark for r to count from"):
        bench.arm(Rule("r", Action.CUT, BEAT, since="mark"))
