"""What a run of a declared pipeline says of an input, an output and a log that are not what they should be; without a broker."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from harness.systems.declared.run import DeclaredBench, DeclaredRun, Result

from harness.controls import OnWire
from harness.core.identity import Identity
from harness.core.scenario import Role
from harness.core.states import Hop
from harness.core.waiting import WaitTimeoutError
from harness.faults import CrashAtWrite, Kill, NoFault, Unanswered
from harness.pipelines import failure_points, read_pipeline
from harness.pipelines.cells import cells_of
from harness.pipelines.declaration import Output, OutputKind
from harness.systems.declared import run as declared
from harness.systems.declared.nodes import StageError, last_lines
from harness.systems.declared.outputs import Columns, Row
from harness.systems.declared.sighted import Sighted
from harness.systems.declared.silence import Silences, name_of
from harness.systems.kafka.observer import LogCopy, LogEnds, WholeLog
from harness.wire.rules import Api, Direction
from tests.core.growing import so_far_of

EXAMPLES = Path(__file__).parents[2] / "examples"


class Told:
    """A history that is only listened to."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def write(self, event: str, **fields: Any) -> None:
        """Take a line."""
        self.lines.append({"event": event, **fields})


def run_of(example: str, **parts: Any) -> DeclaredRun:
    """Return a run of an example that was never prepared: just what the checks look at."""
    pipeline = read_pipeline(EXAMPLES / example / "pipeline.toml")
    [cell] = cells_of(pipeline, failure_points(pipeline)[:1])
    run: Any = object.__new__(DeclaredRun)
    run.cell, run._pipeline, run._load, run.history = cell, pipeline, cell.load(), Told()
    run._known = {record.id: record for record in run._load.records}
    for name, part in parts.items():
        setattr(run, f"_{name}", part)
    found: DeclaredRun = run
    return found


def saw(run: DeclaredRun, folder: Path, *events: dict[str, Any]) -> None:
    """Let the wire have seen this in a run."""
    run._so_far = so_far_of(folder, *events)
    run.sighted = Sighted(run._so_far)


@pytest.mark.parametrize(("example", "ids", "said"), [
    ("readings", ["r-1", "r-2"], None),
    ("readings", ["r-1", "r-2", "r-1"], "the input has the id 'r-1' 2 times"),
    ("readings", ["r-0", "r-1"], "the producer made a record 'r-0', and what the input's line says are 'r-1' to 'r-48'"),
    ("orders", ["k3-1", "k3-1"], None),  # offered once: that its producer has sent it twice is a finding
    ("orders", ["x", "x"], "the input has the id 'x' 2 times"),
    ("orders", [None, None], None),
])  # fmt: skip
def test_an_input_that_is_not_what_was_declared(example: str, ids: list[str | None], said: str | None) -> None:
    """Of what a producer makes itself, the topic tells; what lostack has offered, it knows."""
    run = run_of(example)
    if said is None:
        run._check_input(ids)
        return
    with pytest.raises(StageError, match=said):
        run._check_input(ids)


def test_results_of_an_earlier_run_are_not_this_ones() -> None:
    """They would be duplicates that nobody has made; what an output holds of other things is nobody's business."""
    rows = ["something else"]
    run = run_of("readings", results=SimpleNamespace(rows=lambda: rows))
    run._check_output_is_fresh()
    rows.append("r-7 21")
    with pytest.raises(StageError, match=r"has records of this run before it has begun, as 'r-7 21': .*\{work\}"):
        run._check_output_is_fresh()


def test_what_was_deleted_from_a_topic_was_seen_there(tmp_path: Path) -> None:
    """The wire knows at which offsets records were; below the start of the log they are no more."""
    sent = [{"event": "sent", "topic": "orders", "partition": 1, "request": f"1:{n}", "record": f"k-{n}"} for n in (1, 2, 3)]
    answers = [{"event": "produce_answer", "request": f"1:{n}", "record": f"k-{n}", "error": 0, "offset": n} for n in (1, 2, 3)]
    fetched = [{"event": "fetched", "topic": "orders", "partition": 1, "offset": 0, "record": "k-0"},
               {"event": "fetched", "topic": "priced", "partition": 1, "offset": 0, "record": "p-0"}]  # fmt: skip
    run = run_of("orders")
    saw(run, tmp_path, *sent, *answers, *fetched)
    run._observe_deleted(1, 3)
    told: Any = run.history
    assert [(line["record"], line["offset"]) for line in told.lines] == [("k-0", 0), ("k-1", 1), ("k-2", 2)]


