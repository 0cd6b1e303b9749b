"""The page's model: lanes come from the data, what is drawn is what the history says, and large
runs stay small.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.judge.verdict import Kind, Verdict
from harness.model.history import read_history
from harness.model.scenario import Role
from harness.report.page.detail import COUNTED, Shared, detail_of, path_rows
from harness.report.page.evidence import next_step, proof_of, settings_of
from harness.report.page.model import CHUNK, fold, page_of, unfold
from harness.report.page.paths import Paths, anomalous
from harness.report.page.ribbons import MOST_STRETCHES, ribbons_of
from harness.report.page.timeline import timeline_of
from harness.saved import judge_cell
from tests.events import account, events_of, plain
from tests.judge import queue_runs
from tests.judge.queue_runs import deliver, queue_run
from tests.judge.runs import TARGET
from tests.report.hostile import ACK_LOST, ALO, hostile_run, result, run_of
from tests.report.lively import golden

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.judge.accounting import Account
    from harness.model.events import Event

GOLDEN = Path(__file__).parents[1] / "judge" / "golden"
Row = dict[str, Any]


class Tape:
    """Events in the order they are told, one millisecond apart."""

    def __init__(self) -> None:
        self.events: list[Row] = []

    def tell(self, event: str, by: str = "runner", **fields: object) -> Row:
        """Tell one event."""
        row: Row = {
            "t": len(self.events) * 1_000_000,
            "w": 0,
            "cell": "c",
            "by": by,
            "event": event,
            **fields,
        }
        self.events.append(row)
        return row

    def node(self, name: str, role: str, phase: str, **fields: Any) -> None:
        """Something became of a node."""
        self.tell("node", node=name, role=role, incarnation=1, phase=phase, pid=7, **fields)

    def frame(self, client: str, api: str, direction: str, corr: int) -> None:
        """The wire saw a frame."""
        self.tell(
            "frame",
            "wire",
            conn=1,
            role="client",
            node="broker-1",
            client=client,
            dir=direction,
            api=api,
            version=9,
            corr=corr,
            size=9,
        )


def test_lanes_are_found_in_the_data() -> None:
    """A driver and two executors have lanes of their own; the source stands first, the sink last,
    the wire before the broker.
    """
    tape = Tape()
    for name, role in (
        ("driver", "driver"),
        ("executor-1", "executor"),
        ("executor-2", "executor"),
        ("broker-1", "broker"),
    ):
        tape.node(name, role, "started")
    tape.frame("abc.executor-2.1", "Fetch", "request", 1)
    tape.tell("offered", record="a", key="k", position=1)
    timeline = timeline_of(events_of(tape.events))
    assert timeline is not None
    assert [lane.name for lane in timeline.lanes] == [
        "source",
        "wire",
        "broker-1",
        "driver",
        "executor-1",
        "executor-2",
        "sink",
    ]
    assert [(m.start, m.end) for m in timeline.messages] == [("executor-2", "broker-1")]


def test_who_sends_stands_before_the_wire_and_who_receives_behind_the_broker() -> None:
    tape = Tape()
    tape.node("b", "consumer", "started")
    tape.node("a", "producer", "started")
    tape.frame("x.b.1", "Fetch", "response", 1)
    tape.tell("fetched", "wire", record="r", partition=0, offset=0, epoch=0, conn=1, reached=True)
    tape.tell("taken", "a-1", record="r")
    tape.frame("x.a.1", "Produce", "request", 2)
    tape.tell("sent", "wire", record="r", request="1:2", attempt="a-1.0.1")
    timeline = timeline_of(events_of(tape.events))
    assert timeline is not None
    assert [lane.name for lane in timeline.lanes] == ["source", "a", "wire", "broker-1", "b"]


def sends(tape: Tape) -> None:
    """It sent a record; no program wrote that it took it."""
    tape.frame("x.n.1", "Produce", "request", 2)
    tape.tell("sent", "wire", record="r", request="1:2", attempt="n-1.0.1")


def takes(tape: Tape) -> None:
    """It took a record from the source."""
    tape.tell("taken", "n-1", record="r")


def is_fed(tape: Tape) -> None:
    """The runner gave it a record."""
    tape.tell("taken", "runner", record="r")


def fetches(tape: Tape) -> None:
    """It was given a record; the program wrote nothing of that."""
    tape.frame("x.n.1", "Fetch", "response", 1)
    tape.tell("fetched", "wire", record="r", partition=0, offset=0, epoch=0, conn=1, reached=True)


def receives(tape: Tape) -> None:
    """It wrote that it was given a record."""
    tape.tell("delivered", "n-1", record="r", partition=0, offset=0, epoch=0)


def works_on_a_batch(tape: Tape) -> None:
    """It is an engine, which works on batches."""
    tape.tell("batch", "n-1", phase="batch planned", batch=0, partition=0, offset=0, position=1)


def goes_on(tape: Tape) -> None:
    """It wrote where it begins, as senders and receivers do."""
    tape.tell("resumed", "n-1", where="cursor", position=0)


SENDER = ["n", "wire", "broker-1", "a", "z"]
OTHER = ["wire", "broker-1", "a", "n", "z"]
RECEIVER = ["wire", "broker-1", "a", "z", "n"]


@pytest.mark.parametrize(
    ("happens", "stands"),
    [
        ((goes_on,), OTHER),
        ((sends,), SENDER),
        ((takes,), SENDER),
        ((is_fed,), SENDER),
        ((takes, goes_on), SENDER),
        ((fetches,), RECEIVER),
        ((receives,), RECEIVER),
        ((works_on_a_batch,), RECEIVER),
        ((receives, goes_on), RECEIVER),
        ((takes, receives), RECEIVER),
        ((receives, takes), RECEIVER),
    ],
)
def test_a_lane_stands_where_a_record_comes_by(
    happens: tuple[Callable[[Tape], None], ...], stands: list[str]
) -> None:
    """A sender before the wire, a receiver at the end, and who does both with the receivers.
    Between the broker and the receivers stand the others, by name.
    """
    tape = Tape()
    for name, role in (("z", "driver"), ("n", "producer"), ("a", "driver")):
        tape.node(name, role, "started")
    tape.frame("x.z.1", "Metadata", "request", 9)
    for each in happens:
        each(tape)
    timeline = timeline_of(events_of(tape.events))
    assert timeline is not None
    assert [lane.name for lane in timeline.lanes if lane.kind != "source"] == stands


def test_what_a_rule_stopped_is_drawn_as_stopped() -> None:
    """A frame that was held and then discarded has that fate; one that was held and released has
    passed.
    """
    tape = Tape()
    for corr, last in ((1, "discarded"), (2, "released")):
        tape.frame("x.a.1", "Produce", "response", corr)
        for phase in ("hit", "held", last):
            tape.tell(
                "rule",
                "wire",
                rule="fault",
                phase=phase,
                conn=1,
                corr=corr,
                dir="response",
                api="Produce",
            )
    timeline = timeline_of(events_of(tape.events))
    assert timeline is not None
    assert [(m.fate, m.weight) for m in timeline.messages] == [("discarded", 3), ("", 3)]
    assert [mark.kind for mark in timeline.marks] == ["hit", "rule", "rule", "hit", "rule", "rule"]


def test_what_holds_back_the_load_is_drawn_as_no_hit_and_proves_nothing() -> None:
    """The fault began when its own rule was hit, though another held the producer at that time."""
    tape = Tape()
    for rule, corr in (("fault", 1), ("last-wave", 2)):
        tape.frame("x.a.1", "Produce", "request", corr)
        for phase in ("hit", "held", "released"):
            tape.tell(
                "rule",
                "wire",
                rule=rule,
                phase=phase,
                conn=1,
                corr=corr,
                dir="request",
                api="Produce",
            )
    tape.tell("fault", phase="fired", fault="kill")
    timeline = timeline_of(events_of(tape.events))
    assert timeline is not None
    assert [(m.hit, m.fate) for m in timeline.messages] == [(True, ""), (False, "")]
    assert [mark.kind for mark in timeline.marks if mark.lane == "wire"] == [
        "hit",
        "rule",
        "rule",
        "rule",
        "rule",
        "rule",
    ]
    assert timeline.fired == 10
    assert (
        sum(
            line.startswith("hit: ")
            for line in proof_of(golden("kept-after-a-crash").plan, events_of(tape.events))
        )
        == 1
    )


def test_a_transaction_ends_with_its_program() -> None:
    """Bars of transactions stop where they committed, or where the program died in them, and never
    run into the next.
    """
    tape = Tape()
    tape.node("a", "producer", "started")
    for name, outcome in (("a-1.1", "begun"), ("a-1.1", "committed"), ("a-1.2", "begun")):
        tape.tell("transaction", "a-1", transaction=name, outcome=outcome, error=None)
    tape.node("a", "producer", "exited", status=None, signal=9)
    tape.tell("transaction", "a-1", transaction="a-2.1", outcome="begun", error=None)
    timeline = timeline_of(events_of(tape.events))
    assert timeline is not None
    bars = [
        (band.text, band.start, band.end) for band in timeline.bands if band.kind == "transaction"
    ]
    assert bars == [
        ("transaction a-1.1 committed", 10, 20),
        ("transaction a-1.2: its program died in it", 30, 40),
        ("transaction a-2.1", 50, None),
    ]


@pytest.mark.parametrize("by", ["runner", "a-1"])
def test_who_is_fed_takes_the_records(by: str) -> None:
    """Over HTTP, or by standard input, the runner writes that it gave a record to the program: the
    arrow ends at that program, and no lane is the runner's.
    """
    tape = Tape()
    for name, role in (("db", "db"), ("b", "consumer"), ("a", "producer")):
        tape.node(name, role, "started")
    tape.tell("taken", by, record="r")
    timeline = timeline_of(events_of(tape.events))
    assert timeline is not None
    assert [(m.start, m.end) for m in timeline.messages] == [("source", "a")]
    assert "runner" not in {lane.name for lane in timeline.lanes}


def test_rest_is_drawn_short_and_what_happened_is_not() -> None:
    """Only housekeeping passes in a break; no message that tells something, no mark and no end of a
    band lies in one. A short run has none.
    """
    tape = Tape()
    tape.node("a", "producer", "started")
    tape.frame("x.a.1", "Produce", "request", 1)
    tape.tell("sent", "wire", record="r", request="1:1")
    tape.frame("x.a.1", "Heartbeat", "request", 2)
    tape.tell("drain", phase="begun")
    tape.tell("drain", phase="completed")
    assert timeline_of(events_of(tape.events)).breaks == ()  # type: ignore[union-attr]
    second = 1_000_000_000
    for event, at in zip(tape.events, (0, 1, 1, 20, 40, 41), strict=True):
        event["t"] = at * second
    timeline = timeline_of(events_of(tape.events))
    assert timeline is not None
    assert [(a // 10_000, -(-b // 10_000)) for a, b in timeline.breaks] == [(1, 40)]
    moments = [band.start for band in timeline.bands] + [mark.t for mark in timeline.marks]
    moments += [message.t for message in timeline.messages if message.weight > 1]
    assert not [t for t in moments for a, b in timeline.breaks if a < t < b]


def test_the_way_of_the_target_is_marked() -> None:
    """Taken, sent, answered, fetched; and it stays when a timeline is limited."""
    tape = Tape()
    tape.node("a", "producer", "started")
    for corr, record in enumerate("xry"):
        tape.tell("taken", "a-1", record=record)
        tape.frame("x.a.1", "Produce", "request", corr)
        tape.tell("sent", "wire", record=record, request=f"1:{corr}")
        tape.frame("x.a.1", "Produce", "response", corr)
        tape.tell("produce_answer", "wire", record=record, request=f"1:{corr}", offset=corr)
    timeline = timeline_of(events_of(tape.events), ("r",))
    assert timeline is not None
    assert [m.target for m in timeline.messages] == [False] * 3 + [True] * 3 + [False] * 3
    assert [m.target for m in timeline.limited(3).messages] == [True] * 3


def test_what_ends_after_the_drain_was_not_killed_by_the_fault() -> None:
    """The harness ends every node with SIGKILL at last; only deaths before that are drawn, and
    proved, as kills.
    """
    tape = Tape()
    tape.tell("fault", phase="fired", fault="kill")
    tape.node("b", "consumer", "exited", status=None, signal=9)
    tape.tell("drain", phase="completed")
    tape.node("b", "consumer", "exited", status=None, signal=9)
    timeline = timeline_of(events_of(tape.events))
    assert timeline is not None
    assert [mark.kind for mark in timeline.marks] == ["kill", "exit"]
    plan = golden("kept-after-a-crash").plan
    plan = replace(plan, evidence=replace(plan.evidence, killed=(Role.CONSUMER,)))
    assert sum("ended by signal 9" in line for line in proof_of(plan, events_of(tape.events))) == 1


def test_a_limited_timeline_keeps_what_tells_most() -> None:
    """The frames of the rule stay whatever the limit; then those with records; housekeeping goes
    first, and is counted.
    """
    tape = Tape()
    for corr in range(20):
        tape.frame("x.a.1", "Heartbeat" if corr % 2 else "Produce", "request", corr)
        if not corr % 2:
            tape.tell("sent", "wire", record=f"r{corr}", request=f"1:{corr}")
    tape.tell(
        "rule",
        "wire",
        rule="fault",
        phase="dropped",
        conn=1,
        corr=3,
        dir="request",
        api="Heartbeat",
    )
    timeline = timeline_of(events_of(tape.events))
    assert timeline is not None
    small = timeline.limited(6)
    assert (len(small.messages), small.idle, small.telling) == (6, 9, 5)
    assert [m.fate for m in small.messages if m.weight == 3] == ["dropped"]
    assert timeline.limited(20) is timeline


def test_batches_of_an_engine_are_bars_and_steps_of_a_record() -> None:
    """What a part of a node wrote is drawn on the node's lane; a batch ends with its commit, or
    with its program.
    """
    tape = Tape()
    tape.node("driver", "driver", "started")
    for batch, phase in (
        (0, "before-offset-log"),
        (0, "after-commit-log"),
        (1, "before-offset-log"),
    ):
        for partition in (0, 1):
            tape.tell(
                "batch",
                "driver-1-jvm",
                phase=phase,
                batch=batch,
                partition=partition,
                offset=5 * batch,
                position=5 * batch + 5,
            )
    tape.node("driver", "driver", "exited", status=None, signal=9)
    tape.tell(
        "stored", hop="topic", topic="t", partition=0, epoch=0, offset=7, record="r", visible=True
    )
    timeline = timeline_of(events_of(tape.events))
    assert timeline is not None
    assert [lane.name for lane in timeline.lanes] == ["driver"]
    bars = [(band.text, band.start, band.end) for band in timeline.bands if band.kind == "batch"]
    assert bars == [("batch 0 committed", 10, 30), ("batch 1: its program died in it", 50, 70)]
    assert len([mark for mark in timeline.marks if mark.kind == "step"]) == 3
    row: Any = {
        "record": "r",
        "key": "k",
        "position": 1,
        "state": "recorded",
        "recordings": 1,
        "absorbed": 0,
    }
    assert [
        hop.text for hop in Paths(events_of(tape.events)).of(row).hops if hop.by == "driver-1-jvm"
    ] == ["batch 1: before-offset-log"]


def test_a_bad_network_is_a_band_and_a_proof() -> None:
    """What was done to whose network is drawn while it was so, with what was counted meanwhile."""
    tape = Tape()
    tape.node("a", "producer", "started")
    tape.tell("network", role="producer", node="broker-1", phase="on", toxics=["latency 3000 ms"])
    tape.tell(
        "network", role="producer", node="broker-1", phase="off", toxics=[], sent=400, longest_s=3.1
    )
    timeline = timeline_of(events_of(tape.events))
    assert timeline is not None
    [band] = [band for band in timeline.bands if band.kind == "network"]
    assert (band.lane, band.start, band.end) == ("a", 10, 20)
    lines = proof_of(golden("kept-after-a-crash").plan, events_of(tape.events))
    assert "the producer's network to broker-1 made bad: latency 3000 ms" in lines
    assert (
        "the producer's network to broker-1 mended; counted meanwhile: bytes sent 400, longest "
        "wait for an answer in s 3.1"
    ) in lines


@pytest.mark.parametrize("cell", sorted(path.parent.name for path in GOLDEN.glob("*/cell.json")))
def test_every_golden_history_can_be_drawn(cell: str) -> None:
    """No history that the judge knows, damaged ones among them, is one that the page
    cannot tell.
    """
    detail, timeline = detail_of(golden(cell), Shared())
    assert not any("cannot be drawn" in line for line in detail["trouble"])
    assert timeline is not None
    assert detail["proof"]


def _rows(of: Account) -> list[Any]:
    """Return the rows of the record table."""
    return [
        {str(name): each for name, each in row.items()} for row in of.records.to_dict("records")
    ]


def test_a_path_tells_every_hop_of_a_duplicate_both_ways() -> None:
    found = golden("broken-by-a-duplicate")
    history = read_history(found.directory / "history")
    rows = _rows(found.judgement.account)
    row = anomalous(rows)[0]
    path = Paths(history.events).of(row)
    assert path.fate == "duplicated"
    stored = {hop.copy for hop in path.hops if hop.by == "log"}
    recorded = [hop.copy for hop in path.hops if hop.by == "sink"]
    assert stored == {"A", "B"}
    assert sorted(recorded) == ["A", "B"]
    assert path.hops[0].by == "source"
    times = [hop.ms for hop in path.hops if hop.ms is not None]
    assert times == sorted(times)


def test_a_lost_record_says_where_it_was_last_seen() -> None:
    """For every hop at which a record can be lost there is one in the golden history, and each path
    names it.
    """
    found = golden("lost-at-every-hop")
    rows = path_rows(found)
    lost = {row["record"]: row["sentence"] for row in rows if row["fate"] == "lost"}
    assert set(lost) == found.judgement.account.lost
    hops = {sentence.removeprefix("lost: ").partition(";")[0] for sentence in lost.values()}
    table = found.judgement.account.records
    assert hops == set(table.loc[table["record"].isin(set(lost)), "last_hop"])


def _copies(fates: str, at: int = 0) -> tuple[tuple[Event, ...], list[Any]]:
    """Make a log of one partition, and its record table, from letters: r(ecorded), l(ost),
    d(uplicated).
    """
    tape, rows = Tape(), list[Any]()
    tape.tell(
        "log",
        hop="topic",
        topic="t",
        partition=0,
        start=at,
        stable=at + len(fates),
        end=at + len(fates),
    )
    for place, fate in enumerate(fates):
        tape.tell(
            "stored",
            hop="topic",
            topic="t",
            partition=0,
            epoch=0,
            offset=at + place,
            record=f"r{place}",
            visible=True,
        )
        rows.append(
            {
                "record": f"r{place}",
                "position": place + 1,
                "state": "lost" if fate == "l" else "recorded",
                "recordings": {"r": 1, "l": 0, "d": 2}[fate],
            }
        )
    return events_of(tape.events), rows


def test_a_ribbon_tells_a_batch_from_scattered_losses() -> None:
    for fates, want in (("rrlllrr", 1), ("lrlrlrr", 3)):
        source, log = ribbons_of(*_copies(fates, at=5))
        assert sum(stretch.kind == "lost" for stretch in source.stretches) == want
        assert sum(stretch.kind == "lost" for stretch in log.stretches) == want
        assert (log.start, log.end) == (5, 12)


def test_a_ribbon_has_an_end() -> None:
    _, log = ribbons_of(*_copies("rl" * MOST_STRETCHES))
    assert (len(log.stretches), log.cut) == (MOST_STRETCHES, MOST_STRETCHES)


def test_an_aborted_copy_is_no_duplicate() -> None:
    """What stands below the last stable offset and is not visible was aborted; above it, its
    transaction is open.
    """
    events, rows = _copies("rrr")
    log_line, *copies = plain(events)
    copies[0]["visible"] = copies[2]["visible"] = False
    log_line["stable"] = 2
    _, log = ribbons_of(events_of([log_line, *copies]), rows)
    assert [stretch.kind for stretch in log.stretches] == ["aborted", "recorded", "left"]


def test_settings_are_shown_against_the_recipe() -> None:
    """A cell with the recipe differs in nothing; a variant says in what; a pipeline without a
    recipe shows its settings only.
    """
    plan = result(ACK_LOST, ALO, Verdict(Kind.KEPT, "kept")).plan
    assert settings_of(plan)[0] == []
    variant = replace(
        plan, settings=plan.settings | {"producer": plan.settings["producer"] | {"acks": 0}}
    )
    assert settings_of(variant)[0] == [("producer.acks", "0", "all")]
    other = replace(plan, pipeline="spark-batch", settings={"driver": {"memory": "1g"}})
    assert settings_of(other) == ([], {"driver.memory": "1g"})


def test_every_outcome_has_a_next_step() -> None:
    assert all(next_step(one) for one in hostile_run().results)


def test_a_page_of_many_cells_stays_small() -> None:
    """Every timeline shows less when there are many; the page's texts are written once however many
    cells have them.
    """
    one = golden("kept-after-a-crash")
    small, large = (page_of(replace(run_of(one), results=(one,) * count)) for count in (1, 60))
    assert sum(len(unfold(chunk)) for chunk in large.details) == 60
    assert len(large.details) == 60 / CHUNK
    assert len(set(large.anchors)) == 60
    assert json.loads(large.index)["texts"] == json.loads(small.index)["texts"]
    assert unfold(large.details[2])[7] == unfold(small.details[0])[0]


def test_alike_cells_fold_well() -> None:
    """Twenty cells that differ little weigh less than two: the page can be mailed."""
    [detail] = unfold(page_of(run_of(golden("kept-after-a-crash"))).details[0])
    assert len(fold([detail] * 20)) < 2 * len(fold([detail]))


def test_more_anomalies_than_fit_are_counted_and_lie_beside_the_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first are inline, the rest is a number, and the file beside the page has every one."""
    found = golden("lost-at-every-hop")
    monkeypatch.setattr("harness.report.page.detail.PATHS_PER_CELL", 2)
    detail, _ = detail_of(found, Shared())
    anomalies = len(path_rows(found))
    assert anomalies > 2
    assert detail["more"] == anomalies - 2
    assert len([path for path in detail["paths"] if path[3] in ("lost", "duplicated")]) <= 3


