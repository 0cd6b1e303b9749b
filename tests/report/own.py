"""A run of a pipeline of somebody's own, made by hand: a record twice, one lost, a stage that
failed, and what does not apply.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from harness.matrix.selection import not_run
from harness.model.plan import plan_of
from harness.model.scenario import NotApplicable
from harness.pipelines import read_pipeline
from harness.pipelines.cells import cells_of
from harness.pipelines.failure_points import failure_points
from harness.saved import CellResult, RunInfo, SavedRun, judge_cell
from tests.judge.growing import end
from tests.pipelines.traffic import traffic
from tests.report.lively import told_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.pipelines.cells import DeclaredCell

ORDERS = Path(__file__).parents[2] / "examples" / "orders" / "pipeline.toml"
SEEN = traffic(producer=("Produce",), consumer=("Fetch", "OffsetCommit"))
"""What a dry run would show."""
QUERY = "postgres SELECT id FROM orders -- <b>"
LIBRARY = "librdkafka 2.6.1"
LAST = 'psycopg.OperationalError: connection refused <img src=x onerror="window.hacked=1">'
SAID = ["Traceback (most recent call last):", LAST]


def count_without() -> int:
    """Return how many failure points ``examples/orders`` cannot have."""
    points = failure_points(read_pipeline(ORDERS), SEEN)
    return sum(
        all(isinstance(each, NotApplicable) for each in point.expect.values()) for point in points
    )


def own_run(directory: Path) -> SavedRun:
    """Write three cells of ``examples/orders`` below a folder, and return the run: kept, broken,
    and void (a stage ended).
    """
    pipeline = read_pipeline(ORDERS)
    cells = cells_of(pipeline, failure_points(pipeline, SEEN))
    named = {cell.scenario.id: cell for cell in cells}
    drop = named["ack-lost"].scenario
    twice, lost, ended = (
        replace(
            named[name],
            scenario=replace(
                drop, id=name, failure_point=name, because=named[name].scenario.because
            ),
        )
        for name in ("ack-lost", "commit-ack-lost", "commit-lost")
    )
    results = (
        _cell(directory, twice),
        _cell(directory, lost, without=("recorded",)),
        _cell(directory, ended, failing=True),
    )
    rest = tuple(not_run(cell) for cell in cells if isinstance(cell.expectation, NotApplicable))
    info = RunInfo(
        id="20261121-120000",
        started="2026-11-21T12:00:00+00:00",
        seconds=12.5,
        complete=True,
        planned=tuple(one.plan.id for one in results),
        not_applicable=rest,
        seeds=(1,),
        records=48,
        versions={"observer (kafka-python)": "3.0.12", "kafka": "4.3.0"},
        machine={"cores": "2"},
        command="lostack check examples/orders/pipeline.toml",
    )
    info.save(directory)
    return SavedRun(directory, info, results, ())


def _cell(
    directory: Path, cell: DeclaredCell, *, without: Iterable[str] = (), failing: bool = False
) -> CellResult:
    """Write a cell in which the target is stored twice, but for lines of these kinds about it;
    ``failing``: a stage ends.
    """
    plan = replace(plan_of(cell), logs={"topic": 1})
    folder = directory / "cells" / plan.id.replace("/", ".")
    lines = [
        json.loads(line) for line in told_of(plan, [record.id for record in cell.load().records])
    ]
    kept = [
        line for line in lines if line["event"] not in without or line.get("record") != plan.target
    ]
    about = {name: value for name, value in kept[0].items() if name not in {"phase", "seal"}}
    says = {
        "event": "frame",
        "by": "wire",
        "dir": "request",
        "api": "ApiVersions",
        "version": 4,
        "corr": 0,
        "size": 51,
    }
    first = [
        about
        | says
        | {"conn": conn, "role": role, "node": "broker-1", "client": "rdkafka", "software": LIBRARY}
        for conn, role in ((1, "producer"), (2, "consumer"))
    ]
    if failing:
        life = {
            "node": "consumer",
            "role": "consumer",
            "incarnation": 1,
            "phase": "exited",
            "pid": 100,
            "status": 1,
        }
        first.append(
            about
            | {"event": "failed", "by": "runner", "because": "the consumer cannot do its work"}
        )
        first.append(about | {"event": "node", "by": "runner", **life})
        (folder / "logs").mkdir(parents=True)
        (folder / "logs" / "consumer.log").write_text("\n".join(SAID) + "\n", encoding="utf-8")
    if without:
        asked = next(n for n, line in enumerate(kept) if line["event"] == "log")
        rows = sum(line["event"] == "recorded" for line in kept)
        read = {"event": "output_read", "by": "observer", "asked": QUERY, "rows": rows}
        kept.insert(asked, about | read | {"t": kept[asked]["t"] - 5})
    (folder / "history").mkdir(parents=True)
    (folder / "cell.json").write_text(plan.to_json(), encoding="utf-8")
    text = "\n".join(map(json.dumps, (kept[0], *first, *kept[1:])))
    (folder / "history" / "all.jsonl").write_text(text + "\n", encoding="utf-8")
    end(folder / "history")
    return judge_cell(folder)
