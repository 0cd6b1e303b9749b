"""When a query whose position is saved before the work has nothing in hand."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from harness.model.semantics import Semantic
from harness.stages.queries import STREAM_TO_DELTA
from harness.stages.settings import recipe
from harness.systems.spark.query import Query

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("semantic", "folder"),
    [(Semantic.AT_MOST_ONCE, "checkpoint/driver-2"), (Semantic.AT_LEAST_ONCE, "checkpoint")],
)
def test_a_planned_batch_is_in_hand_until_it_is_committed(
    tmp_path: Path, semantic: Semantic, folder: str
) -> None:
    """The saved position does not say it: with at-most-once it is past the batch before the work.
    Asked too early, the sink would say that the last batch is lost.
    """
    scene: Any = SimpleNamespace(directory=tmp_path, settings=recipe(STREAM_TO_DELTA, semantic))
    query = Query.__new__(Query)
    query._scene = scene
    query.driver = SimpleNamespace(stage=SimpleNamespace(writer="driver-2"))  # type: ignore[assignment]
    assert query.batch_trouble() is None, "nothing is planned"
    log = tmp_path / folder
    for name in ("offsets", "commits"):
        (log / name).mkdir(parents=True)
    (log / "offsets" / "0").write_text(f"v1\n{{}}\n{json.dumps({'in': {'0': 8}})}")
    assert query.batch_trouble() == "a batch is not committed yet"
    (log / "commits" / "0").write_text("v1\n{}")
    assert query.batch_trouble() is None
