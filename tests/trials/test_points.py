"""The points of a wire: from the tables, at frames that were seen, drawn in the middle."""

from __future__ import annotations

from harness.protocols.kafka.steps import STEPS, Api
from harness.proxy.asking import asked_for, rule_of
from harness.trials.points import NEVER, Step, points, steps
from harness.wire.rules import Direction

REQUEST, RESPONSE = Direction.REQUEST, Direction.RESPONSE
EVERYTHING = [(name, way) for name, way in STEPS]


def test_each_point_is_a_rule_of_the_wire() -> None:
    for topics in ((), ("orders", "results")):
        for step in steps(EVERYTHING, topics):
            rule_of("f1", asked_for(step.asked("cut", NEVER)))
        found = points(dict.fromkeys(steps(EVERYTHING, topics), 9), 1)
        names = [point.id for point in found]
        assert len(set(names)) == len(names)
        for point in found:
            rule_of("f1", asked_for(point.asked))
    assert "produce-answer-orders-lost" in names
    assert "offsetcommit-request-results-refused-rebalance-in-progress" in names


def test_the_name_of_a_point_is_one_of_a_file() -> None:
    assert Step(Api.PRODUCE, REQUEST, "../x y").name == "produce-request-.._x_y"


def test_there_are_points_only_where_frames_were_seen() -> None:
    assert [*steps([("Metadata", REQUEST), ("api-75", REQUEST)], ())] == []
    [step] = steps([("Produce", RESPONSE)], ())
    assert points({step: 0}, 1) == ()
    assert [point.id for point in points({step: 3}, 1)] == [
        "produce-answer-lost",
        "produce-answer-silent",
    ]


def test_the_target_is_drawn_from_the_middle_third() -> None:
    step = Step(Api.PRODUCE, REQUEST)
    drawn = {points({step: 30}, seed)[0].asked["nth"] for seed in range(200)}
    assert drawn == set(range(10, 21))
    for count in range(1, 30):
        nth = points({step: count}, 1)[0].asked["nth"]
        assert isinstance(nth, int)
        assert 1 <= nth <= count
