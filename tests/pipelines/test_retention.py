"""Retention that passes a reader: what is deleted, what proves it, and who loses records by it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from harness.controls import NotFiredError, OnWire
from harness.faults import RetentionPasses
from harness.judge.verdict import Kind
from harness.model import events as kinds
from harness.model.history import HISTORY, read_history
from harness.model.scenario import NotApplicable, Role
from harness.pipelines import failure_points, read_pipeline
from harness.pipelines.fixes import WORDS, Advice
from harness.proofs.retention import WENT_ON, Passed, retention_signs
from harness.protocols.kafka.steps import Api
from harness.report.record import advice
from harness.systems.declared.retention import DeletedRecords
from harness.wire.rules import Direction
from tests.events import a_history, typed
from tests.judge.recording import played
from tests.pipelines.test_check import check
from tests.pipelines.test_declaration import GOOD, declared
from tests.pipelines.test_firsts import FOLDER

if TYPE_CHECKING:
    from pathlib import Path

    from harness.systems.declared.system import DeclaredSystem
    from tests.pipelines.scenes import Scenes

POINT = "retention-passes-position"
COMMITS = OnWire(Role.CONSUMER, Api.OFFSET_COMMIT, Direction.REQUEST)
OVERRUN = {
    "event": "overrun",
    "t": 5,
    "record": "a",
    "topic": "orders",
    "partition": 1,
    "saved": 7,
    "start": 8,
    "end": 9,
}
BACK = {
    "event": "node",
    "t": 6,
    "phase": "started",
    "node": "consumer",
    "role": "consumer",
    "incarnation": 2,
}
REMOVED = {
    "event": "removed",
    "t": 9,
    "record": "a",
    "why": "retention",
    "topic": "orders",
    "partition": 1,
    "offset": 7,
}
RECORDED = {"event": "recorded", "t": 9, "record": "a"}
GIVEN = {"event": "fetched", "t": 7, "record": "b", "topic": "orders", "partition": 1, "offset": 8}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("", "", None),
        (
            'claims = "at-least-once"',
            'claims = "at-most-once"',
            "its position is saved before the work, and is never behind what is done",
        ),
        (
            'role = "consumer"',
            'role = "consumer"\nbegins = "end"',
            'the consumer declares begins = "end": what was there before is not its own',
        ),
    ],
)
def test_a_reader_has_it_that_saves_its_position_behind_the_work(
    tmp_path: Path, old: str, new: str, said: str | None
) -> None:
    pipeline = read_pipeline(declared(tmp_path, GOOD.replace(old, new) if old else GOOD))
    [point] = [each for each in failure_points(pipeline) if each.id == POINT]
    expected = point.expect[pipeline.claims]
    assert (expected.because if isinstance(expected, NotApplicable) else None) == said
    assert point.fault == RetentionPasses(COMMITS)
    [point] = [each for each in failure_points(pipeline, attached=True) if each.id == POINT]
    assert isinstance(point.expect[pipeline.claims], NotApplicable), "nobody else's records go"


def test_records_go_while_their_reader_is_dead() -> None:
    """After its death, before its successor."""
    assert played(RetentionPasses(COMMITS)).done == [
        "arm fault",
        "armed",
        "fired",
        "kill",
        "applied",
        "resolve OffsetCommit discard",
        "Retention.expire",
        "restart",
        "healed",
    ]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, None),
        ({"saved": None}, None),
        ({"saved": 8}, "the consumer had saved position 8 of orders/1, and the log began at 8: "),
        ({"end": 8}, "orders/1 had no newer record for the consumer"),
        ({"t": 7}, "the consumer was not started again behind the retention"),
    ],
)
def test_the_proof_is_a_log_that_begins_behind_the_position(
    changed: dict[str, Any], said: str | None
) -> None:
    """And has more, when the reader comes back."""
    lines = [typed(each) for each in (OVERRUN | changed, BACK, REMOVED, RECORDED)]
    course: Any = SimpleNamespace(history=a_history(lines))
    found = Passed("consumer").trouble(course)
    assert (found is None) if said is None else str(found).startswith(said)


def test_what_was_deleted_before_it_was_recorded_proves_nothing() -> None:
    """No reader could have kept it."""
    lines = [typed(each) for each in (OVERRUN, BACK, REMOVED)]
    course: Any = SimpleNamespace(history=a_history(lines))
    assert str(Passed("consumer").trouble(course)).startswith("not tried: a was deleted")
    course.history = a_history(lines[1:])
    assert Passed("consumer").trouble(course) == "retention deleted nothing"


def test_a_reader_that_goes_on_with_what_is_left_shows_it() -> None:
    given = GIVEN | {"reached": True}
    assert retention_signs(a_history([OVERRUN, given])) == {WENT_ON: {"a"}}
    for other in ({"reached": False}, {"offset": 9}, {"t": 4}, {"topic": "others"}):
        assert retention_signs(a_history([OVERRUN, given | other])) == {}
    assert retention_signs(a_history([given])) == {}


def test_where_the_target_is_must_have_been_seen(scenes: Scenes) -> None:
    scene, feed = scenes("orders"), SimpleNamespace(release=lambda: None)
    given: Any = feed
    fault: Any = RetentionPasses(COMMITS)
    object.__setattr__(scene.cell.scenario, "fault", fault)
    with pytest.raises(NotFiredError, match="did not see where"):
        DeletedRecords(scene, given).expire()


@pytest.mark.kafka
@pytest.mark.rest(together=True)
@pytest.mark.timeout(600)
@pytest.mark.parametrize("of", ["pipeline.toml", "right.toml"])
def test_who_begins_at_the_end_loses_what_retention_has_left(
    system: DeclaredSystem, tmp_path: Path, of: str
) -> None:
    """Its position is out of range: from the start it goes on, from the end it skips."""
    found = check(system, tmp_path, FOLDER / of, POINT)[POINT]
    wrong = of == "pipeline.toml"
    kind = Kind.BROKEN if wrong else Kind.KEPT
    assert (found.verdict.kind, found.verdict.fired) == (kind, 1), found.verdict.reason
    [told] = read_history(found.directory / HISTORY).of(kinds.Overrun)
    assert told.saved is not None
    assert told.saved < told.start < told.end
    assert bool(found.judgement.account.lost) is wrong
    if wrong:
        assert found.verdict.by_fault
        assert WORDS[Advice.BEGIN_AT_START] in "\n".join(advice(found))
    else:
        assert WENT_ON in found.verdict.reason
