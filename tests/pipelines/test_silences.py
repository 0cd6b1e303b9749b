"""Silent peers: which points they are, when they are run, and which programs they convict."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from harness.controls import OnWire
from harness.faults import (
    Answer,
    Frozen,
    InTurn,
    PartedFromWork,
    TakenOver,
    TopicAppears,
    Torn,
    Twice,
)
from harness.faults import Silent as SilentPeer
from harness.judge.verdict import Kind
from harness.matrix.checking import Check
from harness.matrix.progress import make_progress
from harness.matrix.seen import awake_s, seen_in
from harness.model.history import HISTORY
from harness.model.scenario import Deployment, NotApplicable, Role
from harness.model.semantics import Semantic
from harness.pipelines import bursts as burst_points
from harness.pipelines import failure_points, read_pipeline
from harness.pipelines.in_turn import IN_TURN
from harness.pipelines.silences import is_long, price
from harness.pipelines.traffic import StageTraffic
from harness.protocols.kafka.steps import Api
from harness.systems.declared.learnt.silence import rests_s
from harness.systems.declared.system import DeclaredSystem
from harness.wire.rules import Direction
from tests.judge.growing import tell
from tests.judge.recording import steps
from tests.pipelines.test_check import EXAMPLES, Silent, check
from tests.pipelines.test_firsts import PROGRAMS

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = PROGRAMS / "silent-peer"
ORDERS = EXAMPLES / "orders" / "pipeline.toml"
FROZEN = ["broker-frozen-before-position", "broker-frozen-while-sending"]
LONG = [
    "ack-silent",
    *FROZEN,
    "commit-ack-silent",
    "position-answer-silent",
    "request-silent",
    "send-again-torn",
    "send-torn",
]
POSITION = "position-answer-silent"
LATE = "consumer-topic-appears"
BURSTS = {point.id for point in (*burst_points.BURSTS, *IN_TURN)}
"""Left to --all, too, for another reason."""


def asked(tmp_path: Path, *, long: bool = False) -> Check:
    """Return a check of the orders, of which nothing is started."""
    return Check(read_pipeline(ORDERS), DeclaredSystem(), tmp_path, "pytest", long=long)


SEEN = {
    "producer": StageTraffic(("p",), 1, {"Produce": 24}, {"Produce": 24}),
    "consumer": StageTraffic(
        ("c",),
        1,
        {"Fetch": 24, "OffsetFetch": 1, "OffsetCommit": 24},
        {"Fetch": 24, "OffsetFetch": 1, "OffsetCommit": 24},
    ),
}


def test_they_are_run_where_that_is_asked(tmp_path: Path) -> None:
    """By --all, or by their names; else the plan names them, and what they cost."""
    plain = {cell.scenario.id for cell in asked(tmp_path).plan(SEEN)[0]}
    whole = {cell.scenario.id for cell in asked(tmp_path, long=True).plan(SEEN)[0]}
    assert whole - plain - BURSTS == {*LONG, LATE}
    assert plain.isdisjoint(BURSTS)
    assert plain < whole
    [named], _ = asked(tmp_path).plan(SEEN, (POSITION,))
    assert named.scenario.id == POSITION
    line, late, _, turns = asked(tmp_path).left_out(SEEN)
    assert "several records are struck, one after the other (about 8 s longer)" in turns
    assert late.startswith(f"not run without --all: {LATE}; ")
    assert sorted(line.split(": ")[1].split(";")[0].split(", ")) == LONG
    assert line.startswith("not run without --all: ")
    assert "(about 35 s, at most 75 s)" in line
    assert not [*asked(tmp_path, long=True).left_out(SEEN)]
    assert not [*asked(tmp_path).left_out(SEEN, (POSITION,))]


def test_the_plan_tells_how_long_it_takes() -> None:
    """Each cell as long as the one without a fault, what is longer besides, so many at once."""
    found = {point.id: point for point in failure_points(read_pipeline(ORDERS))}
    short, dies, silent = found["ack-lost"], found["broker-crash-before-ack"], found[POSITION]
    told = price([*[short] * 50, dies, *[silent] * 4], 3.0, 3)
    assert told == "about 1.7 min: 55 cells of 3 s, and 144 s longer in all; 3 at once"
    assert price([short], 3.42, 1) == "about 0.1 min: 1 cell of 3.4 s; 1 at once"


def test_the_price_knows_who_rests(tmp_path: Path) -> None:
    """A run without a fault has rested by the clock in its history; each cell in which a program
    dies does so where duplicates are forbidden.
    """
    (tmp_path / HISTORY).mkdir()
    ran: Any = SimpleNamespace(directory=tmp_path, seconds=14.0)
    assert awake_s(ran, 1.0) == 14.0
    ended = {"event": "drain", "phase": "completed", "stage": None, "because": None}
    tell(tmp_path / HISTORY, ended | {"rested": 10.4, "why": "settled"})
    assert awake_s(ran, 1.0) == pytest.approx(4.6)
    brief: Any = SimpleNamespace(directory=tmp_path, seconds=0.5 + 10.4)
    assert awake_s(brief, 30.0) == brief.seconds
    least = read_pipeline(ORDERS)
    once = replace(least, claims=Semantic.AT_MOST_ONCE)
    points = {each.id: each for each in failure_points(least)}
    cells = [points[name] for name in ("none", "ack-lost", "commit-lost")]
    assert [rests_s(least, each) for each in cells] == [9, 0, 0]
    assert [rests_s(once, each) for each in cells] == [9, 0, 9]
    told = price(cells, 4.0, 1, partial(rests_s, once))
    assert told == "about 0.5 min: 3 cells of 4 s, and 18 s longer in all; 1 at once"


def test_nothing_else_is_long() -> None:
    """What waits for no time-out of a client's is run each time, but where brokers come back."""
    found = [
        point
        for point in failure_points(read_pipeline(ORDERS))
        if not isinstance(point.fault, PartedFromWork | TakenOver | TopicAppears)
        and point.id not in BURSTS
    ]
    assert sorted(point.id for point in found if is_long(point)) == [
        *LONG,
        "transaction-commit-ack-silent",
    ]


