"""What is tried of a consumer that saves its positions in transactions, as a sink of Kafka Connect
may, and what it says to itself meanwhile.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from harness.matrix.seen import seen_in
from harness.model.scenario import Edge, NotApplicable
from harness.pipelines import read_pipeline
from harness.pipelines.dialects import Moment
from harness.pipelines.failure_points import failure_points
from tests.pipelines.traffic import traffic

if TYPE_CHECKING:
    from harness.pipelines.declaration import Pipeline
    from harness.saved import CellResult

ENDS = (
    "consumer-transaction-crash-before-commit",
    "consumer-transaction-crash-before-commit-ack",
    "consumer-first-commit-answer-lost",
)
FIRST = ENDS[-1]


@pytest.fixture
def pipeline() -> Pipeline:
    """Its consumer may do what a test says."""
    return read_pipeline(Path(__file__).parents[2] / "examples" / "orders" / "pipeline.toml")


def reasons(pipeline: Pipeline, **moments: Moment) -> dict[str, str | None]:
    """Return why each point is not tried, or ``None``. ``moments``: one that each stage had."""
    asked = ("Fetch", "TxnOffsetCommit", "EndTxn")
    seen = traffic(producer=("Produce",), consumer=asked)
    for role, moment in moments.items():
        seen[role] = dataclasses.replace(seen[role], moments={moment: "EndTxn"})
    expected = {point.id: point.expect[pipeline.claims] for point in failure_points(pipeline, seen)}
    return {
        name: each.because if isinstance(each, NotApplicable) else None
        for name, each in expected.items()
    }


def test_a_consumer_is_killed_where_its_positions_transactions_end(pipeline: Pipeline) -> None:
    """The producer, which has none, is not; and a position by itself is none of its."""
    found = reasons(pipeline, consumer=Moment.COMMIT)
    assert [found[name] for name in ENDS] == [None, None, None]
    assert found["transaction-crash-before-commit"]
    assert found["commit-lost"] == (
        "the dry run saw no OffsetCommit request of the consumer: it saves its position in its "
        "transactions"
    )


def test_what_ends_transactions_without_a_record_has_no_such_point(pipeline: Pipeline) -> None:
    """As one that only tells itself something."""
    assert not set(ENDS) & set(reasons(pipeline))


def test_the_first_position_is_that_behind_the_first_record(pipeline: Pipeline) -> None:
    seen = traffic(consumer=("Fetch", "EndTxn"))
    seen["consumer"] = dataclasses.replace(
        seen["consumer"], moments={Moment.COMMIT_ANSWER: "EndTxn", Moment.COMMIT: "EndTxn"}
    )
    found = {point.id: point for point in failure_points(pipeline, seen)}
    assert found[FIRST].edge is Edge.FIRST


@pytest.mark.parametrize(
    ("topic", "counted"), [("orders", True), ("__loaded", True), ("__iceberg-control", False)]
)
def test_a_position_where_a_program_speaks_to_itself_is_none_of_the_load(
    tmp_path: Path, topic: str, counted: bool
) -> None:
    """No record is behind it: a fault there would never strike."""
    where = {"group": "g", "partition": 0, "offset": 400, "topic": topic}
    header: dict[str, Any] = {"conn": 7, "role": "consumer", "api": "OffsetCommit", "corr": 3}
    lines = [
        {"event": "frame", "dir": "request", **header},
        {"event": "frame", "dir": "response", **header},
        {"event": "frame", "dir": "request", **header, "api": "Fetch", "corr": 4},
        {"event": "fetched", "record": "k0-1", "topic": "__loaded", "conn": 7},
        {"event": "committed", "request": "7:3", **where},
    ]
    folder = tmp_path / "history"
    folder.mkdir()
    written = (
        {"t": at, "w": at, "cell": "c", "by": "wire", **line} for at, line in enumerate(lines)
    )
    (folder / "wire.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in written))
    plan = SimpleNamespace(target="k0-1")
    found = seen_in(cast("CellResult", SimpleNamespace(directory=tmp_path, plan=plan)))
    assert ("OffsetCommit" in found["consumer"].steps) is counted
    assert found["consumer"].unit == (400 if counted else 0)
