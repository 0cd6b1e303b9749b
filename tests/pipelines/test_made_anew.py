"""Proves what a topic does to its reader that is deleted and made anew while the reader is down."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from harness.controls import NotFiredError, OnWire
from harness.faults import TopicMadeAnew
from harness.judge.logs import broken_log
from harness.judge.readers import Readers
from harness.judge.verdict import Kind
from harness.model import events as kinds
from harness.model.history import HISTORY, History, parse_history, read_history
from harness.model.scenario import NotApplicable, Role
from harness.pipelines import failure_points, read_pipeline
from harness.pipelines.cells import aim, cells_of
from harness.pipelines.fixes import WORDS, Advice
from harness.pipelines.silences import is_long, left_out
from harness.proofs.made_anew import BEGAN_ANEW, MadeAnew, made_anew_signs
from harness.protocols.kafka.steps import Api
from harness.report.record import advice
from harness.systems.declared.anew import RemadeTopic
from harness.systems.declared.system import DeclaredSystem
from harness.systems.declared.transport import positions
from harness.wire.rules import Direction
from tests.events import a_history, typed
from tests.judge.recording import steps
from tests.pipelines.test_check import check
from tests.pipelines.test_declaration import GOOD, declared
from tests.pipelines.test_firsts import FOLDER, PROGRAMS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from harness.pipelines.declaration import Pipeline
    from tests.pipelines.scenes import Scenes

POINT = "consumer-topic-made-anew"
LONGER, SHORTER = f"{POINT}-longer", f"{POINT}-shorter"
SENDS = OnWire(Role.PRODUCER, Api.PRODUCE, Direction.REQUEST)
FAULT = TopicMadeAnew(SENDS, Role.CONSUMER)
ELSEWHERE = GOOD.replace('role = "consumer"', 'role = "consumer"\nposition = "elsewhere"')
MADE = {
    "event": "remade",
    "t": 5,
    "topic": "orders",
    "ends": {"0": 4, "1": 0},
    "saved": {"0": 4},
    "left": {},
}
FILLED = {"event": "refilled", "t": 7, "topic": "orders", "ends": {"0": 6, "1": 1}}
BACK = {
    "event": "node",
    "t": 8,
    "phase": "started",
    "node": "consumer",
    "role": "consumer",
    "incarnation": 2,
}
GONE = {
    "event": "removed",
    "t": 4,
    "record": "a",
    "why": "deleted",
    "topic": "orders (deleted)",
    "partition": 0,
    "offset": 0,
}
RECORDED = {"event": "recorded", "t": 9, "record": "a"}


def given(record: str, t: int, partition: int = 0) -> dict[str, Any]:
    """Return the line of the first record of a partition, which reached a reader."""
    return {
        "event": "fetched",
        "t": t,
        "by": "wire",
        "cell": "c",
        "record": record,
        "topic": "orders",
        "partition": partition,
        "offset": 0,
        "epoch": 0,
        "conn": t,
        "reached": True,
    }


def why_not(pipeline: Pipeline, *, attached: bool = False) -> dict[str, str | None]:
    """Say of each such point why it does not apply."""
    found = failure_points(pipeline, attached=attached)
    told = {each.id: each.expect[pipeline.claims] for each in found if POINT in each.id}
    return {
        name: each.because if isinstance(each, NotApplicable) else None
        for name, each in told.items()
    }


def test_who_keeps_its_position_elsewhere_has_two(tmp_path: Path) -> None:
    """These take long, and are priced; a group's positions go with the topic."""
    pipeline = read_pipeline(declared(tmp_path, GOOD))
    assert why_not(pipeline) == {POINT: None}
    [why] = why_not(pipeline, attached=True).values()
    assert why == "lostack makes no topics of an attached cluster anew, or late"
    late = GOOD.replace('role = "consumer"', 'role = "consumer"\nbegins = "end"')
    [why] = why_not(read_pipeline(declared(tmp_path, late))).values()
    assert str(why).startswith('the consumer declares begins = "end"')

    pipeline = read_pipeline(declared(tmp_path, ELSEWHERE))
    assert why_not(pipeline) == {LONGER: None, SHORTER: None}
    long = [each for each in failure_points(pipeline) if POINT in each.id and is_long(each)]
    [said] = left_out(long)
    assert said == (
        f"not run without --all: {LONGER}, {SHORTER}; in each, the topic is made anew, or late "
        "(about 8 s longer)"
    )


def test_the_target_decides_which_topic_is_longer(tmp_path: Path) -> None:
    """In the first half of the load most records come behind it."""
    pipeline = read_pipeline(declared(tmp_path, ELSEWHERE))
    scenarios = [each for each in failure_points(pipeline) if POINT in each.id]
    for seed in range(1, 6):
        cells = {each.scenario.id: each for each in cells_of(pipeline, scenarios, seed=seed)}
        at = {name: aim(cell, {}).load().target.position for name, cell in cells.items()}
        half = pipeline.records // 2
        assert at[LONGER] <= half < at[SHORTER]


def test_both_are_down_while_the_topic_is_made_anew() -> None:
    """Only when everything is done; otherwise nobody is hurt."""
    assert steps(FAULT, SENDS) == [
        "fired",
        "NewTopic.await_done",
        "kill",
        "kill",
        "applied",
        "resolve Produce discard",
        "NewTopic.make_anew",
        "restart",
        "NewTopic.await_filled",
        "restart",
        "healed",
    ]
    assert steps(FAULT) == []
    with pytest.raises(ValueError, match="another stage"):
        TopicMadeAnew(SENDS, Role.PRODUCER)


