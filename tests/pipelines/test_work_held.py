"""How the work of a stage is held on its way out, and let go: without a broker, a tracer, or a wire
that carries anything.
"""

from __future__ import annotations

import time
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from harness.controls import InHand, OnWire
from harness.model.failures import CellFailure
from harness.model.scenario import Role
from harness.model.writes import FirstWrites
from harness.pipelines.dialects import KAFKA
from harness.protocols.kafka.steps import Api
from harness.runtimes.process.traced import HeldThread, Write
from harness.systems.declared import overtaking
from harness.systems.declared.overtaking import MarksInSource, WorkOnItsWay
from harness.systems.declared.programs.tracing import StageTracer
from harness.systems.declared.programs.workers import Victim
from harness.wire.rules import Direction
from tests.events import events_of

if TYPE_CHECKING:
    from harness.model import events as kinds

AT = OnWire(Role.PROCESSOR, Api.FETCH, Direction.RESPONSE)
SAVES = OnWire(Role.PROCESSOR, Api.OFFSET_COMMIT, Direction.RESPONSE)
SENDS = OnWire(Role.PROCESSOR, Api.PRODUCE, Direction.REQUEST)
BOTH = InHand(AT, SAVES, FirstWrites(("/w/out",)), (SENDS,), within_s=0.1, quiet_s=0.02)
WRITE = HeldThread(Write(1, 71, "fsync", 1, ("/w/out",), 5, None, delayed=False), 70)


class Bench:
    """A stage, its wire, and its history; a test says what happens to them."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.seen: list[dict[str, Any]] = [
            {"event": "rule", "rule": "fault", "phase": "hit", "records": ["k-1"], "t": 1}
        ]
        self.threads: list[HeldThread] = []
        self.written: list[Write] = []
        self.victim: int | None = None
        """The process that the fault strikes alone."""
        self.number = 2
        """The member that it is of."""
        self.among: object = None
        self.ended = False
        self.taken_over = False
        self.busy = 0
        """How often a thread is held as soon as the stage is traced, because it is busy."""
        self.then: dict[str, Any] = {}
        """What happens when something is done, by its name."""
        self.now = 10
        self.silent_s = 0.0
        """Twice the longest silence of a run without a fault."""

    def still(self, least: float) -> float:
        """Return how long nothing may move."""
        return max(least, self.silent_s)

    def note(self, what: str) -> None:
        """Write down what was done, and let happen what follows from it."""
        self.done.append(what)
        if what in self.then:
            self.then[what]()

    def hit(self, rule: str, *records: str, held: str | None = None) -> None:
        """Let a rule be hit."""
        self.now += 1
        line = {"event": "rule", "rule": rule, "phase": "hit", "records": list(records)}
        about = {"held": held, "api": "x", "conn": 3, "role": "producer"}
        self.seen.append(line | about | {"t": self.now, "w": self.now})

    # what the parts under test use of a cell
    def trace(self, _log: object, _point: object = None, among: object = None) -> None:
        """Trace the stage."""
        self.among = among
        self.threads = [WRITE] if self.busy else []
        self.busy = max(0, self.busy - 1)
        self.note("trace")

    def untrace(self) -> None:
        """Let the threads go."""
        self.threads = []
        self.note("untrace")

    def of(self, *wanted: Any) -> list[Any]:
        """Return what was seen of a kind: the rules that were hit, and answers."""
        return [e for e in events_of(self.seen) if isinstance(e, wanted)]

    def answer(
        self, api: str, node: str, conn: int, error: int = 0, role: str = "producer"
    ) -> None:
        """Let a server answer."""
        self.now += 1
        line = {"event": "frame", "dir": "response", "api": api, "node": node, "role": role}
        self.seen.append(line | {"conn": conn, "error": error, "t": self.now})

    def write(self, event: kinds.Work) -> None:
        """Write down a line about the work."""
        self.note(str(event.phase))

    def holds(self) -> list[Any]:
        """Return what the wire holds."""
        return [SimpleNamespace(cell="cell", rule="work-1", held="h1")]

    def put_beside(self, rule: Any) -> None:
        """Arm a rule that is no trigger."""
        self.note(f"arm {rule.id}{f' into {rule.topic}' if rule.topic else ''}")

    def parts(self, kind: type) -> Any:
        """Return the part under test."""
        tracing = SimpleNamespace(standing=lambda: self.threads, writes=lambda: self.written)
        traced: Any = SimpleNamespace(tracing=tracing, _temporary="/t", _uncounted={"/w/log"})
        stage = SimpleNamespace(
            name="processor",
            processes=SimpleNamespace(
                number_of=lambda _: self.number, by_number=lambda: {1: [60], 2: [70, 71]}
            ),
            tracer=SimpleNamespace(
                start=self.trace,
                end=self.untrace,
                tracing=tracing,
                saved=lambda: StageTracer.saved(traced),
            ),
            stopped_itself=lambda: self.ended,
            error=lambda what: CellFailure(f"the processor {what}"),
        )
        wire = SimpleNamespace(
            arm=lambda _cell, rule: self.note(f"arm {rule.id}"),
            disarm=lambda _cell, rule: self.note(f"disarm {rule}"),
            holds=self.holds,
            resolve=lambda held, how: self.note(f"{how} {held}"),
        )
        scene: Any = SimpleNamespace(
            brokers=SimpleNamespace(wire=wire, destination=lambda topic: topic),
            cell=SimpleNamespace(id="cell"),
            writes="log",
            so_far=self,
            history=self,
            load=SimpleNamespace(target=SimpleNamespace(id="k-1")),
            pipeline=SimpleNamespace(dialect=KAFKA, topic="orders"),
            still=self.still,
        )
        controls: Any = SimpleNamespace(
            undo=lambda _: None,
            put_beside=self.put_beside,
            resolve=lambda held, how: self.note(f"{how} {held}"),
        )
        feed: Any = SimpleNamespace(
            release=lambda: self.note("load goes on"),
            has_taken_over=lambda _: self.taken_over,
        )
        nodes: Any = SimpleNamespace(stage=lambda _: stage)
        if kind is MarksInSource:
            return MarksInSource(scene, controls, nodes, feed)
        return WorkOnItsWay(scene, controls, nodes, feed, Victim(self.victim), lambda: None)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A bench on which the times are what a test can wait for."""
    monkeypatch.setattr(time, "monotonic_ns", lambda: 10)
    monkeypatch.setattr(overtaking, "WORKS_S", 0.1)
    return Bench()