def test_a_broker_is_woken_when_its_client_has_given_up() -> None:
    """Or when nobody knows; then the fault is not over."""
    at = OnWire(Role.PRODUCER, Api.PRODUCE, Direction.REQUEST)
    done = ["fired", "pause", "applied", "resolve Produce release", "GivingUp.await_given_up"]
    assert steps(Frozen(at), at) == [*done, "resume", "healed"]
    assert steps(Frozen(at)) == []


def test_what_is_sent_again_is_torn() -> None:
    """The first request is refused; the second one about the same record stops half-way."""
    found = {each.id: each.fault for each in failure_points(read_pipeline(ORDERS))}
    at = OnWire(Role.PRODUCER, Api.PRODUCE, Direction.REQUEST)
    assert found["send-torn"] == Torn(at)
    assert found["send-again-torn"] == Twice(
        Answer(at, "NOT_LEADER_OR_FOLLOWER"), Torn(replace(at, occurrence=2))
    )


def test_who_need_not_send_again_is_not_torn_then() -> None:
    """At most once a client does not send again what was refused: the point would be void."""
    pipeline = read_pipeline(ORDERS)
    for claims, applies in ((pipeline.claims, True), (Semantic.AT_MOST_ONCE, False)):
        found = {each.id: each for each in failure_points(replace(pipeline, claims=claims))}
        expected = found["send-again-torn"].expect[claims]
        assert isinstance(expected, NotApplicable) is not applies
        assert not isinstance(found["send-torn"].expect[claims], NotApplicable)


def test_one_of_several_brokers_is_not_frozen(tmp_path: Path) -> None:
    """Nor one that lostack has not started, nor one that other cells use."""
    pipeline = read_pipeline(ORDERS)
    found = {each.id: each for each in failure_points(pipeline)}
    assert {found[name].deployment for name in FROZEN} == {Deployment.OWN}
    for others in (
        failure_points(replace(pipeline, brokers=3)),
        failure_points(pipeline, attached=True),
    ):
        expected = [each.expect[pipeline.claims] for each in others if each.id in FROZEN]
        assert len(expected) == len(FROZEN)
        assert all(isinstance(each, NotApplicable) for each in expected)


def test_a_queue_has_none() -> None:
    pipeline = read_pipeline(EXAMPLES / "parcels" / "pipeline.toml")
    long = [point.fault for point in failure_points(pipeline) if is_long(point)]
    assert long
    assert all(isinstance(fault, InTurn) for fault in long)