def test_who_holds_readers_back_for_long_is_written_down() -> None:
    """From when it was first seen until it is over; a transaction that is under way is nothing to tell."""
    ends = {0: LogEnds(0, 3, 4)}
    run = run_of("orders", held_back=(None, 0.0))
    run.sighted = SimpleNamespace(topics=set)  # type: ignore[assignment]
    run.deployed = SimpleNamespace(observer=SimpleNamespace(ends=lambda _: ends))  # type: ignore[assignment]
    told: Any = run.history
    for began_s, lines in ((1, []), (61.5, [("orders/0", 61.5)])):
        ends[0] = LogEnds(0, 3, 4)
        assert run.log_trouble() == "orders/0: last stable offset 3, high watermark 4"
        run._held_back = "orders/0", time.monotonic() - began_s
        assert run.log_trouble() is not None
        ends[0] = LogEnds(0, 4, 4)
        assert run.log_trouble() is None
        assert [(line["log"], line["seconds"]) for line in told.lines] == lines


@pytest.mark.parametrize(("error", "batch", "told"), [(10, 1, True), (18, 1, True), (10, 2, False), (7, 1, False)])
def test_a_record_that_is_too_large_is_told_at_once(tmp_path: Path, error: int, batch: int, told: bool) -> None:
    """By its id, and without waiting for anything; a batch may be sent again in parts, and other errors be passing."""
    ids = [f"k-{n}" for n in range(batch)]
    sent = [{"event": "sent", "topic": "orders", "partition": 0, "request": "1:7", "record": record} for record in ids]
    answers = [{"event": "produce_answer", "request": "1:7", "record": record, "error": error, "reached": True} for record in ids]
    run = run_of("orders", fault=NoFault(), nodes={}, workers=SimpleNamespace(missed=lambda: None))
    saw(run, tmp_path, *sent, *answers)
    if not told:
        assert run.stage_trouble() is None
        return
    with pytest.raises(StageError, match="the record k-0 is too large for orders: the broker refuses it"):
        run.stage_trouble()
    setattr(run, "_fault", None)  # noqa: B010 - mypy knows it as a fault
    assert run.stage_trouble() is None


@pytest.mark.parametrize("kind", ["stdout", "sqlite"])
def test_when_it_prints_is_its_own_where_that_is_the_output(kind: str, tmp_path: Path) -> None:
    """Else what a Python program prints is seen at once, for whoever looks for why it has ended."""
    run: Any = run_of("orders", work=tmp_path, log=tmp_path, lease=SimpleNamespace(port=1))
    output = Output(kind=OutputKind.STDOUT) if kind == "stdout" else run._pipeline.output
    run._pipeline = dataclasses.replace(run._pipeline, output=output)
    started: list[Any] = []
    runtime = SimpleNamespace(start=lambda spec: started.append(spec) or SimpleNamespace(pid=1))
    run.deployed = SimpleNamespace(bootstrap=lambda _: "x:1", fetched=SimpleNamespace(jars={}), runtime_of=lambda _: runtime)
    run.directory = tmp_path
    for stage in run._pipeline.stages:
        run._node(stage).start()
    assert [spec.env["PYTHONUNBUFFERED"] for spec in started] == ["1", "" if kind == "stdout" else "1"]


def test_nothing_printed_may_stand_in_a_buffer() -> None:
    """That is told where nothing came of a program whose output is what it prints."""
    run: Any = run_of("orders", results=SimpleNamespace(rows=list))
    run._values = lambda _: {}
    assert "buffer" not in run._nothing_arrived()
    run._pipeline = dataclasses.replace(run._pipeline, output=Output(kind=OutputKind.STDOUT))
    assert "it holds nothing (what a program prints into a pipe or a file stands in a buffer of its own" in run._nothing_arrived()


def copy_of(offset: int, value: str) -> LogCopy:
    """Return a copy in a log."""
    return LogCopy(0, 0, offset, None, value.encode(), None, None, visible=True)


def test_what_was_never_offered_is_written_down_as_it_stands() -> None:
    """So that the verdict can show it; of what is known its id says enough."""
    run = run_of("readings", fault=None)
    copies = (copy_of(0, '{"reading": "r-1"}'), copy_of(1, '{"reading": "r-0"}' + " " * 200))
    run._observe_results([Result(("r-1",), 1, "r-1 21"), Result(("r-0",), 2, "r-0 " + "7" * 200)], ())
    run._observe_log(Hop.TOPIC, "readings", WholeLog({0: LogEnds(0, 2, 2)}, copies))
    told: Any = run.history
    texts = {(line["event"], line["record"]): line.get("text") for line in told.lines if "record" in line}
    assert texts == {
        ("recorded", "r-1"): None, ("recorded", "r-0"): "r-0 " + "7" * 116,
        ("stored", "r-1"): None, ("stored", "r-0"): '{"reading": "r-0"}' + " " * 102,
    }  # fmt: skip


