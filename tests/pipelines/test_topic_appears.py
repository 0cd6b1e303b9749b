"""Proves what a topic does to its reader that is created after the reader was started."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from harness.controls import NotFiredError, OnWire
from harness.faults import TopicAppears
from harness.judge.verdict import Kind
from harness.model import events as kinds
from harness.model.history import HISTORY, read_history
from harness.model.scenario import NotApplicable, Role
from harness.pipelines import failure_points, read_pipeline
from harness.pipelines.fixes import WORDS, Advice
from harness.pipelines.silences import is_long
from harness.proofs.appeared import FOUND_IT, Appeared, appeared_signs
from harness.protocols.kafka.steps import Api
from harness.report.record import advice
from harness.systems.declared.late_topic import CreatedLate
from harness.wire.rules import Direction
from tests.events import a_history, typed
from tests.judge.recording import steps
from tests.pipelines.test_check import check
from tests.pipelines.test_declaration import GOOD, declared
from tests.pipelines.test_firsts import FOLDER

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from harness.systems.declared.system import DeclaredSystem
    from tests.pipelines.scenes import Scenes

POINT = "consumer-topic-appears"
ANSWER = OnWire(Role.PRODUCER, Api.PRODUCE, Direction.RESPONSE)
FAULT = TopicAppears(ANSWER, Role.CONSUMER)
ASKED = {"event": "frame", "t": 2, "role": "consumer", "api": "Metadata", "dir": "response"}
MADE = {"event": "appeared", "t": 4, "topic": "orders"}
FILLED = {"event": "refilled", "t": 6, "topic": "orders", "ends": {"0": 1, "1": 0}}
FETCHES = {"event": "frame", "t": 8, "role": "consumer", "api": "Fetch", "dir": "request"}
GIVEN = {
    "event": "fetched",
    "t": 9,
    "record": "a",
    "topic": "orders",
    "partition": 0,
    "offset": 0,
    "reached": True,
}


def test_it_is_long_and_for_readers_that_somebody_sends_to(tmp_path: Path) -> None:
    """No topic of an attached cluster is created late."""
    pipeline = read_pipeline(declared(tmp_path, GOOD))
    [point] = [each for each in failure_points(pipeline) if each.id == POINT]
    assert point.fault == FAULT
    assert is_long(point)
    assert not isinstance(point.expect[pipeline.claims], NotApplicable)
    [point] = [each for each in failure_points(pipeline, attached=True) if each.id == POINT]
    assert isinstance(point.expect[pipeline.claims], NotApplicable)
    with pytest.raises(ValueError, match="another stage"):
        TopicAppears(ANSWER, Role.PRODUCER)


def test_the_reader_is_there_before_its_topic() -> None:
    """Nobody is hurt."""
    assert steps(FAULT, ANSWER) == ["NewTopic.appear consumer", "fired", "healed"]
    assert steps(FAULT) == ["NewTopic.appear consumer"]


@pytest.mark.parametrize(
    ("at", "changed", "said"),
    [
        (0, {}, None),
        (0, {"t": 5}, "the consumer was not told that orders is not there"),
        (0, {"role": "producer"}, "the consumer was not told that orders is not there"),
        (2, {"ends": {"0": 0}}, "orders had no record when the consumer heard of it"),
        (3, {"t": 5}, "the consumer heard of orders before it had a record"),
    ],
)
def test_the_proof_is_what_the_reader_was_told(
    at: int, changed: Mapping[str, Any], said: str | None
) -> None:
    """First that its topic is not there, then, when it has records, that it is."""
    lines: list[dict[str, Any]] = [ASKED, MADE, FILLED, FETCHES]
    lines[at] = {**lines[at], **changed}
    course: Any = SimpleNamespace(history=a_history(map(typed, lines)))
    assert Appeared("consumer").trouble(course) == said
    course.history = a_history(map(typed, [ASKED, FETCHES]))
    assert str(Appeared("consumer").trouble(course)).startswith("not tried")


def test_a_reader_that_begins_at_the_start_shows_it() -> None:
    """It was given the first record of each partition that had one."""
    assert appeared_signs(a_history([MADE, FILLED, GIVEN])) == {FOUND_IT: {"a"}}
    for lines in (
        [MADE, FILLED],
        [MADE, GIVEN],
        [FILLED, GIVEN],
        [MADE, FILLED, GIVEN | {"offset": 1}],
    ):
        assert appeared_signs(a_history(lines)) == {}


def test_a_reader_that_never_asks_proves_nothing(scenes: Scenes, monkeypatch: Any) -> None:
    """The topic is not created then."""
    monkeypatch.setattr("harness.systems.declared.late_topic.ASKS_S", 0.05)
    armed: list[Any] = []
    wire = SimpleNamespace(arm=lambda *given: armed.append(given))
    controls: Any = SimpleNamespace(wire=wire, undo=lambda _: None)
    node: Any = SimpleNamespace(start=lambda: None)
    late = CreatedLate(scenes("orders"), controls, {Role.CONSUMER: node}, lambda: None)
    with pytest.raises(NotFiredError, match="the consumer to ask for its topic"):
        late.appear(Role.CONSUMER)
    assert len(armed) == 1


@pytest.mark.kafka
@pytest.mark.rest(together=True)
@pytest.mark.timeout(600)
@pytest.mark.parametrize("of", ["pipeline.toml", "right.toml"])
def test_who_begins_at_the_end_of_a_new_topic_loses_its_first_records(
    system: DeclaredSystem, tmp_path: Path, of: str
) -> None:
    """They are there when the reader hears of the topic; who begins at the start has them."""
    found = check(system, tmp_path, FOLDER / of, POINT)[POINT]
    wrong = of == "pipeline.toml"
    kind = Kind.BROKEN if wrong else Kind.KEPT
    assert (found.verdict.kind, found.verdict.fired) == (kind, 1), found.verdict.reason
    assert list(read_history(found.directory / HISTORY).of(kinds.Appeared))
    if wrong:
        assert found.verdict.by_fault
        assert WORDS[Advice.BEGIN_AT_START] in "\n".join(advice(found))
    else:
        assert FOUND_IT in found.verdict.reason