NONSENSE: list[Any] = [None, [], ["x"], {}, {"a": []}, "x", -1, 1.5, True]
FIELDS = (
    "record",
    "records",
    "node",
    "role",
    "incarnation",
    "partition",
    "partitions",
    "offset",
    "request",
    "phase",
    "attempt",
    "api",
    "conn",
    "corr",
    "client",
    "position",
    "transaction",
    "outcome",
    "error",
    "hop",
    "topic",
    "pid",
)


@pytest.mark.parametrize(
    "kind",
    ["node", "fault", "rule", "frame", "sent", "fetched", "transaction", "ready", "conn", "stored"],
)
@pytest.mark.parametrize("value", NONSENSE, ids=str)
def test_nonsense_in_a_history_ends_no_page(tmp_path: Path, kind: str, value: object) -> None:
    """Fields of any type are drawn as they are, or the cell's page says that its history cannot be
    drawn.
    """
    directory = tmp_path / "cell"
    shutil.copytree(GOLDEN / "kept-after-a-crash", directory)
    line = {"t": 1, "by": value, "event": kind} | dict.fromkeys(FIELDS, value)
    (directory / "history" / "nonsense.jsonl").write_text(f"{json.dumps(line)}\n", encoding="utf-8")
    found = judge_cell(directory)
    page = page_of(run_of(found))
    assert unfold(page.details[0])[0]["proof"]
    assert path_rows(found) is not None


