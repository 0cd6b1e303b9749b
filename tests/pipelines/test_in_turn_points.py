"""Which points strike several records in turn, which records these are, and when the next one is
aimed at.
"""

from __future__ import annotations

import itertools
import json
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from harness.controls import NotFiredError, OnWire
from harness.faults import InTurn
from harness.faults.in_turn import TARGETS
from harness.matrix.checking import Check
from harness.model.scenario import NotApplicable, Role
from harness.pipelines import failure_points, read_pipeline
from harness.pipelines.cells import aim, cells_of
from harness.pipelines.shares import Share, with_targets
from harness.pipelines.silences import is_long
from harness.protocols.kafka.steps import Api
from harness.systems.declared import turns
from harness.systems.declared.system import DeclaredSystem
from harness.systems.declared.turns import TargetsInTurn
from harness.wire.rules import Direction
from tests.judge.recording import kill_on_wire
from tests.pipelines.scenes import EXAMPLES
from tests.pipelines.traffic import traffic

if TYPE_CHECKING:
    from pathlib import Path

    from harness.model.scenario import Scenario
    from harness.pipelines.declaration import Pipeline
    from tests.pipelines.scenes import Scenes

ORDERS = read_pipeline(EXAMPLES / "orders" / "pipeline.toml")
NAMES = {
    f"{name}-in-turn"
    for name in (
        "producer-crash-before-send",
        "producer-crash-before-ack",
        "commit-lost",
        "commit-ack-lost",
    )
}
SEEN = traffic(producer=("Produce",), consumer=("Fetch", "OffsetCommit"))
DIES = kill_on_wire(OnWire(Role.CONSUMER, Api.OFFSET_COMMIT, Direction.REQUEST), Role.CONSUMER)


def points(pipeline: Pipeline = ORDERS) -> dict[str, Scenario]:
    """Return the points of this kind by their names."""
    found = failure_points(pipeline, SEEN)
    return {each.id: each for each in found if isinstance(each.fault, InTurn)}


def why_not(expected: object) -> str:
    """Say why something does not apply."""
    assert isinstance(expected, NotApplicable)
    return expected.because


def test_they_are_left_to_all() -> None:
    found = points()
    assert {*found} == NAMES
    for each in found.values():
        assert is_long(each)
        assert each.because.endswith(f"another record, {TARGETS} in all.")
        assert NotApplicable not in map(type, each.expect.values())


def test_what_cannot_be_kept_back_is_not_struck_in_turn() -> None:
    for each in points(read_pipeline(EXAMPLES / "readings" / "pipeline.toml")).values():
        assert "has all records from the start" in why_not(*each.expect.values())
    stages = tuple(replace(each, crash="process") for each in ORDERS.stages)
    for each in points(replace(ORDERS, stages=stages)).values():
        assert "which is the next one's is not known" in why_not(*each.expect.values())


@pytest.mark.parametrize("seed", range(1, 6))
def test_each_wave_has_a_target_with_a_record_behind_it(seed: int) -> None:
    for cell in cells_of(ORDERS, points().values(), seed=seed):
        load = aim(cell, {}).load()
        waves = with_targets(cell.records, TARGETS, None)
        assert load.target is load.targets[0]
        assert len(load.targets) == TARGETS
        for target, wave in zip(load.targets, waves, strict=True):
            assert target in load.records
            assert target.position in wave[:-1]


def test_targets_are_of_the_records_that_come_there() -> None:
    share = {"consumer": Share(frozenset(range(2, 49, 2)), frozenset(), 48)}
    for cell in cells_of(ORDERS, points().values()):
        if cell.scenario.id.startswith("commit"):
            assert all(each.position % 2 == 0 for each in aim(cell, share).load().targets)
    some = {"consumer": Share(frozenset(range(1, 25)), frozenset(), 48)}
    [cell] = cells_of(ORDERS, [points()["commit-lost-in-turn"]])
    why = why_not(aim(cell, some).expectation)
    assert "too few of 48 records come there" in why
    assert "records = 96" in why
    [cell] = cells_of(replace(ORDERS, records=24), [points()["commit-lost-in-turn"]])
    assert "set records = 33" in why_not(aim(cell, {}).expectation)


SEVERAL = """
claims = "at-least-once"
topics = %(topics)s
[[stage]]
role = "consumer"
command = "cat"
[input]
kind = "topic"
topics = %(topics)s
[output]
kind = "command"
command = "cat"
"""


@pytest.mark.parametrize(("count", "long"), [(2, False), (3, True), (4, False)])
def test_a_topic_without_records_in_a_wave_is_not_struck_there(
    tmp_path: Path, *, count: int, long: bool
) -> None:
    """The plan says so; of every other point the target is a record of its topic."""
    file = tmp_path / "pipeline.toml"
    file.write_text(SEVERAL % {"topics": json.dumps([*"abcd"[:count]])}, encoding="utf-8")
    reasons = set()
    for seed, records in itertools.product(range(1, 6), (12, 48)):
        declared = replace(read_pipeline(file), records=records)
        check = Check(declared, DeclaredSystem(), tmp_path, "test", seed=seed, long=long)
        for only in ((), ("commit-lost-in-turn",)):
            cells, rest = check.plan(SEEN, only)
            assert cells or only
            for cell in cells:
                load, of = cell.load(), cell.topic_of()
                for target in load.targets or (load.target,):
                    assert cell.scenario.topic in ("", of[target.id])
            reasons |= {
                why_not(each.expectation)
                for each in rest
                if isinstance(each.scenario.fault, InTurn)
            }
    assert any("too few of 48 records come there to strike" in each for each in reasons)
    assert all("records = " in each for each in reasons if "too few" in each)


def test_the_next_is_aimed_at_when_all_that_was_offered_is_at_rest(
    scenes: Scenes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rule of the record before is disarmed; a program that has ended meanwhile is started."""
    scene = scenes("orders", fault=InTurn(DIES, 2))
    first, second = scene.load.targets
    done: list[str] = []
    looks: list[dict[str, Any]] = [
        {"waits": False, "settled": True, "ago": 10},
        {"waits": True, "settled": False, "ago": 10},
        {"waits": True, "settled": True, "ago": 0},
        {"waits": True, "settled": True, "ago": 10},
    ]
    now = iter(looks)
    at = looks[0]

    def supervise() -> None:
        nonlocal at
        at = next(now)
        done.append("look")

    monkeypatch.setattr(
        type(scene.records_seen),
        "last",
        property(lambda _: time.monotonic_ns() - at["ago"] * 10**9),
    )
    watching = SimpleNamespace(
        look=lambda: None,
        supervise=supervise,
        is_settled=lambda: at["settled"],
        fire_s=0.0,
        advance=lambda: len(done),
    )
    controls: Any = SimpleNamespace(watching=watching, disarm=lambda: done.append("disarm"))

    class Feed:
        def go_on(self) -> None:
            done.append("go on")

        @property
        def waits(self) -> bool:
            return bool(at["waits"])

    feed: Any = Feed()
    ability = TargetsInTurn(scene, controls, feed)
    assert ability.aim(0) == first.id
    assert done == []
    ability.await_rest()
    assert done == ["look"] * 4
    assert ability.aim(1) == second.id
    assert scene.load.target is second
    ability.go_on()
    assert done[4:] == ["disarm", "go on"]
    monkeypatch.setattr(turns, "FIRE_S", 0.0)
    looks[3]["settled"] = False
    now = iter([looks[3]] * 1000)
    watching.advance = lambda: 0
    with pytest.raises(NotFiredError):
        ability.await_rest()
