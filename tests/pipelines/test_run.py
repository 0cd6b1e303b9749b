"""What a run of a declared pipeline says of an input, an output and a log that are not what they
should be; without a broker.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from harness.controls import NotFiredError, OnWire
from harness.faults import CrashAtWrite, Kill, Unanswered
from harness.model.failures import CellFailure
from harness.model.identity import Identity
from harness.model.logs import last_lines
from harness.model.scenario import Role
from harness.model.states import Hop
from harness.model.waiting import WaitTimeoutError
from harness.pipelines.inputs import Input
from harness.pipelines.outputs import Output, OutputKind
from harness.protocols.kafka.steps import Api
from harness.run.cell import CellRun
from harness.run.controls import FaultState
from harness.run.parts import Parts
from harness.systems.declared import abilities
from harness.systems.declared.abilities import ForeignMembership
from harness.systems.declared.feed import feed as feeding
from harness.systems.declared.feed.feed import DeclaredFeed
from harness.systems.declared.learnt.silence import name_of
from harness.systems.declared.outputs import OutputError, Row
from harness.systems.declared.programs.errors import StageError
from harness.systems.declared.programs.stages import make_stage
from harness.systems.declared.programs.targets import FaultTargets
from harness.systems.declared.programs.workers import Victim
from harness.systems.declared.results.ends import SourceAndOutput
from harness.systems.declared.results.matcher import ROW, RecordMatcher, Result
from harness.systems.declared.transport import log, positions
from harness.systems.declared.transport.authorities import Authorities
from harness.systems.declared.transport.log import Log
from harness.systems.declared.transport.positions import Positions
from harness.systems.kafka.log_copies import LogCopy, LogEnds, WholeLog
from harness.wire.rules import Direction
from tests.pipelines.scenes import KILLS, Clock, conditions_of, nobody, told

if TYPE_CHECKING:
    from harness.systems.declared.scene import Scene
    from tests.pipelines.scenes import Scenes


def authorities_of(scene: Scene) -> Authorities:
    """Return what is asked at the end."""
    found = RecordMatcher(scene)
    return Authorities(scene, Positions(scene, {}, nobody(scene), found), found)


def results_of(scene: Scene) -> SourceAndOutput:
    """Return who writes down what is in the output."""
    return SourceAndOutput(scene, RecordMatcher(scene))


def log_of(scene: Scene) -> Log:
    """Return what stands between the stages of a cell."""
    transport: Any = conditions_of(scene).transport
    assert isinstance(transport, Log)
    return transport


@pytest.mark.parametrize(
    ("example", "ids", "said"),
    [
        ("readings", ["r-1", "r-2"], None),
        ("readings", ["r-1", "r-2", "r-1"], "the input has the id 'r-1' 2 times"),
        (
            "readings",
            ["r-0", "r-1"],
            "the producer made a record 'r-0', but the line in \\[input\\] says 'r-1' to 'r-48'",
        ),
        (
            "orders",
            ["k3-1", "k3-1"],
            None,
        ),  # offered once: that its producer has sent it twice is a finding
        ("orders", ["x", "x"], "the input has the id 'x' 2 times"),
        ("orders", [None, None], None),
    ],
)
def test_an_input_that_is_not_what_was_declared(
    scenes: Scenes, example: str, ids: list[str | None], said: str | None
) -> None:
    """Of what a producer makes itself, the topic tells; what lostack has offered, it knows."""
    found = RecordMatcher(scenes(example))
    if said is None:
        found.check_input(ids)
        return
    with pytest.raises(StageError, match=said):
        found.check_input(ids)


def test_what_is_awaited_meanwhile_asks_no_broker_and_no_error_ends_it(
    scenes: Scenes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a fault is awaited a broker may be dead, and an output not there yet."""
    rows: list[Any] = []

    def size() -> int:
        if not rows:
            raise OutputError("no such file")
        return len(rows)

    found = RecordMatcher(scenes("readings"))
    monkeypatch.setattr(found, "_aside", None)
    assert found.glance() == found.glance()
    found.results = SimpleNamespace(rows=lambda: rows, size=size)
    before = found.glance()
    rows.append("r-7 21")
    assert found.glance() != before


def test_results_of_an_earlier_run_are_not_this_ones(scenes: Scenes) -> None:
    """They would be duplicates that nobody has made; what an output holds of other things is
    nobody's business.
    """
    rows: list[Any] = ["something else"]
    found = RecordMatcher(scenes("readings"))
    found.results = SimpleNamespace(rows=lambda: rows, size=lambda: len(rows))
    found.check_output_is_fresh()
    rows.append("r-7 21")
    with pytest.raises(
        StageError,
        match=r"has records of this run before the run has begun, such as 'r-7 21': .*\{work\}",
    ):
        found.check_output_is_fresh()


