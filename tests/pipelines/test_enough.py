"""How many records the cells have where a producer has all of them from the start; without a
broker.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from harness.matrix import checking
from harness.matrix.checking import Check
from harness.matrix.explaining import explanation
from harness.matrix.seen import enough, unit_of
from harness.model import events as kinds
from harness.pipelines import read_pipeline
from harness.pipelines.traffic import Owner, StageTraffic
from harness.systems.declared.system import DeclaredSystem
from tests.events import typed
from tests.narrow import narrow

if TYPE_CHECKING:
    from harness.matrix.listener import Progress
    from harness.matrix.runner import RunPlan
    from harness.pipelines.declaration import Pipeline

EXAMPLES = Path(__file__).parents[2] / "examples"
ASKED = {"Fetch": 9, "OffsetCommit": 9, "Produce": 9}


def seen(unit: int, seconds: float = 1.0) -> dict[str, StageTraffic]:
    """Return what a dry run has shown."""
    return {
        "producer": StageTraffic(("p",), 1, ASKED, unit=1, seconds=seconds),
        "consumer": StageTraffic(("c",), 1, ASKED, unit=unit, seconds=seconds),
    }


def pipeline(kind: str) -> Pipeline:
    """Return a pipeline whose producer has its records from a file, makes them itself, or is given
    them.
    """
    if kind == "own":
        return read_pipeline(EXAMPLES / "readings" / "pipeline.toml")
    orders = read_pipeline(EXAMPLES / "mistakes" / "no-cursor" / "pipeline.toml")
    return orders if kind == "file" else read_pipeline(EXAMPLES / "orders" / "pipeline.toml")


@pytest.mark.parametrize(
    ("kind", "unit", "seconds", "records", "said"),
    [
        ("file", 10, 1.0, 48, None),
        ("file", 40, 1.0, 120, None),
        (
            "file",
            40,
            9.0,
            48,
            (
                "one request of the consumer takes 40 records of 48, so 120 are needed, which is "
                "more than 2000 or"
            ),
        ),
        ("file", 700, 0.1, 48, "set records = 2100"),
        ("own", 40, 1.0, 48, "let the producer make 120 records, and set records = 120"),
        ("stdin", 40, 1.0, 48, None),
    ],
)
def test_three_times_what_one_request_takes(
    kind: str, unit: int, seconds: float, records: int, said: str | None
) -> None:
    """Up to 2000 records and 20 s; else it is told, in the plan too. What is offered in waves needs
    no more.
    """
    declared = dataclasses.replace(pipeline(kind), records=48)
    found, short = enough(declared, seen(unit, seconds))
    assert found == records
    told = "\n".join(explanation(declared, seen(unit, seconds), ()))
    assert f"{records} records from" in told
    assert (short is None) is (said is None)
    if said is not None:
        assert said in (short or "")
        assert said in told


@pytest.mark.parametrize(
    ("kind", "requests", "told"), [("file", 3, True), ("file", 4, False), ("stdin", 3, False)]
)
def test_a_producer_that_sends_a_partition_in_one_request_is_told(
    kind: str, requests: int, told: bool
) -> None:
    """More records would only make these longer: the plan says what parts them."""
    declared = dataclasses.replace(pipeline(kind), records=48)
    known = {
        **seen(10),
        "producer": StageTraffic(("p",), 1, {"Produce": requests}, unit=10, seconds=1.0),
    }
    said = (
        "the producer sent all 48 records in 3 requests: let its client make smaller batches "
        '(batch.size, batch.num.messages), or let it read standard input (kind = "stdin"), which is paced'  # noqa: E501
    )
    assert enough(declared, known) == (48, said if told else None)
    assert (said in "\n".join(explanation(declared, known, ()))) is told


def test_the_cells_have_as_many(tmp_path: Path) -> None:
    """And the target is in the middle of those, unless the first or the last record is meant."""
    declared = dataclasses.replace(pipeline("file"), records=48)
    cells, _ = Check(declared, DeclaredSystem(), tmp_path, "test").plan(seen(40))
    assert {cell.records for cell in cells} == {120}
    drawn = [cell for cell in cells if cell.scenario.edge is None]
    assert len(drawn) > len(cells) / 2
    assert all(40 < cell.load().target.position <= 80 for cell in drawn)


def sent(request: str, count: int) -> list[kinds.Sent]:
    """Return the lines of a request with so many records."""
    return [narrow(typed({"event": "sent", "t": 1, "request": request}), kinds.Sent)] * count


def saved(request: str, partition: int, offset: int) -> kinds.Committed:
    """Return the line of a position that is saved."""
    where = {"group": "g", "topic": "t", "partition": partition, "offset": offset}
    return narrow(typed({"event": "committed", "request": request, **where}), kinds.Committed)


def test_what_one_request_takes() -> None:
    """Of a commit, what it is past the one before, over all its partitions."""
    assert unit_of([]) == 0
    assert unit_of([*sent("1:1", 2), *sent("1:2", 5)]) == 5
    assert (
        unit_of([saved("2:1", 0, 4), saved("2:2", 0, 10), saved("2:2", 1, 3), saved("2:3", 0, 10)])
        == 9
    )


def test_the_plan_names_the_processes_of_a_stage() -> None:
    """Where there are several, each with what it asked, and without the folders that its command
    names.
    """
    declared = pipeline("stdin")
    owners = [
        Owner(7, "/shop/.venv/bin/python book.py /shop/work/a.db", 1, {"Fetch": 2}),
        Owner(8, "sh worker", 2, {"Fetch": 7}),
    ]
    for count, shown in ((2, True), (1, False)):
        told = list(
            explanation(
                declared,
                {
                    "consumer": StageTraffic(
                        ("c",), 3, {"Fetch": 9}, processes=tuple(owners[:count])
                    )
                },
                (),
            )
        )
        assert ("    process 7 (python book.py a.db): 1 connection; Fetch 2" in told) is shown
        assert ("    process 8 (sh worker): 2 connections; Fetch 7" in told) is shown


def test_the_report_says_how_many_records_the_cells_had(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where a file needed more of them than the declaration says, so many."""
    asked: list[RunPlan] = []
    monkeypatch.setattr(checking, "run", lambda plan, _: asked.append(plan))
    declared = dataclasses.replace(pipeline("file"), records=48)
    check = Check(declared, DeclaredSystem(), tmp_path, "pytest")
    for unit, records in ((10, 48), (40, 120)):
        cells, rest = check.plan(seen(unit))
        check.faults(cells, rest, cast("Progress", None))
        assert (asked[-1].records, {cell.records for cell in cells}) == (records, {records})
