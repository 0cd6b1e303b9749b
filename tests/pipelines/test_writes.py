"""A declared pipeline's failure points at durable writes: their names, and what the dry run makes
of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from harness.matrix.checking import Check
from harness.matrix.explaining import explanation
from harness.model import events as kinds
from harness.model.cell import make_load
from harness.model.history import HistoryWriter, read_history
from harness.model.scenario import NotApplicable, Role, Scenario
from harness.pipelines import failure_points, read_pipeline
from harness.pipelines.failure_points import left_over
from harness.pipelines.traffic import StageTraffic
from harness.pipelines.writes import AT_WRITE, Written
from harness.runtimes.process.durable import TracingError
from harness.systems.declared.programs.tracing import StageWrites
from harness.systems.declared.programs.writes import WriteTracer, given_at
from harness.systems.declared.system import DeclaredSystem
from tests.events import events_of
from tests.pipelines.test_declaration import GOOD, declared

if TYPE_CHECKING:
    from pathlib import Path

    from harness.pipelines import Pipeline

NAMES = [f"consumer-crash-at-write-{number}" for number in range(1, 7)]
RENAMES = Written({"rename": [20]}, 20)


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    """A producer and a consumer."""
    return read_pipeline(declared(tmp_path, GOOD))


def reasons(
    pipeline: Pipeline, written: Written | None, *, only_asked: bool = True
) -> dict[str, str | None]:
    """Return the points at durable writes by name, each with why it does not apply, if so."""
    found = failure_points(
        pipeline, None if written is None else {"consumer": StageTraffic(written=written)}
    )
    return {
        point.id: reason(pipeline, point)
        for point in found
        if point.failure_point == AT_WRITE and not (only_asked and left_over(pipeline, point))
    }


def reason(pipeline: Pipeline, point: Scenario) -> str | None:
    """Return why a point does not apply."""
    expectation = point.expect[pipeline.claims]
    return expectation.because if isinstance(expectation, NotApplicable) else None


def test_the_names_are_there_before_the_dry_run(pipeline: Pipeline) -> None:
    """For --only, and for pytest; none of a producer."""
    assert reasons(pipeline, None) == dict.fromkeys(NAMES)
    assert reasons(pipeline, RENAMES) == dict.fromkeys(NAMES[:4])
    left = reasons(pipeline, RENAMES, only_asked=False)
    assert left[NAMES[4]] == "the dry run found only 4 points at durable writes of the consumer"


@pytest.mark.parametrize(
    ("written", "because"),
    [
        (
            Written({}, 20),
            (
                "the dry run saw no durable write of the consumer (such as an fsync), or write to "
                "its own files"
            ),
        ),
        (
            Written({"unlink": [1]}, 20),
            "the dry run saw too few durable writes of the consumer to choose one (unlink 1)",
        ),
        (
            Written({}, 20, unrepeated=("{work}/7f/a",)),
            (
                "the dry run saw no durable write of the consumer (such as an fsync), or write to "
                "its own files; writes into files whose names no other run has are left out, as of "
                "temporary ones, or of one for each record ({work}/7f/a)"
            ),
        ),
        (
            Written({"rename": [1]}, 20, unrepeated=("{temporary}/a",)),
            (
                "the dry run saw too few durable writes of the consumer to choose one (rename 1); "
                "writes into files whose names no other run has are left out, as of temporary "
                "ones, or of one for each record ({temporary}/a)"
            ),
        ),
        (Written(because="strace is not on the PATH"), "strace is not on the PATH"),
    ],
)
def test_what_does_not_apply_says_why_once(
    pipeline: Pipeline, written: Written, because: str
) -> None:
    """No durable write, too few, or nobody could look."""
    assert reasons(pipeline, written) == {NAMES[0]: because}


def test_a_name_that_is_left_over_may_be_asked_for(pipeline: Pipeline, tmp_path: Path) -> None:
    """It is planned as what does not apply; nobody else sees it."""
    check = Check(pipeline, DeclaredSystem(), tmp_path, "pytest")
    seen = {"consumer": StageTraffic(("c",), 1, {"Fetch": 9}, written=RENAMES)}
    cells, rest = check.plan(seen, (NAMES[1], NAMES[5]))
    assert [cell.scenario.id for cell in cells] == [NAMES[1]]
    assert [cell.scenario.id for cell in rest] == [NAMES[5]]
    cells, rest = check.plan(seen)
    assert [
        cell.scenario.id for cell in (*cells, *rest) if cell.scenario.failure_point == AT_WRITE
    ] == NAMES[:4]
    said = "\n".join(explanation(pipeline, seen, [cell.scenario for cell in cells]))
    assert "durable writes behind the record: rename 20" in said
    assert (
        f"{NAMES[0]}: The consumer is killed right before its first rename after it was given "
        "the record: the call is never done"
    ) in said
    assert (
        f"{NAMES[3]}: The consumer is killed right after its second rename after it was given "
        "the record: the call is"
    ) in said


def test_a_program_that_flushes_nothing_dies_behind_its_writes_into_files(
    pipeline: Pipeline,
) -> None:
    """Those that the dry run saw it write into, and no socket; where there are durable writes
    enough, those come first.
    """
    written = Written({"pwrite64": [114]}, 19, files=("{work}/orders.db-wal",))
    points = [
        p
        for p in failure_points(pipeline, {"consumer": StageTraffic(written=written)})
        if p.failure_point == AT_WRITE
    ]
    assert [reason(pipeline, point) for point in points] == [None] * 6
    faults: list[Any] = [point.fault for point in points]
    assert [str(fault.point) for fault in faults] == [
        f"after pwrite64 {number}" for number in range(1, 7)
    ]
    assert {fault.point.files for fault in faults} == {("{work}/orders.db-wal",)}
    assert points[0].because.startswith(
        "The consumer is killed right after its first pwrite64 into a file after"
    )
    both = Written({"pwrite64": [114], "rename": [19]}, 19, files=written.files)
    points = [
        p
        for p in failure_points(pipeline, {"consumer": StageTraffic(written=both)})
        if p.failure_point == AT_WRITE
    ]
    faults = [point.fault for point in points]
    assert [fault.point.call for fault in faults] == ["rename"] * 4 + ["pwrite64"] * 2
    assert [fault.point.files for fault in faults] == [()] * 4 + [written.files] * 2


class Node:
    """A stage that can be traced, or not."""

    def __init__(self, name: Role, why_not: str = "") -> None:
        self.name = str(name)
        self._why_not = why_not
        self.tracer = self

    def start(self, _: Path) -> None:
        """Refuse, where it is told to."""
        if self._why_not:
            raise TracingError(self._why_not)

    def written(self, since_ns: int, records: int) -> StageWrites:
        """Return what it wrote, and into which files."""
        assert records
        return StageWrites({"rename": [since_ns]}, ("{work}/a",), ("{work}/b",))


def test_a_dry_run_tells_what_was_written_or_why_nobody_knows(tmp_path: Path) -> None:
    """Counted from when the target reached that stage, and no other; a stage that cannot be traced
    runs all the same.
    """
    load = make_load(seed=1, salt="", count=24, unit=1)
    told: list[dict[str, Any]] = [
        {"event": "conn", "conn": 1, "role": "consumer"},
        {"event": "conn", "conn": 2, "role": "processor"},
        {"event": "fetched", "conn": 2, "record": load.target.id, "reached": True, "w": 50},
        {"event": "fetched", "conn": 1, "record": load.target.id, "reached": False, "w": 60},
        {"event": "fetched", "conn": 1, "record": load.target.id, "reached": True, "w": 70},
        {"event": "fetched", "conn": 1, "record": load.target.id, "reached": True, "w": 80},
    ]
    seen = events_of(told)
    assert given_at(seen, "consumer") == {load.target.id: 70}
    nodes: Any = [Node(Role.CONSUMER), Node(Role.PROCESSOR, "it is a container")]
    with HistoryWriter(tmp_path / "r.jsonl", cell="c", by="runner") as history:
        WriteTracer(nodes, tmp_path / "writes").tell(history, seen, load)
        WriteTracer(nodes[:1], tmp_path / "writes").tell(history, (), load)
    found = list(read_history(tmp_path).of(kinds.Writes))
    assert found[0].unrepeated == ("{work}/b",)
    assert [(e.role, e.made, e.files, e.because) for e in found] == [
        ("consumer", {"rename": [70]}, ("{work}/a",), None),
        ("processor", {}, (), "it is a container"),
        (
            "consumer",
            {},
            (),
            (
                f"the wire did not see that the consumer was given {load.target.id}, or a record "
                "behind it; writes count from then on"
            ),
        ),
    ]


def test_who_never_gets_the_target_is_counted_from_the_first_record_behind_it(
    tmp_path: Path,
) -> None:
    """A stage that gets only some of the records: its writes are made for these."""
    load = make_load(seed=1, salt="", count=24, unit=1)
    at = load.target.position
    before, first, last = (load.records[n].id for n in (at - 2, at, at + 1))
    told: list[dict[str, Any]] = [
        {"event": "conn", "conn": 1, "role": "consumer"},
        *(
            {"event": "fetched", "conn": 1, "record": record, "reached": True, "w": when}
            for record, when in ((before, 40), (first, 70), (last, 80), (last, 90))
        ),
    ]
    nodes: Any = [Node(Role.CONSUMER)]
    with HistoryWriter(tmp_path / "r.jsonl", cell="c", by="runner") as history:
        WriteTracer(nodes, tmp_path / "writes").tell(history, events_of(told), load)
    [written] = read_history(tmp_path).of(kinds.Writes)
    assert (written.made, written.records, written.because) == ({"rename": [70]}, 2, None)