@pytest.mark.parametrize(
    ("longer", "changed", "said"),
    [
        (None, {}, None),
        (True, {}, None),
        (False, {}, "orders, made anew, had no log that was shorter than before"),
        (False, {"ends": {"0": 2, "1": 0}}, None),
        (True, {"ends": {"0": 4, "1": 9}}, "orders, made anew, had no log that was longer"),
        (False, {"ends": {"0": 0, "1": 1}}, "orders, made anew, had no log that was shorter"),
        (None, {"ends": {"0": 0, "1": 0}}, "orders, made anew, had no record for the consumer"),
        (None, {"t": 9}, "the consumer was not started again behind that"),
    ],
)
def test_the_proof_is_a_new_topic_with_records(
    longer: bool | None, changed: Mapping[str, Any], said: str | None
) -> None:
    """When the reader comes back; how large it is, if that matters."""
    lines = [typed(each) for each in (GONE, MADE, {**FILLED, **changed}, BACK, RECORDED)]
    course: Any = SimpleNamespace(history=a_history(lines))
    found = MadeAnew("consumer", longer).trouble(course)
    assert (found is None) if said is None else str(found).startswith(said)


def test_what_was_deleted_before_it_was_recorded_proves_nothing() -> None:
    """No reader could have kept it. An aborted copy is none."""
    lines = [typed(each) for each in (GONE, MADE, FILLED, BACK)]
    course: Any = SimpleNamespace(history=a_history(lines))
    assert str(MadeAnew("consumer").trouble(course)).startswith("not tried: a went with")
    course.history = a_history([typed(GONE | {"visible": False}), *lines[1:]])
    assert MadeAnew("consumer").trouble(course) is None
    course.history = a_history(lines[2:])
    assert str(MadeAnew("consumer").trouble(course)).startswith("not tried: the topic was not")


def test_a_reader_that_begins_anew_shows_it() -> None:
    """It was given the first record of every log that has one."""
    sent = [
        {"event": "sent", "t": 6, "record": record, "topic": "orders", "partition": partition}
        for record, partition in (("b", 0), ("c", 1))
    ]
    whole = [MADE, *sent, given("b", 10), given("c", 11, 1)]
    assert made_anew_signs(a_history(whole)) == {BEGAN_ANEW: {"b", "c"}}
    assert made_anew_signs(a_history(whole[:-1])) == {}
    assert made_anew_signs(a_history(whole[1:])) == {}


def as_read(*lines: Mapping[str, Any]) -> History:
    """Return the history of a file with these lines."""
    told = [
        {"cell": "c", "by": "wire", "w": each["t"], **each, "line": number}
        for number, each in enumerate(lines, start=1)
    ]
    return parse_history([("wire.jsonl", [b"".join(json.dumps(t).encode() + b"\n" for t in told)])])


def test_two_topics_of_one_name_contradict_nothing() -> None:
    """They use the same offsets; what came before is about the deleted one."""
    plan: Any = SimpleNamespace(forgets=False, sealed=False)
    one, other = given("a", 2), given("b", 10)
    read = as_read(one, MADE, other)
    assert [e.topic for e in read.of(kinds.Fetched)] == ["orders (deleted)", "orders"]
    assert broken_log(plan, read, Readers(read.events)) is None
    read = as_read(one, other)
    said = str(broken_log(plan, read, Readers(read.events)))
    assert "readers were given different records at 0 of orders/0" in said


def test_how_far_the_deleted_one_was_read_is_forgotten(scenes: Scenes) -> None:
    """Or a reader of the new one would seem to have read it."""
    seen = scenes("orders", given("a", 2)).topics_seen
    assert seen.reached("orders") == {0: 0}
    seen.forget("orders")
    assert (seen.reached("orders"), seen.given("orders")) == ({}, 0)


def test_nothing_is_deleted_that_is_not_done(scenes: Scenes, monkeypatch: Any) -> None:
    """The cell proves nothing then."""
    monkeypatch.setattr("harness.systems.declared.anew.DONE_S", 0.05)
    scene, nothing = scenes("orders", fault=FAULT), SimpleNamespace(settled=lambda: False)
    still: Any = nothing
    with pytest.raises(NotFiredError, match="all of orders to be recorded"):
        RemadeTopic(scene, still, still, still, still).await_done()


@pytest.fixture(scope="module")
def system() -> Iterator[DeclaredSystem]:
    """One broker for all. These programs never pause."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(positions, "ELSEWHERE_S", 6.0)
        found = DeclaredSystem(keep=True)
        yield found
        found.close()


@pytest.mark.kafka
@pytest.mark.rest(together=True)
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("of", "point", "means"),
    [
        (FOLDER / "pipeline.toml", POINT, Advice.BEGIN_AT_START),
        (FOLDER / "right.toml", POINT, None),
        (PROGRAMS / "keeps-position" / "pipeline.toml", LONGER, Advice.KNOW_THE_TOPIC),
        (PROGRAMS / "keeps-position" / "right.toml", SHORTER, None),
    ],
)
def test_who_takes_its_position_for_one_in_the_new_topic_loses(
    system: DeclaredSystem, tmp_path: Path, of: Path, point: str, means: Advice | None
) -> None:
    """Who begins anew, as its group has no position or as the topic's id is another, has all."""
    found = check(system, tmp_path, of, point)[point]
    kind = Kind.KEPT if means is None else Kind.BROKEN
    assert (found.verdict.kind, found.verdict.fired) == (kind, 1), found.verdict.reason
    [made] = read_history(found.directory / HISTORY).of(kinds.Remade)
    assert made.left == {}, "the broker deletes positions with their topic"
    if means is None:
        assert BEGAN_ANEW in found.verdict.reason
    else:
        assert found.verdict.by_fault
        assert WORDS[means] in "\n".join(advice(found))