def test_the_account_of_the_page_is_the_judges() -> None:
    """The page counts nothing itself: what it shows of a cell are the numbers of the account."""
    found = golden("kept-though-it-loses")
    detail, _ = detail_of(found, Shared())
    counts = account(read_history(found.directory / "history").events).counts
    words = [
        (COUNTED.get(name, name.replace("_", " ")), count)
        for name, count in counts.items()
        if count
    ]
    assert detail["counts"] == words


def test_a_path_through_a_queue_names_places_and_no_offsets() -> None:
    """What was moved keeps its letter, a second copy has its own; what was taken away, and why, is
    told; no ribbon is drawn.
    """
    story = queue_run()
    story.moved(TARGET, queue_runs.place(TARGET), "later:1")
    story.copy(TARGET, "later:1", queue="later", attempt="producer-2.3.1")
    story.copy(TARGET, "q:9", "ready", queue="q", attempt="producer-2.90.1")
    story.removed(TARGET, "later:1", "expiry")
    deliver(story, TARGET, again=True)
    rows = _rows(account(story.events))
    path = Paths(events_of(story.events)).of(next(row for row in rows if row["record"] == TARGET))
    assert not [
        hop.text
        for hop in path.hops
        if "None" in hop.text and not hop.text.startswith("lostack's fault")
    ]
    told = {(hop.by, hop.text, hop.copy) for hop in path.hops}
    assert told >= {
        ("queue", "stored in q: q:3, attempt producer-2.3.1", "A"),
        ("broker", "moved from q:3 to later:1", "A"),
        ("queue", "stored in later: later:1, attempt producer-2.3.1", "A"),
        ("broker", "taken away from later:1: expiry", "A"),
        ("queue", "stored in q: q:9, attempt producer-2.90.1, waits: ready", "B"),
        ("sink", "recorded, row 3: from q:3", "A"),
        ("consumer-1", "delivered, again, as the broker says", ""),
    }
    assert [ribbon.name for ribbon in ribbons_of(events_of(story.events), rows)] == ["source"]


def test_what_was_set_aside_has_its_path_told() -> None:
    story = queue_run()
    story.events[:] = [
        row for row in story.events if not (row["event"] == "recorded" and row["record"] == TARGET)
    ]
    story.copy(TARGET, "dlq:1", "ready", hop="aside", queue="dlq")
    rows = _rows(account(story.events))
    assert [row["record"] for row in anomalous(rows)] == [TARGET]