def test_a_restarted_reader_asks_for_its_positions_in_vain() -> None:
    """Killed at the record's way to it; its successor's first such answer never comes."""
    [point] = [each for each in failure_points(read_pipeline(ORDERS)) if each.id == POSITION]
    fault: Any = point.fault
    assert isinstance(fault, Twice)
    given = OnWire(Role.CONSUMER, Api.FETCH, Direction.RESPONSE)
    assert fault.first.at == given
    assert fault.second == SilentPeer(
        OnWire(Role.CONSUMER, Api.OFFSET_FETCH, Direction.RESPONSE, since=given)
    )


# --- with a broker --------------------------------------------------------------------------------


@pytest.mark.kafka
@pytest.mark.rest(together=True)
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("version", "kind"), [("2.2.8", Kind.BROKEN), ("2.2.9", Kind.KEPT)], ids=["2.2.8", "2.2.9"]
)
def test_a_silent_coordinator_has_not_said_that_there_is_no_position(
    system: DeclaredSystem, tmp_path: Path, version: str, kind: Kind
) -> None:
    """kafka-python 2.2.8 goes on at auto.offset.reset, and its next version asks again. Where the
    connection is cut, as by the point that there was before, both do.
    """
    lost = "position-answer-lost"
    found = check(system, tmp_path, FOLDER / f"client-{version}.toml", POSITION, lost)
    assert (found[lost].verdict.kind, found[POSITION].verdict.kind) == (Kind.KEPT, kind), {
        name: one.verdict.reason for name, one in found.items()
    }
    assert found[POSITION].verdict.by_fault
    assert found[POSITION].verdict.fired == 1


@pytest.mark.kafka
@pytest.mark.rest(together=True)
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("program", "kind"), [("gives-up", Kind.BROKEN), ("sends-again", Kind.KEPT)]
)
def test_a_request_without_an_answer_is_sent_again(
    system: DeclaredSystem, tmp_path: Path, program: str, kind: Kind
) -> None:
    """Whose client repeats it after a cut, and lets it expire in a silence, loses it."""
    names = ("request-lost", "request-silent", "ack-silent")
    found = check(system, tmp_path, FOLDER / f"{program}.toml", *names)
    assert {name: one.verdict.kind for name, one in found.items()} == {
        "request-lost": Kind.KEPT,
        "request-silent": kind,
        "ack-silent": Kind.KEPT,
    }, {name: one.verdict.reason for name, one in found.items()}
    assert {one.verdict.fired for one in found.values()} == {1}


@pytest.mark.kafka
@pytest.mark.rest(together=True)
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("program", "kind"), [("asks-anew", Kind.BROKEN), ("asks-again", Kind.KEPT)]
)
def test_a_broker_does_late_what_it_was_asked(
    system: DeclaredSystem, tmp_path: Path, program: str, kind: Kind
) -> None:
    """It stood still, or had half of a request. Who gave up and sent a new record has it twice; a
    client that repeats its request has not.
    """
    names = ("broker-frozen-while-sending", "send-torn")
    for name, found in check(system, tmp_path, FOLDER / f"{program}.toml", *names).items():
        said = (name, found.verdict.reason)
        assert (found.verdict.kind, found.verdict.fired) == (kind, 1), said
        twice = {found.plan.target} if kind is Kind.BROKEN else set()
        assert found.judgement.account.duplicated == twice, said


@pytest.mark.kafka
@pytest.mark.rest(together=True)
@pytest.mark.timeout(600)
def test_a_silence_that_does_not_come_proves_nothing(
    system: DeclaredSystem, tmp_path: Path
) -> None:
    one = Check(read_pipeline(ORDERS), system, tmp_path, "pytest")
    with make_progress(Silent()) as progress:
        [cell], _ = one.plan(seen_in(one.dry_run(progress)), ("ack-silent",))
        never = SilentPeer(OnWire(Role.PRODUCER, Api.END_TXN, Direction.RESPONSE))
        saved = one.faults(
            [replace(cell, scenario=replace(cell.scenario, fault=never))], (), progress
        )
    [found] = saved.results
    assert (found.verdict.kind, found.verdict.reason) == (Kind.VOID, "the fault did not fire")
