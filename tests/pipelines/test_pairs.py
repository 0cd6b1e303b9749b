"""Which pairs of faults a check plans: by what was asked for, and by what the stages do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.faults import Answer, Drop, Kill, Terminate, Twice
from harness.matrix.checking import Check
from harness.model.scenario import NotApplicable
from harness.model.semantics import Semantic
from harness.pipelines import read_pipeline
from harness.pipelines.failure_points import failure_points
from harness.pipelines.pairs import FEW, MORE, Paired, Pairs
from harness.pipelines.traffic import StageTraffic
from harness.protocols.kafka.steps import Api
from harness.wire.rules import Direction
from tests.pipelines.test_checking import PlayedDeclared
from tests.pipelines.traffic import traffic

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.model.scenario import Scenario
    from harness.pipelines.declaration import Pipeline

EXAMPLES = Path(__file__).parents[2] / "examples"
ORDERS = read_pipeline(EXAMPLES / "orders" / "pipeline.toml")
ASKED: Mapping[str, StageTraffic] = traffic(
    producer={"Produce"}, consumer={"Fetch", "OffsetCommit"}
)
NAMES = {pair.id for pair in FEW + MORE}


def planned(
    pipeline: Pipeline = ORDERS, asked: Mapping[str, StageTraffic] = ASKED, **paired: object
) -> dict[str, Scenario]:
    """Return the pairs of a pipeline by their names."""
    of = replace(Paired(Pairs.FEW, {"producer": 8, "consumer": 8}), **paired)  # type: ignore[arg-type]  # fields by their names
    return {
        each.id: each
        for each in failure_points(pipeline, asked, paired=of)
        if each.failure_point in NAMES
    }


def why_not(scenario: Scenario) -> str | None:
    """Return why a point does not apply."""
    [expectation] = scenario.expect.values()
    return expectation.because if isinstance(expectation, NotApplicable) else None


def test_the_few_are_planned_and_all_only_if_they_are_asked_for() -> None:
    assert list(planned()) == [pair.id for pair in FEW]
    assert list(planned(which=Pairs.ALL)) == [pair.id for pair in FEW + MORE]
    assert planned(which=Pairs.NONE) == {}
    assert not [each for each in planned().values() if why_not(each)]


def test_each_kind_of_pair_is_among_the_few() -> None:
    """Refused and killed, told to end and killed, killed twice at one record, answer lost and
    killed.
    """
    found = {name: each.fault for name, each in planned().items()}
    twice: dict[str, Any] = {name: each for name, each in found.items() if isinstance(each, Twice)}
    firsts = {type(each.first) for each in twice.values()}
    assert firsts == {Answer, Kill, Drop}
    assert all(isinstance(each.second, Kill) for each in twice.values())
    since = {name: each.second.at.since for name, each in twice.items()}
    assert since == {
        name: None if isinstance(each.first, Kill) else each.first.at
        for name, each in twice.items()
    }
    assert {
        each.second.at.occurrence for each in twice.values() if isinstance(each.first, Kill)
    } == {2}
    told = [each for each in found.values() if isinstance(each, Terminate)]
    assert {(each.at.api, each.dies.api) for each in told if each.dies} == {
        (Api.PRODUCE, Api.PRODUCE),
        (Api.FETCH, Api.OFFSET_COMMIT),
    }
    assert {each.dies.direction for each in told if each.dies} == {Direction.REQUEST}


def test_a_request_of_one_record_cannot_be_split() -> None:
    """A client that is refused for its size then has nothing to send in parts: the pair would only
    find out that a record which is too large is not stored.
    """
    name = "refused-too-large-then-killed"
    assert why_not(planned(units=None)[name]) is None
    told = why_not(planned(units={"producer": 1})[name])
    assert told == "the producer sent each record in a request of its own, which cannot be split"


def test_who_may_lose_need_not_send_again() -> None:
    """So the second death at the record might never come."""
    once = planned(replace(ORDERS, claims=Semantic.AT_MOST_ONCE))
    assert "need not send the record again" in str(why_not(once["killed-twice-while-sending"]))
    assert why_not(once["killed-twice-behind-work"]) is None


def test_a_reader_that_saves_its_position_elsewhere_has_none_of_its_pairs() -> None:
    found = planned(asked={**ASKED, **traffic(consumer={"Fetch"})})
    reasons = {name: why_not(each) for name, each in found.items() if why_not(each)}
    assert set(reasons) == {
        "told-to-end-while-reading-then-killed",
        "killed-twice-behind-work",
        "commit-answer-lost-then-killed",
    }
    assert set(reasons.values()) == {"the dry run saw no OffsetCommit request of the consumer"}


def test_one_process_of_several_has_none() -> None:
    """Nobody can tell whether the next request is its own. A stage is told to end as a whole."""
    stages = tuple(replace(stage, crash="process") for stage in ORDERS.stages)
    found = planned(replace(ORDERS, stages=stages))
    assert {name for name, each in found.items() if "cannot tell" in str(why_not(each))} == {
        name for name, each in found.items() if isinstance(each.fault, Twice)
    }


def test_a_queue_has_no_pairs_yet() -> None:
    parcels = read_pipeline(EXAMPLES / "parcels" / "pipeline.toml")
    points = failure_points(parcels, paired=Paired(Pairs.ALL))
    assert not [each for each in points if each.failure_point in NAMES]


@pytest.mark.parametrize("pairs", Pairs)
def test_a_check_plans_the_pairs_that_it_was_asked_for(pairs: Pairs, tmp_path: Path) -> None:
    """By its option; whoever names a pair has it, whatever the option says."""
    seen = {
        "producer": StageTraffic(("p",), 1, {"Produce": 9}, {"Produce": 9}, unit=8),
        "consumer": StageTraffic(
            ("c",), 1, {"Fetch": 9, "OffsetCommit": 9}, {"Fetch": 9, "OffsetCommit": 9}, unit=8
        ),
    }
    check = Check(ORDERS, PlayedDeclared(), tmp_path, "test", pairs=pairs)  # type: ignore[arg-type]  # a stand-in
    cells, _ = check.plan(seen)
    few = {"none": 0, "few": len(FEW), "all": len(FEW + MORE)}
    assert len({cell.scenario.id for cell in cells} & NAMES) == few[pairs]
    [cell], _ = check.plan(seen, ["killed-twice-before-delivery"])
    assert isinstance(cell.scenario.fault, Twice)