def test_what_was_deleted_from_a_topic_was_seen_there(scenes: Scenes) -> None:
    """The wire knows at which offsets records were; below the start of the log they are no more."""
    sent = [
        {
            "event": "sent",
            "topic": "orders",
            "partition": 1,
            "request": f"1:{n}",
            "record": f"k-{n}",
        }
        for n in (1, 2, 3)
    ]
    answers = [
        {
            "event": "produce_answer",
            "request": f"1:{n}",
            "record": f"k-{n}",
            "error": 0,
            "offset": n,
        }
        for n in (1, 2, 3)
    ]
    fetched = [
        {"event": "fetched", "topic": "orders", "partition": 1, "offset": 0, "record": "k-0"},
        {"event": "fetched", "topic": "priced", "partition": 1, "offset": 0, "record": "p-0"},
    ]
    scene = scenes("orders", *sent, *answers, *fetched)
    authorities_of(scene).observe_deleted("orders", 1, 3)
    assert told(scene).of("removed", "record", "offset") == [("k-0", 0), ("k-1", 1), ("k-2", 2)]


def test_who_holds_readers_back_for_long_is_written_down(
    scenes: Scenes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From when it was first seen until it is over; a transaction that is under way is nothing to
    tell.
    """
    clock = Clock()
    monkeypatch.setattr(log, "time", clock)
    ends = {0: LogEnds(0, 3, 4)}
    scene = scenes("orders", observer=SimpleNamespace(ends=lambda _: ends))
    stands = log_of(scene)
    for lasts_s, lines in ((1, []), (61.5, [("orders/0", 61.5)])):
        clock.now += 60  # nobody was held back
        ends[0] = LogEnds(0, 3, 4)
        assert stands.trouble() == "orders/0: last stable offset 3, high watermark 4"
        clock.now += lasts_s
        assert stands.trouble() is not None
        ends[0] = LogEnds(0, 4, 4)
        assert stands.trouble() is None
        assert told(scene).of("held_back", "log", "seconds") == lines


def test_readers_that_go_on_from_transaction_to_transaction_are_not_held_back(
    scenes: Scenes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction is open at each look, and each time another one: nobody has left it open."""
    clock = Clock()
    monkeypatch.setattr(log, "time", clock)
    ends = {0: LogEnds(0, 0, 1)}
    scene = scenes("orders", observer=SimpleNamespace(ends=lambda _: ends))
    stands = log_of(scene)
    for number in range(20):
        clock.now += 1
        ends[0] = LogEnds(0, number, number + 1)
        assert stands.trouble() is not None
    ends[0] = LogEnds(0, 20, 20)
    assert stands.trouble() is None
    assert told(scene).of("held_back") == []


def test_what_a_program_says_to_itself_is_awaited_only_if_it_stays_open(
    scenes: Scenes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sink that does so for ever would hardly be at rest; a dead one's holds its coordinator
    back. In a topic of the load each open transaction counts.
    """
    clock = Clock()
    monkeypatch.setattr(log, "time", clock)
    hidden, ends = "__control", {0: LogEnds(0, 0, 1)}
    found = SimpleNamespace(ends=lambda topic: ends if topic == hidden else {})
    scene = scenes("orders", observer=found)
    scene.pipeline = replace(scene.pipeline, topics=("orders", hidden))
    stands = log_of(scene)
    for number in range(20):
        clock.now += 1
        ends[0] = LogEnds(0, number, number + 1)
        assert stands.trouble() is None
    clock.now += 1
    assert stands.trouble() == f"{hidden}/0: last stable offset 19, high watermark 20"
    clock.now += 60
    ends[0] = LogEnds(0, 20, 20)
    assert stands.trouble() is None
    assert told(scene).of("held_back", "log", "seconds") == [(f"{hidden}/0", 61)]
    ends[0] = LogEnds(0, 20, 21)
    for number in range(3):  # beside one that hangs another program goes on
        ends[1] = LogEnds(0, number, number + 1)
        troubled = stands.trouble()
        clock.now += 1
    assert troubled == f"{hidden}/0: last stable offset 20, high watermark 21"


def test_members_that_go_in_time_are_waited_for(scenes: Scenes) -> None:
    """A group that is not lostack's own may still have a dead member of the cell before."""
    answers = iter([{"billing", "theirs"}, {"billing"}, {"theirs"}])
    observer = SimpleNamespace(peopled=lambda: frozenset(next(answers)))
    log_of(scenes("orders", observer=observer, named=("billing",))).begin()
    assert list(answers) == []


def test_somebody_elses_member_in_the_group_voids_the_cell(
    scenes: Scenes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once where the group is known before a stage runs; else as soon as a stage used it."""
    monkeypatch.setattr(log, "GUESTS_S", 0.05)
    observer = SimpleNamespace(peopled=lambda: frozenset({"billing", "theirs"}))
    said = "the group billing had members before a stage was started, and they take records"
    known = log_of(scenes("orders", observer=observer, named=("billing",)))
    with pytest.raises(CellFailure, match=said):
        known.begin()
    scene = scenes("orders", observer=observer)
    later = log_of(scene)
    later.begin()
    monkeypatch.setattr(scene.brokers, "named", ("billing", "ours"))
    with pytest.raises(CellFailure, match=said):
        later.observe()


@pytest.mark.parametrize(
    ("error", "batch", "said"), [(10, 1, True), (18, 1, True), (10, 2, False), (7, 1, False)]
)
def test_a_record_that_is_too_large_is_told_at_once(
    scenes: Scenes, error: int, batch: int, said: bool
) -> None:
    """By its id, and without waiting for anything; a batch may be sent again in parts, and other
    errors be passing.
    """
    ids = [f"k-{n}" for n in range(batch)]
    sent = [
        {"event": "sent", "topic": "orders", "partition": 0, "request": "1:7", "record": record}
        for record in ids
    ]
    answers = [
        {
            "event": "produce_answer",
            "request": "1:7",
            "record": record,
            "error": error,
            "reached": True,
        }
        for record in ids
    ]
    stands = conditions_of(scenes("orders", *sent, *answers))
    if not said:
        assert stands.stage_trouble() is None
        return
    with pytest.raises(
        StageError, match="the record k-0 is too large for orders: the broker refuses it"
    ) as error_told:
        stands.stage_trouble()
    assert error_told.value.stage == "topic"
    assert conditions_of(scenes("orders", *sent, *answers, fault=KILLS)).stage_trouble() is None


@pytest.mark.parametrize("kind", ["stdout", "sqlite"])
def test_when_it_prints_is_its_own_where_that_is_the_output(scenes: Scenes, kind: str) -> None:
    """Else what a Python program prints is seen at once, for whoever looks for why it has ended."""
    scene = scenes(
        "orders", pipeline={"output": Output(kind=OutputKind.STDOUT)} if kind == "stdout" else {}
    )
    started: list[Any] = []

    def start(spec: Any) -> Any:
        started.append(spec)
        return SimpleNamespace(pid=1)

    runtime: Any = SimpleNamespace(start=start)
    for stage in scene.pipeline.stages:
        make_stage(scene, stage, runtime, lambda: None).start()
    assert [spec.env["PYTHONUNBUFFERED"] for spec in started] == [
        "1",
        "" if kind == "stdout" else "1",
    ]


def test_nothing_printed_may_stand_in_a_buffer(scenes: Scenes) -> None:
    """That is told where nothing came of a program whose output is what it prints."""
    for changes in ({}, {"output": Output(kind=OutputKind.STDOUT)}):
        found = RecordMatcher(scenes("orders", pipeline=changes))
        found.results = SimpleNamespace(rows=list, size=lambda: 0)
        buffer = "it is empty (a program buffers what it prints into a pipe or a file"
        assert (buffer in found.nothing_arrived()) is bool(changes)


def test_an_output_without_a_file_is_not_called_empty(scenes: Scenes) -> None:
    """It may be in another place than was declared."""
    output = Output(kind=OutputKind.LINES, file="{work}/o.jsonl")
    scene = scenes("orders", pipeline={"output": output})
    found = RecordMatcher(scene)
    assert found.nothing_arrived().endswith(f": no file matches {scene.work}/o.jsonl")


def copy_of(offset: int, value: str | None, *, partition: int = 0) -> LogCopy:
    """Return a copy in a log."""
    said = None if value is None else value.encode()
    return LogCopy(partition, 0, offset, None, said, None, None, visible=True)


def test_what_was_never_offered_is_written_down_as_it_stands(scenes: Scenes) -> None:
    """So that the verdict can show it; of what is known its id says enough."""
    scene = scenes("readings", fault=KILLS)
    asked = authorities_of(scene)
    copies = (copy_of(0, '{"reading": "r-1"}'), copy_of(1, '{"reading": "r-0"}' + " " * 200))
    results_of(scene).observe_results(
        [Result(("r-1",), 1, "r-1 21"), Result(("r-0",), 2, "r-0 " + "7" * 200)], {}, {}
    )
    asked.observe_log(Hop.TOPIC, "readings", WholeLog({0: LogEnds(0, 2, 2)}, copies))
    texts = {
        (line["event"], line["record"]): line.get("text")
        for line in told(scene).lines
        if "record" in line
    }
    assert texts == {
        ("recorded", "r-1"): None,
        ("recorded", "r-0"): "r-0 " + "7" * 116,
        ("stored", "r-1"): None,
        ("stored", "r-0"): '{"reading": "r-0"}' + " " * 102,
    }


@pytest.mark.parametrize("example", ["readings", "orders"])  # [id] and Parquet, tokens and SQLite
def test_a_header_or_a_footer_is_no_result_and_no_phantom(scenes: Scenes, example: str) -> None:
    """It has no id, neither in the output nor in a topic that is the output; how many there are,
    and the first, is told.
    """
    scene = scenes(example, fault=KILLS)
    found, asked, first = RecordMatcher(scene), authorities_of(scene), scene.load.records[0]
    rows = ["reading value", scene.cell.line(first), "TOTAL 48"]
    results_of(scene).observe_results(found.results_in(rows), {}, {})
    asked.observe_log(
        Hop.SINK,
        "out",
        WholeLog({0: LogEnds(0, 3, 3)}, tuple(copy_of(n, row) for n, row in enumerate(rows))),
    )
    assert told(scene).of("recorded", "record") == [(first.id,)]
    assert told(scene).of("stored", "foreign") == [(True,), (None,), (True,)]
    assert told(scene).of("unnamed", "count", "text") == [(2, "reading value")]


@pytest.mark.parametrize("example", ["orders", "readings"])  # tokens, and [id]
def test_what_declared_programs_write_beside_their_records_is_foreign(
    scenes: Scenes, example: str
) -> None:
    """It is written down, and nobody's fault; where the user has said what an id is, a record
    without one is a phantom, unless it is a tombstone.
    """
    scene = scenes(example, fault=KILLS)
    first = scene.load.records[0]
    copies = (copy_of(0, scene.cell.line(first)), copy_of(1, "heartbeat"), copy_of(2, None))
    log = WholeLog({0: LogEnds(0, 3, 3), 1: LogEnds(0, 0, 0)}, copies)
    assert authorities_of(scene).observe_log(Hop.TOPIC, scene.pipeline.topic, log) == copies
    stored = told(scene).of("stored", "offset", "record", "intact", "foreign")
    assert stored == [
        (0, first.id, True, None),
        (1, None, False, example == "orders" or None),
        (2, None, False, True),
    ]
    assert [line.get("text") for line in told(scene).lines if line["event"] == "stored"] == [
        None,
        "heartbeat",
        "",
    ]
    assert told(scene).of("log", "partition", "end", "last_data") == [(0, 3, 2), (1, 0, -1)]


def test_what_deletes_a_record_by_its_key_is_no_copy_of_it(scenes: Scenes) -> None:
    scene = scenes("readings", fault=KILLS, pipeline={"id": Identity(r"r-\d+")})
    copies = tuple(
        replace(copy_of(at, value), key=b"r-1")
        for at, value in enumerate(('{"reading": "r-1"}', None, '{"reading": "r-1"}'))
    )
    log = WholeLog({0: LogEnds(0, 3, 3)}, copies)
    authorities_of(scene).observe_log(Hop.TOPIC, "readings", log)
    stored = told(scene).of("stored", "offset", "record", "foreign")
    assert stored == [(0, "r-1", None), (1, None, True), (2, "r-1", None)]


def test_a_declared_cell_is_asked_for_its_log_last(scenes: Scenes) -> None:
    """Whatever moves meanwhile: what is past a position is found behind it, and what is in the
    output in the log.
    """
    asked = list[str]()
    answers = {
        "positions": {0: 1, 1: 0},
        "log": WholeLog({0: LogEnds(0, 1, 1)}, ()),
        "output": [],
    }

    def said(name: str, *_: object) -> Any:
        asked.append(name)
        return answers[name]

    observer = SimpleNamespace(positions=partial(said, "positions"), log=partial(said, "log"))
    scene = scenes("orders", fault=KILLS, observer=observer, named=("billing",))
    found = RecordMatcher(scene)
    found.results = SimpleNamespace(rows=partial(said, "output"), size=lambda: 0)
    stages = {Role.CONSUMER: Reader.stage_of(scene)}
    Authorities(scene, Positions(scene, stages, nobody(scene), found), found).observe()
    assert asked == ["positions", "output", "log"]
    [how] = told(scene).of("output_read", "asked", "rows")
    assert how == (f"sqlite {scene.pipeline.output.query}", 0)
    assert told(scene).of("position", "partition", "offset", "where") == [
        (0, 1, "group"),
        (1, 0, "group"),
        (2, -1, "group"),
    ]
    assert len(told(scene).of("offered")) == len(scene.load.records)


@pytest.mark.parametrize(
    ("rows", "count", "results"),
    [
        ([("r-1", 21), ("r-2", 22)], 0, ["r-1", "r-2"]),
        ([("r-1", 21), ("r-2", None)], 1, ["r-1", None]),
        (
            [("r-1", 21), ("r-1", None)],
            0,
            ["r-1", "r-1"],
        ),  # it is there, and there is a second copy
        ([("r-1", None), ("r-1", None)], 2, [None, None]),
        ([("TOTAL", None), ("r-2", 22)], 0, [None, "r-2"]),
    ],
)
def test_a_row_that_was_begun_and_not_filled_in_is_no_result(
    scenes: Scenes, rows: list[tuple[str, int | None]], count: int, results: list[str | None]
) -> None:
    """Where every row without a fault had something in a column, one that has nothing there is
    none: for drain and verdict.
    """
    scene = scenes("readings", fault=KILLS)
    found, columns = RecordMatcher(scene), scene.learnt.columns
    found.results = SimpleNamespace(
        rows=lambda: [row_of(*row) for row in rows], size=lambda: len(rows)
    )
    whole = [record if record in scene.known else None for record, _ in rows]
    assert found.ids() == whole, "nothing is known of it yet"
    name = name_of(scene.pipeline)
    columns.learn(name, [row_of(f"r-{number}", number) for number in range(9)])
    assert found.ids() == results
    results_of(scene).observe_results(found.results_in(found.rows()), {}, {})
    assert told(scene).of("recorded", "record") == [(each,) for each in results if each]
    assert told(scene).of("unfilled", "count", "columns") == ([(count, [2])] if count else [])
    columns.learn(name, [row_of("r-1", None)])
    assert found.ids() == whole, "it is empty without a fault, too"


def row_of(sensor: str, degrees: int | None) -> Row:
    """Return a row of a query with two columns."""
    return Row.of_query((sensor, degrees))


@pytest.mark.parametrize(
    ("at", "pattern", "row", "ids"),
    [
        ("order", None, {"order": 1, "customer": "c1", "qty": 8}, ["1"]),
        ("order", r"\d+", {"qty": 8, "customer": "c1", "order": 1}, ["1"]),
        ("order.id", r"\d+", {"qty": 8, "order": {"id": b"no-1", "of": Decimal(2)}}, ["1"]),
        ("order", None, {"written": '{"order": 7}'}, ["7"]),  # the one column is JSON
        ("order", r"no-\d+", {"id": 3, "text": "no-1"}, ["no-1"]),  # no column has that name
        ("order", r"no-\d+", {"order": 3, "text": "no-1"}, ["no-1"]),  # an order of their own
        ("", r"price|\d+", {"price": "x"}, []),  # names of columns are no text of the row
    ],
)
def test_a_path_of_json_begins_with_the_name_of_a_column(
    scenes: Scenes, at: str, pattern: str | None, row: dict[str, object], ids: list[str]
) -> None:
    """Nothing else says which column of a table has the id."""
    output = Output(kind=OutputKind.DELTA, file="x")
    identity = Identity(json=at) if pattern is None else Identity(pattern, json=at)
    offered = Input(line='{"order": {"id": "no-{position}"}}')
    scene = scenes("readings", pipeline={"output": output, "id": identity, "input": offered})
    [found] = RecordMatcher(scene).results_in([Row.of(row)])
    assert found.ids == tuple(ids)


@pytest.mark.parametrize(
    ("row", "held"),
    [
        ("r-1 21", 1),
        ("r-1 21, before r-1 20", 1),
        ("r-1 21, r-99 20", 1),
        ("r-1 21, r-2 20", 2),
        ("r-7 r-8 r-9", 3),
    ],
)
def test_what_holds_the_ids_of_several_records_is_refused(
    scenes: Scenes, row: str, held: int
) -> None:
    """A row is one result, and a record of a topic one copy: the first of several ids would hide
    the others.
    """
    found = RecordMatcher(scenes("readings"))
    results = found.results_in(["r-3 20", row])
    assert results[1].record == row[:3]
    if held == 1:
        found.check_ids(ROW, results)
        return
    with pytest.raises(
        StageError,
        match=(
            rf"a row of the output holds the ids of {held} records \('{row[:3]}', .*let the "
            r"pattern in"
        ),
    ):
        found.check_ids(ROW, results)


@pytest.mark.parametrize(
    ("without_a_fault", "last", "record"),
    [
        ("r-1\nr-3\n", "r-1", None),
        ("r-1\nr-3\n", "r-1\n", "r-1"),
        ("r-1\nr-3\n", "r-1 21", "r-1"),
        ("r-1\nr-3\n", "r-9", "r-9"),
        ("\nr-1\nr-3", "r-1", "r-1"),
        (None, "r-1", "r-1"),
    ],
)
def test_an_id_that_was_cut_off_counts_for_no_other_record(
    scenes: Scenes, without_a_fault: str | None, last: str, record: str | None
) -> None:
    """If a program ends each line, one without an end may be the beginning of another's."""
    output = Output(kind=OutputKind.LINES, file="{work}/o.txt")
    changed = {"output": output, "id": Identity(r"r-\d+")}
    scene = scenes("readings", fault=KILLS, pipeline=changed)
    found = RecordMatcher(scene)
    scene.work.mkdir(parents=True)
    file = scene.work / "o.txt"
    if without_a_fault is not None:
        file.write_text(without_a_fault)
        scene.learnt.columns.learn(name_of(scene.pipeline), found.rows())
    file.write_text(f"r-2\n{last}")
    assert found.ids() == ["r-2", record]
    results_of(scene).observe_results(found.results_in(found.rows()), {}, {})
    assert told(scene).of("recorded", "record") == [(each,) for each in ("r-2", record) if each]
    assert told(scene).of("unnamed", "text") == ([] if record else [("r-1",)])


@pytest.mark.parametrize("kind", [OutputKind.LINES, OutputKind.PARQUET])
def test_a_line_of_two_records_may_be_two_of_them(scenes: Scenes, kind: OutputKind) -> None:
    """A program dies inside a line, and the next one goes on behind it."""
    changed = {"output": Output(kind=kind, file="o"), "id": Identity(r"r-\d+")}
    found = RecordMatcher(scenes("readings", pipeline=changed))
    with pytest.raises(StageError) as told_of:
        found.check_ids(ROW, found.results_in(["r-1 2r-2 21"]))
    assert ("died inside a line" in str(told_of.value)) is (kind is OutputKind.LINES)


def test_a_query_says_by_itself_what_has_the_id(scenes: Scenes) -> None:
    """A table's own numbers may have the name that the id has in a message, and look like ids."""
    identity, offered = Identity(r"\d+$", json="id"), Input(line='{"id": {position}}')
    scene = scenes("readings", pipeline={"id": identity, "input": offered})
    found = RecordMatcher(scene).results_in([Row.of_query((1, 4)), Row.of_query((2, 4))])
    assert [each.ids for each in found] == [("4",), ("4",)]


ICEBERG = Path(__file__).parents[1] / "tables" / "written" / "iceberg" / "orders"


@pytest.mark.parametrize("example", ["readings", "orders"])
def test_rows_of_an_older_run_are_not_taken_for_those_that_another_branch_has(
    scenes: Scenes, tmp_path: Path, example: str
) -> None:
    """The branch is named to whom is told that no row carries an id; not where a topic lacks it."""
    table = shutil.copytree(ICEBERG, tmp_path / "orders")
    metadata = table / "metadata" / "v6.metadata.json"
    told = json.loads(metadata.read_text())
    first, *_, last = (each["snapshot-id"] for each in told["snapshots"])
    refs = {"audit": {"snapshot-id": last, "type": "branch"}}
    metadata.write_text(json.dumps(told | {"current-snapshot-id": first, "refs": refs}))
    output = Output(kind=OutputKind.ICEBERG, file=str(table))
    found = RecordMatcher(scenes(example, pipeline={"output": output}))
    results = found.results_in(found.rows())
    assert len(results) == 3
    branch = r" \(the newest rows are in the branch audit, and lostack reads main\)$"
    with pytest.raises(StageError, match=rf"^no row of the output carries .*{branch}"):
        found.check_ids(ROW, results)
    with pytest.raises(StageError, match=r"^no record of topic x carries") as of_topic:
        found.check_ids("record of topic x", results)
    assert "branch" not in str(of_topic.value)


def test_only_where_an_id_is_looked_for_several_are_too_many() -> None:
    """A value may say what it likes where the key is the id."""
    found = Identity(r"r-\d+", where="key").find_every(b"r-1", b"r-2 r-3")
    assert found == ("r-1",)
    assert Identity(r"r-\d+").find_every(b"r-1", b"r-2 r-3") == ("r-2", "r-3")
    assert Identity(r"r-\d+", where="header:id").find_every(
        b"r-1", b"r-2", [("x", b"r-3"), ("id", b"r-4")]
    ) == ("r-4",)


class Reader:
    """A reader of the orders, its groups, and an output that grows when a test says so; at the
    beginning nothing moves any more.

    ``seen``: what the wire has seen of it.
    """

    def __init__(
        self,
        scenes: Scenes,
        monkeypatch: pytest.MonkeyPatch,
        *seen: dict[str, Any],
        saved: dict[int, int],
        fault: Any = None,
    ) -> None:
        self.clock = Clock()
        monkeypatch.setattr(positions, "time", self.clock)
        observer = SimpleNamespace(positions=lambda *_: saved, visible=lambda *_: {0: 4})
        at = [event | {"t": self.clock.monotonic_ns()} for event in seen]
        self.scene = scenes("orders", *at, fault=fault, observer=observer, named=("billing",))
        self.size, self.rows = 1, list[str]()
        found = RecordMatcher(self.scene)
        found.results = SimpleNamespace(size=lambda: self.size, rows=lambda: self.rows)
        self.positions = Positions(
            self.scene, {Role.CONSUMER: self.stage_of(self.scene)}, nobody(self.scene), found
        )

    @staticmethod
    def stage_of(scene: Scene) -> Any:
        """Return the stage, of which only the declaration is looked at."""
        return SimpleNamespace(stage=scene.pipeline.stage(Role.CONSUMER))

    def trouble_after(self, still_s: float, size: int = 1) -> str | None:
        """Look at once, and again when nothing has moved for a time; ``size``: that of its output
        by then.
        """
        self.positions.trouble()
        self.clock.now += still_s
        self.size = size
        return self.positions.trouble()


@pytest.mark.parametrize(("asks", "still_s"), [("Fetch", 3.1), ("FindCoordinator", 35.1)])
def test_who_saves_no_position_is_told_so_as_soon_as_it_is_known(
    scenes: Scenes, monkeypatch: pytest.MonkeyPatch, asks: str, still_s: float
) -> None:
    """When it has been given everything, and writes nothing more: without a group soon, with one
    when clients have committed.
    """

    def reader(offset: int = 4, fault: Any = None) -> Reader:
        asked = {"event": "frame", "conn": 1, "role": "consumer", "api": asks, "dir": "request"}
        given = {
            "event": "fetched",
            "topic": "orders",
            "partition": 0,
            "offset": offset,
            "reached": True,
            "record": "a",
            "conn": 1,
        }
        return Reader(scenes, monkeypatch, asked, given, saved={}, fault=fault)

    with pytest.raises(
        StageError,
        match=r"no consumer group has saved a position in orders; .*position = .elsewhere",
    ):
        reader().trouble_after(still_s)
    for early in (
        reader().trouble_after(still_s - 0.5),
        reader(offset=3).trouble_after(still_s),
        reader().trouble_after(still_s, size=2),
        reader(fault=KILLS).trouble_after(still_s),
    ):
        assert early is not None
        assert early.startswith("no consumer group has saved")


class Elsewhere(Reader):
    """A reader that keeps its position itself, and has been ready since the beginning; it took ten
    minutes to start.
    """

    @staticmethod
    def stage_of(scene: Scene) -> Any:
        """Return the stage, and when it was started."""
        stage = scene.pipeline.stage(Role.CONSUMER)
        assert stage is not None
        ready_at = Clock().monotonic_ns()
        return SimpleNamespace(
            stage=stage,
            name="consumer",
            processes=SimpleNamespace(incarnation=1),
            since=ready_at - 600 * 10**9,
            ready_at=ready_at,
        )

    def __init__(
        self, scenes: Scenes, monkeypatch: pytest.MonkeyPatch, *seen: dict[str, Any]
    ) -> None:
        super().__init__(scenes, monkeypatch, *seen, saved={})
        monkeypatch.setattr(Positions, "kept_by_group", False)


def test_a_reader_that_was_given_nothing_yet_is_not_done(
    scenes: Scenes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long it took to start, and takes to read: one that was given some, and then no more
    for long since it is ready, has read what it will.
    """
    given = {
        "event": "fetched",
        "topic": "orders",
        "partition": 0,
        "offset": 2,
        "reached": True,
        "record": "a",
        "conn": 1,
    }
    for seen, still_s, done in (((), 60.0, False), ((given,), 44.0, False), ((given,), 46.0, True)):
        said = Elsewhere(scenes, monkeypatch, *seen).trouble_after(still_s)
        assert said == (None if done else "the consumer has not read partition 0 to its end")


def holding(monkeypatch: pytest.MonkeyPatch, said: list[str]) -> SimpleNamespace:
    """Put something in the place of what holds a producer's requests, and of the waves; ``said``:
    what they were told.
    """
    notes = {name: lambda name=name: said.append(name) for name in ("start", "release", "close")}
    held = SimpleNamespace(holds=True, **notes)
    waves = SimpleNamespace(waiting=False, release=lambda: said.append("waves"))
    monkeypatch.setattr(feeding, "Holding", lambda *_, **__: held)
    monkeypatch.setattr(feeding, "Waves", lambda *_, **__: waves)
    return held


def feed_of(scene: Scene, said: list[str], fired: FaultState) -> DeclaredFeed:
    """Return the feed of a cell whose producer can be started; ``fired``: what the fault has done
    last.
    """
    producer: Any = SimpleNamespace(start=lambda: said.append("producer"), await_ready=lambda: None)
    return DeclaredFeed(scene, {Role.PRODUCER: producer}, nobody(scene), fired)


def test_what_a_producer_may_not_send_yet_is_not_exhausted(
    scenes: Scenes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault that has not fired is waited for; one that has is waited for by what is held."""
    fired, held = FaultState(), holding(monkeypatch, [])
    feed = feed_of(scenes("readings", fault=KILLS), [], fired)
    assert not feed.exhausted(), "nothing has begun"
    feed.start()
    assert not feed.exhausted()
    fired.fired = 1
    assert feed.exhausted()
    fired.fired = 0
    held.holds = False
    assert feed.exhausted()


@pytest.mark.parametrize("error", [None, NotFiredError, ConnectionError])
def test_a_producer_is_held_back_from_its_start_to_the_end_of_the_fault(
    scenes: Scenes, monkeypatch: pytest.MonkeyPatch, error: type[Exception] | None
) -> None:
    """Whatever becomes of that: nothing may be held when the drain begins."""
    said = list[str]()
    holding(monkeypatch, said)

    def inject(_: object) -> None:
        said.append("fault")
        if error is not None:
            raise error

    fault: Any = SimpleNamespace(
        at=KILLS.at,
        id=KILLS.id,
        evidence=KILLS.evidence,
        arm=lambda _: None,
        inject=inject,
    )
    scene = scenes("readings", fault=fault)
    feed = feed_of(scene, said, FaultState())
    nothing: Any = None
    run = CellRun(
        scene.cell,
        scene.history,
        Parts((), feed, nothing, nothing, nothing, (), freed=(feed.release,)),
    )
    run.load()
    assert said == ["start", "producer"]
    if error is ConnectionError:
        with pytest.raises(ConnectionError):
            run.inject()
    else:
        run.inject()
    assert said == ["start", "producer", "fault", "waves", "release"]


@pytest.mark.parametrize(
    ("case", "tail"),
    [
        ((5, 4, 35.1, False), True),
        ((5, 4, 0.0, True), True),
        ((5, 4, 34.0, False), False),  # clients that commit by a timer have had no time yet
        ((5, 3, 35.1, True), False),  # it is behind
        ((4, 4, 35.1, True), False),  # it has the last one in hand
    ],
)
@pytest.mark.parametrize("lives", [True, False])
def test_who_commits_every_so_many_records_leaves_a_tail(
    scenes: Scenes,
    monkeypatch: pytest.MonkeyPatch,
    case: tuple[int, int, float, bool],
    tail: bool,
    lives: bool,
) -> None:
    """It was given what is there, has recorded it, and lives: nothing is on its way, though its
    position is behind.
    """
    rows, given, still_s, known = case
    cell = scenes("orders").cell
    records = cell.load().records[:5]
    fetched = {"event": "fetched", "topic": "orders", "partition": 0, "reached": True, "conn": 1}
    seen = [
        fetched | {"offset": offset, "record": record.id}
        for offset, record in enumerate(records[: given + 1])
    ]
    opened = {"event": "conn", "phase": "open", "conn": 1, "role": "consumer"}
    ended = [] if lives else [{"event": "conn", "phase": "close", "conn": 1, "role": "consumer"}]
    reader = Reader(scenes, monkeypatch, opened, *seen, *ended, saved={0: 3})
    reader.rows = [cell.line(record) for record in records[:rows]]
    if known:
        reader.scene.learnt.silences.learn_tail(reader.scene.cell)
    trouble = reader.trouble_after(still_s)
    assert trouble == (None if tail and lives else "partition 0: position 3, last record at 4")
    assert reader.positions.tail is (tail and lives)


def test_what_a_log_says_again_and_again_is_shown_once() -> None:
    """And does not push out what it said before."""
    assert last_lines("Traceback\n" + "boom\n" * 40 + "\nbye\n") == [
        "Traceback",
        "boom (40 times)",
        "bye",
    ]
    assert last_lines("") == []


@pytest.mark.parametrize(
    ("fault", "step"),
    [
        (
            Kill(OnWire(Role.CONSUMER, Api.OFFSET_COMMIT, Direction.REQUEST), (Role.CONSUMER,)),
            ("consumer", "committed"),
        ),
        (
            Kill(OnWire(Role.CONSUMER, Api.FETCH, Direction.REQUEST), (Role.CONSUMER,)),
            ("consumer", "fetched"),
        ),
        (CrashAtWrite(Role.CONSUMER, (Api.FETCH, Direction.RESPONSE)), ("consumer", "fetched")),
        (
            Unanswered(OnWire(Role.PRODUCER, Api.PRODUCE, Direction.REQUEST), Api.INIT_PRODUCER_ID),
            ("producer", "produce_answer"),
        ),
    ],
)
def test_the_step_that_the_second_wave_waits_for(
    scenes: Scenes, fault: Any, step: tuple[str, str]
) -> None:
    scene, asked = scenes("orders", fault=fault), list[tuple[str, str]]()
    scene.stages_seen = SimpleNamespace(stepped=lambda *step: asked.append(step))  # type: ignore[assignment]
    scene.has_stepped()
    assert asked == [step]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({}, True),
        ({"api": "SyncGroup"}, True),
        ({"conn": 4}, False),
        ({"dir": "request"}, False),
        ({"api": "Fetch"}, False),
        ({"t": 1}, False),
    ],
    ids=["heartbeat", "member again", "another's", "only asked", "no word of the group", "before"],
)
def test_a_woken_process_is_told_over_its_own_connection(
    scenes: Scenes, monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any], said: bool
) -> None:
    """By any answer about its membership since it was woken: of a foreign program the kernel says
    which connections it has.
    """
    clock = Clock()
    clock.now = 0.5
    monkeypatch.setattr(abilities, "time", clock)
    for name, value in (
        ("PUT_OUT_S", 0.1),
        ("REJOINS_S", 0.1),
        ("is_alive", lambda _: True),
        ("local_ports", lambda _: {40}),
    ):
        monkeypatch.setattr(abilities, name, value)
    opened = [
        {"event": "conn", "phase": "open", "conn": conn, "peer": peer}
        for conn, peer in ((3, 40), (4, 41))
    ]
    late = {"event": "frame", "conn": 3, "api": "Heartbeat", "dir": "response", "t": 10**12}
    scene = scenes(
        "orders", *opened, {"event": "conn", "phase": "refused", "conn": 5}, {**late, **answer}
    )
    nodes = FaultTargets(scene, {}, {}, members=lambda: 0, victim=Victim(7))
    woken: Any = SimpleNamespace(name="consumer")
    members = ForeignMembership(scene, nodes)
    if said:
        members.await_put_out(woken)
        return
    with pytest.raises(
        WaitTimeoutError, match="the woken consumer to be told that it is out of the group"
    ):
        members.await_put_out(woken)