def test_a_stage_may_be_silent_for_as_long_as_without_a_fault(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[float] = []
    monkeypatch.setattr(WorkOnItsWay, "_within", lambda _, seconds, __: asked.append(seconds))
    for silent_s, most in ((0.0, 0.1), (80.0, 80.0)):
        bench.silent_s = silent_s
        assert not bench.parts(WorkOnItsWay).await_overtaken(BOTH)
        assert asked[-1] == most


def test_what_a_stage_is_busy_with_is_let_go_before_the_target_comes(bench: Bench) -> None:
    """It is held by and by, until nothing is in hand."""
    bench.busy = 2
    bench.parts(WorkOnItsWay).hold(BOTH)
    again = ["trace", "arm work-1", "untrace", "disarm work-1", "release h1"]
    assert bench.done == ["arm position", *again, *again, "trace", "arm work-1", "watched"]


def test_only_the_work_of_the_struck_member_is_held(bench: Bench) -> None:
    """Its own processes are traced; a request of another member goes on, and is no work held."""
    bench.victim = 70
    bench.seen += [
        {"event": "owner", "role": "processor", "conn": conn, "pid": pid, "command": "x", "t": 2}
        for conn, pid in ((3, 60), (4, 71))
    ]
    bench.then["load goes on"] = lambda: bench.hit("work-1", "k-2", held="h0")
    part = bench.parts(WorkOnItsWay)
    part.hold(BOTH)
    assert bench.among == [70, 71]
    assert not part.await_held(BOTH)
    assert bench.done[-1] == "release h0"
    bench.seen[-1]["conn"] = 4
    assert part.await_held(BOTH)


def test_of_a_stage_that_starts_its_processes_all_work_is_held(bench: Bench) -> None:
    """One of them has the record, and another may do the work."""
    bench.victim, bench.number = 70, 0
    bench.parts(WorkOnItsWay).hold(BOTH)
    assert bench.among is None


@pytest.mark.parametrize("locks", [False, True])
def test_a_stage_that_never_rests_proves_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, *, locks: bool
) -> None:
    """If it is held before it locks a database, it may be read too often."""
    monkeypatch.setattr(overtaking, "RESTS_S", 0.05)
    bench.busy = 1_000_000
    work = replace(BOTH, writes=FirstWrites(("/w/out",), locks=locks))
    with pytest.raises(CellFailure, match="before it was given the target") as failed:
        bench.parts(WorkOnItsWay).hold(work)
    assert ("to read its database counts" in str(failed.value)) is locks
    assert bench.done[-1] == "release h1"


def test_a_commit_before_or_behind_the_hold_has_overtaken_the_work(bench: Bench) -> None:
    """The load goes on as soon as one of the two is there, or none comes."""
    work = bench.parts(WorkOnItsWay)
    work.hold(BOTH)
    bench.hit("position", "k-1", "k-2")
    bench.then["load goes on"] = lambda: bench.threads.append(WRITE)
    assert work.await_overtaken(BOTH)
    work.discard()
    assert bench.done[3:] == [
        "watched",
        "load goes on",
        "held",
        "covered",
        "disarm work-1",
        "discard h1",
        "discarded",
    ]