@pytest.mark.parametrize("example", ["readings", "orders"])  # [id] and Parquet, tokens and SQLite
def test_a_header_or_a_footer_is_no_result_and_no_phantom(example: str) -> None:
    """It has no id, neither in the output nor in a topic that is the output; how many there are, and the first, is told."""
    run: Any = run_of(example, fault=None)
    rows = ["reading value", run.cell.line(run._load.records[0]), "TOTAL 48"]
    run._observe_results([Result(run._ids_in(row), order, row) for order, row in enumerate(rows, start=1)], ())
    run._observe_log(Hop.SINK, "out", WholeLog({0: LogEnds(0, 3, 3)}, tuple(copy_of(n, row) for n, row in enumerate(rows))))
    told: Any = run.history
    assert [line["record"] for line in told.lines if line["event"] == "recorded"] == [run._load.records[0].id]
    assert [line["foreign"] for line in told.lines if line["event"] == "stored"] == [True, False, True]
    assert [(line["count"], line["text"]) for line in told.lines if line["event"] == "unnamed"] == [(2, "reading value")]


@pytest.mark.parametrize(("rows", "count", "results"), [
    ([("r-1", 21), ("r-2", 22)], 0, ["r-1", "r-2"]),
    ([("r-1", 21), ("r-2", None)], 1, ["r-1", None]),
    ([("r-1", 21), ("r-1", None)], 0, ["r-1", "r-1"]),  # it is there, and there is a second copy
    ([("r-1", None), ("r-1", None)], 2, [None, None]),
    ([("TOTAL", None), ("r-2", 22)], 0, [None, "r-2"]),
])  # fmt: skip
def test_a_row_that_was_begun_and_not_filled_in_is_no_result(
    rows: list[tuple[str, int | None]], count: int, results: list[str | None]
) -> None:
    """Where every row without a fault had something in a column, one that has nothing there is none: for drain and verdict."""
    columns = Columns()
    run: Any = run_of("readings", fault=None, results=SimpleNamespace(rows=lambda: [Row.of(row) for row in rows]))
    run.deployed = SimpleNamespace(columns=columns)
    whole = [record if record in run._known else None for record, _ in rows]
    assert run.results() == whole, "nothing is known of it yet"
    name = name_of(run._pipeline)
    columns.learn(name, [Row.of((f"r-{number}", number)) for number in range(9)])
    assert run.results() == results
    run._observe_results(run._results_in(run._rows()), ())
    told: list[dict[str, Any]] = run.history.lines
    assert [line["record"] for line in told if line["event"] == "recorded"] == [each for each in results if each]
    unfilled = [line for line in told if line["event"] == "unfilled"]
    assert [(line["count"], line["columns"]) for line in unfilled] == ([(count, [2])] if count else [])
    columns.learn(name, [Row.of(("r-1", None))])
    assert run.results() == whole, "it is empty without a fault, too"


@pytest.mark.parametrize(("row", "held"), [
    ("r-1 21", 1), ("r-1 21, before r-1 20", 1), ("r-1 21, r-99 20", 1), ("r-1 21, r-2 20", 2), ("r-7 r-8 r-9", 3),
])  # fmt: skip
def test_what_holds_the_ids_of_several_records_is_refused(row: str, held: int) -> None:
    """A row is one result, and a record of a topic one copy: the first of several ids would hide the others."""
    run = run_of("readings")
    results = [Result(run._ids_in("r-3 20"), 1, "r-3 20"), Result(run._ids_in(row), 2, row)]
    assert results[1].record == row[:3]
    if held == 1:
        run._check_ids("row of the output", results)
        return
    with pytest.raises(
        StageError, match=rf"a row of the output holds the ids of {held} records \('{row[:3]}', .*let the pattern in"
    ):
        run._check_ids("row of the output", results)


def test_only_where_an_id_is_looked_for_several_are_too_many() -> None:
    """A value may say what it likes where the key is the id."""
    found = Identity(r"r-\d+", where="key").find_every(b"r-1", b"r-2 r-3")
    assert found == ("r-1",)
    assert Identity(r"r-\d+").find_every(b"r-1", b"r-2 r-3") == ("r-2", "r-3")
    assert Identity(r"r-\d+", where="header:id").find_every(b"r-1", b"r-2", [("x", b"r-3"), ("id", b"r-4")]) == ("r-4",)


def position_of(folder: Path, reader: str, still_s: float, *, offset: int = 4, size: int = 1, fault: Any = None) -> str | None:
    """Ask a run for its position, when it has been given records up to an offset, and saved none; the last is 4."""
    at = time.monotonic_ns() - int(still_s * 1e9)
    asked = {"event": "frame", "conn": 1, "role": "consumer", "api": reader, "dir": "request", "t": at}
    given = {"event": "fetched", "topic": "orders", "partition": 0, "offset": offset, "reached": True, "record": "a", "conn": 1,
             "t": at}  # fmt: skip
    observer = SimpleNamespace(positions=lambda *_: {}, visible=lambda *_: {0: 4})
    stage = SimpleNamespace(position="group")
    deployed = SimpleNamespace(observer=observer, groups=lambda _: ())
    run = run_of("orders", fault=fault or NoFault(), nodes={Role.CONSUMER: SimpleNamespace(stage=stage)},
                 results=SimpleNamespace(size=lambda: size), written=(1, time.monotonic() - still_s))  # fmt: skip
    run.deployed = deployed  # type: ignore[assignment]
    saw(run, folder / str(at), asked, given)
    return run.position_trouble()


@pytest.mark.parametrize(("reader", "still_s"), [("Fetch", 3.1), ("FindCoordinator", 35.1)])
def test_who_saves_no_position_is_told_so_as_soon_as_it_is_known(tmp_path: Path, reader: str, still_s: float) -> None:
    """When it has been given everything, and writes nothing more: without a group soon, with one when clients have committed."""
    with pytest.raises(StageError, match=r"no consumer group has ever saved a position in orders; .*position = .elsewhere"):
        position_of(tmp_path, reader, still_s)
    for early_s, unlike in ((0.5, {}), (0.0, {"offset": 3}), (0.0, {"size": 2})):
        early = position_of(tmp_path, reader, still_s - early_s, **unlike)
        assert early is not None
        assert early.startswith("no consumer group has ever saved")
    kills = Kill(OnWire(Role.CONSUMER, Api.FETCH, Direction.RESPONSE), (Role.CONSUMER,))
    assert position_of(tmp_path, reader, still_s, fault=kills)


def test_what_a_producer_may_not_send_yet_is_not_exhausted() -> None:
    """A fault that has not fired is waited for; one that has is waited for by what is held."""
    feeder, waves, held = SimpleNamespace(exhausted=lambda: True), SimpleNamespace(waiting=False), SimpleNamespace(holds=True)
    bench = SimpleNamespace(has_fired=False)
    run = run_of("readings", feeder=feeder, waves=waves, holding=held, bench=bench)
    assert not run._exhausted()
    bench.has_fired = True
    assert run._exhausted()
    bench.has_fired = held.holds = False
    assert run._exhausted()