def test_a_request_that_is_held_is_work_as_well(bench: Bench) -> None:
    """And the position may pass it while it is held."""
    work = bench.parts(WorkOnItsWay)
    work.hold(BOTH)
    bench.hit("work-1", "k-1", held="h1")
    bench.then["load goes on"] = lambda: bench.hit("position", "k-1")
    assert work.await_overtaken(BOTH)
    assert bench.done[4:] == ["held", "load goes on", "covered"]


def test_a_commit_of_other_records_overtakes_nothing(bench: Bench) -> None:
    work = bench.parts(WorkOnItsWay)
    work.hold(BOTH)
    bench.hit("position", "k-0")
    bench.threads.append(WRITE)
    assert not work.await_overtaken(BOTH)
    work.release()
    assert bench.done[4:] == [
        "held",
        "load goes on",
        "released",
        "untrace",
        "disarm work-1",
        "release h1",
    ]


def test_where_nothing_is_held_nothing_was_overtaken(bench: Bench) -> None:
    work = bench.parts(WorkOnItsWay)
    work.hold(BOTH)
    bench.hit("position", "k-1")
    assert not work.await_overtaken(BOTH)
    assert "held" not in bench.done


def test_a_stage_that_ends_by_itself_is_no_proof(bench: Bench) -> None:
    work = bench.parts(WorkOnItsWay)
    work.hold(BOTH)
    bench.ended = True
    with pytest.raises(CellFailure, match="the processor ended while its work was held"):
        work.await_overtaken(BOTH)


@pytest.mark.parametrize(
    ("written", "taken_over", "marked"),
    [
        ([], False, False),
        ([], True, True),
        ([Write(1, 7, "rename", 1, ("/w/new", "/w/cursor"), 50, "0", delayed=False)], False, True),
        (
            [Write(1, 7, "rename", 1, ("/w/new", "/w/cursor"), 50, "-1", delayed=False)],
            False,
            False,
        ),
        ([Write(1, 7, "rename", 1, ("/w/new", "/w/cursor"), 5, "0", delayed=False)], False, True),
        ([Write(1, 7, "write", 1, ("/w/log",), 50, "9", delayed=False)], False, False),
        ([Write(1, 7, "rename", 1, ("/t/a", "/t/b"), 50, "0", delayed=False)], False, False),
        ([Write(1, 7, "rename", 1, ("/t/a", "/w/b"), 50, "0", delayed=False)], False, True),
    ],
    ids=["nothing", "answered", "renamed", "failed", "before", "its log", "temporary", "moved out"],
)
def test_a_mark_is_what_a_producer_saves_while_its_request_is_held(
    bench: Bench, written: list[Write], *, taken_over: bool, marked: bool
) -> None:
    """Or before it: its client may send later than it saves. Or its answer to the POST; not what it
    says in its log, or has in temporary files. The first request is one into the topic: a worker of
    Kafka Connect is not ready before it has sent others.
    """
    marks = bench.parts(MarksInSource)
    marks.arm(SENDS)
    bench.hit("first", "k-0", held="h0")
    marks.watch()
    bench.now = 20
    bench.hit("fault", "k-1", held="h1")
    bench.written, bench.taken_over = written, taken_over
    assert marks.await_saved("h1", 0.05) is marked
    wanted = ["arm first into orders", "trace", "watched", "release h0", "held"]
    assert bench.done == [*wanted, *(["covered"] if marked else [])]


@pytest.mark.parametrize(
    ("answer", "marked"),
    [
        (("OffsetCommit", "broker-1", 9), True),
        (("Produce", "broker-1", 9), True),
        (("Produce", "broker-1", 3), False),
        (("DatabaseCommit", "store", 9), True),
        (("Turn", "store", 9), True),
        (("Fetch", "broker-1", 9), False),
        (("Produce", "broker-1", 9, 6), False),
        (("Produce", "broker-1", 9, 0, "consumer"), False),
    ],
    ids=["position", "record", "same", "commit", "turn", "read", "refused", "another"],
)
@pytest.mark.parametrize("when", ["at first", "before", "held"])
def test_a_mark_may_be_at_the_broker_or_a_service(
    bench: Bench, answer: tuple[Any, ...], *, marked: bool, when: str
) -> None:
    """A position, a record in another topic, or what a service is told: whatever is answered since
    the first request, but on the held connection, where earlier records are acknowledged.
    """
    marks = bench.parts(MarksInSource)
    marks.arm(SENDS)
    if when == "at first":
        bench.answer(*answer)
    bench.hit("first", "k-0", held="h0")
    marks.watch()
    if when == "before":
        bench.answer(*answer)
    bench.hit("fault", "k-1", held="h1")
    if when == "held":
        bench.answer(*answer)
    assert marks.await_saved("h1", 0.05) is (marked and when != "at first")