def test_a_producer_is_held_back_from_its_start_to_the_end_of_the_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever becomes of that: nothing may be held when the drain begins."""
    said: list[str] = []
    note = {name: lambda *_, name=name: said.append(name) for name in ("start", "release", "close")}
    monkeypatch.setattr("harness.systems.declared.run.Holding", lambda *_, **__: SimpleNamespace(**note))
    fault: Any = Kill(OnWire(Role.CONSUMER, Api.FETCH, Direction.RESPONSE), (Role.CONSUMER,))
    producer = SimpleNamespace(start=lambda: said.append("producer"), await_ready=lambda: None)
    run = run_of(
        "readings", fault=fault, nodes={Role.PRODUCER: producer}, waves=SimpleNamespace(release=lambda: None), bench=None
    )
    run.deployed, run.sighted, run.attribute = SimpleNamespace(wire=None), None, lambda: None  # type: ignore[assignment, method-assign]
    run._so_far = None  # type: ignore[assignment]
    run.load()
    assert said == ["start", "producer"]
    with pytest.raises(AttributeError):
        run.inject()  # there is no bench: as where a node fails meanwhile
    assert said == ["start", "producer", "release"]


@pytest.mark.parametrize(("case", "tail"), [
    ((5, 4, 35.1, False), True),
    ((5, 4, 0.0, True), True),
    ((5, 4, 34.0, False), False),  # clients that commit by a timer have had no time yet
    ((5, 3, 35.1, True), False),  # it is behind
    ((4, 4, 35.1, True), False),  # it has the last one in hand
])  # fmt: skip
@pytest.mark.parametrize("lives", [True, False])
def test_who_commits_every_so_many_records_leaves_a_tail(
    tmp_path: Path, case: tuple[int, int, float, bool], tail: bool, lives: bool
) -> None:
    """It was given what is there, has recorded it, and lives: nothing is on its way, though its position is behind."""
    rows, given, still_s, known = case
    at = time.monotonic_ns() - int(still_s * 1e9)
    ids = [record.id for record in run_of("orders")._load.records[:5]]
    fetched = {"event": "fetched", "topic": "orders", "partition": 0, "reached": True, "conn": 1}
    seen = [fetched | {"offset": offset, "record": record} for offset, record in enumerate(ids[: given + 1])]
    observer = SimpleNamespace(positions=lambda *_: {0: 3}, visible=lambda *_: {0: 4})
    stage = SimpleNamespace(position="group")
    nodes = {Role.CONSUMER: SimpleNamespace(stage=stage)}
    run = run_of("orders", fault=NoFault(), nodes=nodes, results=SimpleNamespace(size=lambda: 1), owners={},
                 written=(1, time.monotonic() - still_s))  # fmt: skip
    run.silences = Silences()
    if known:
        run.silences.learn_tail(run.cell)
    run.deployed = SimpleNamespace(observer=observer, groups=lambda _: ("billing",))  # type: ignore[assignment]
    run._so_far, run.results = so_far_of(tmp_path, *seen), lambda: ids[:rows]  # type: ignore[method-assign]
    sighted = SimpleNamespace(last=at, groups=lambda _: set(), read_topics=set, is_open=lambda _: lives)
    run.sighted = sighted  # type: ignore[assignment]
    assert run.position_trouble() == (None if tail and lives else "partition 0: position 3, last record at 4")


def test_what_a_log_says_again_and_again_is_shown_once() -> None:
    """And does not push out what it said before."""
    assert last_lines("Traceback\n" + "boom\n" * 40 + "\nbye\n") == ["Traceback", "boom (40 times)", "bye"]
    assert last_lines("") == []


@pytest.mark.parametrize(("fault", "step"), [
    (Kill(OnWire(Role.CONSUMER, Api.OFFSET_COMMIT, Direction.REQUEST), (Role.CONSUMER,)), ("consumer", "committed")),
    (Kill(OnWire(Role.CONSUMER, Api.FETCH, Direction.REQUEST), (Role.CONSUMER,)), ("consumer", "fetched")),
    (CrashAtWrite(Role.CONSUMER), ("consumer", "fetched")),
    (Unanswered(OnWire(Role.PRODUCER, Api.PRODUCE, Direction.REQUEST), Api.INIT_PRODUCER_ID), ("producer", "produce_answer")),
])  # fmt: skip
def test_the_step_that_the_second_wave_waits_for(fault: Any, step: tuple[str, str]) -> None:
    """The one that the fault is at, wherever that is."""
    run, asked = run_of("orders", fault=fault), list[tuple[str, str]]()
    run.sighted = SimpleNamespace(stepped=lambda *step: asked.append(step))  # type: ignore[assignment]
    run._has_stepped()
    assert asked == [step]


@pytest.mark.parametrize(("answer", "told"), [
    ({}, True), ({"api": "SyncGroup"}, True), ({"conn": 4}, False), ({"dir": "request"}, False), ({"api": "Fetch"}, False),
    ({"t": 1}, False),
], ids=["heartbeat", "member again", "another's", "only asked", "no word of the group", "before"])  # fmt: skip
def test_a_woken_process_is_told_over_its_own_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any], told: bool
) -> None:
    """By any answer about its membership since it was woken: of a foreign program the kernel says which connections it has."""
    for name, value in (("PUT_OUT_S", 0.1), ("REJOINS_S", 0.1), ("is_alive", lambda _: True), ("local_ports", lambda _: {40})):
        monkeypatch.setattr(declared, name, value)
    bench: Any = object.__new__(DeclaredBench)
    bench._victim = 7
    opened = [{"event": "conn", "phase": "open", "conn": conn, "peer": peer} for conn, peer in ((3, 40), (4, 41))]
    late = {"event": "frame", "conn": 3, "api": "Heartbeat", "dir": "response", "t": time.monotonic_ns() + 10**12}
    bench.so_far = so_far_of(tmp_path, *opened, {"event": "conn", "phase": "refused", "conn": 5}, {**late, **answer})
    if told:
        bench.await_put_out(SimpleNamespace(name="consumer"))
        return
    with pytest.raises(WaitTimeoutError, match="the woken consumer to be told that it is out of the group"):
        bench.await_put_out(SimpleNamespace(name="consumer"))
