"""When a declared pipeline is at rest, and what is learnt of silences; without a broker, and with a
clock of its own.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from harness.faults import CrashAtWrite, NoFault
from harness.model import events as kinds
from harness.model.events import ConnPhase
from harness.model.scenario import Role
from harness.model.semantics import Semantic
from harness.pipelines import failure_points, read_pipeline
from harness.pipelines.cells import DeclaredCell, cells_of
from harness.protocols.kafka.steps import Api
from harness.run.drain import Check
from harness.systems.declared.drain import drain as draining
from harness.systems.declared.drain.conditions import DrainConditions
from harness.systems.declared.drain.drain import Drain
from harness.systems.declared.learnt import silence
from harness.systems.declared.learnt.silence import (
    NOBODY,
    QuietReason,
    Silences,
    longest_silence,
    pair_of,
)
from harness.systems.declared.outputs import OutputError
from harness.systems.declared.scene import EarlierCells
from harness.systems.declared.wire.records import RecordsOnWire
from harness.systems.declared.wire.stages import StagesOnWire
from harness.systems.declared.wire.topics import TopicsOnWire
from harness.wire.rules import Direction
from tests.judge.growing import so_far_of, tell
from tests.pipelines.scenes import Clock

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.model.history import Event
    from harness.pipelines import Pipeline

SECOND = 10**9
ORDERS = read_pipeline(Path(__file__).parents[2] / "examples" / "orders" / "pipeline.toml")
CELLS: dict[str, DeclaredCell] = {
    cell.scenario.id: cell for cell in cells_of(ORDERS, failure_points(ORDERS))
}
ROLES = (Role.PRODUCER, Role.CONSUMER)
PATIENCE_S, QUIET_S = ORDERS.patience_s, ORDERS.output.quiet_s


@pytest.fixture(autouse=True)
def patient_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No cell is patient for a second time but where a test wants it."""
    monkeypatch.setattr(silence, "_again", lambda _: False)


class Pipe:
    """Where a cell stands, as a test says: what is there, and what happens when."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        cell: str = "request-lost",
        silences: Silences | None = None,
    ) -> None:
        self.clock = Clock()
        monkeypatch.setattr(draining, "time", self.clock)
        self.cell, self.silences, self.offered = CELLS[cell], silences or Silences(), {"a", "b"}
        self.rows: list[str] = ["a"]
        self.dead: set[str | None] = set()
        self.noise = 0
        self.seen: list[int] = []
        self.trouble: str | None = None
        self.open = 0
        self.ended = False
        self.broken = False
        self.stage_trouble: Callable[[], str | None] = lambda: None
        self.source_trouble = self.send_trouble = self.stage_trouble
        checks = (Check("position", lambda: self.trouble),)
        self.transport = SimpleNamespace(checks=lambda: checks, unanswered=(), tail=False)
        self.unacknowledged = lambda: self.open
        self.all_ended = lambda: self.ended
        self.attribute = lambda: None
        self.stages = {role: SimpleNamespace(ended=lambda: None) for role in ROLES}
        self.load = self.cell.load()
        self.lines: list[Event] = [
            kinds.Conn(t=0, phase=ConnPhase.OPEN, conn=at, role=str(role))
            for at, role in enumerate(ROLES)
        ]
        so_far: Any = SimpleNamespace(events=lambda since: self.lines[since:])
        self.stages_seen = StagesOnWire(so_far)
        for role in ROLES:
            self.moves(role, record=self.load.target.id)

    @property
    def scene(self) -> Any:
        """What its parts share."""
        seen = SimpleNamespace(moments=lambda since=0: self.seen[since:])
        return SimpleNamespace(
            cell=self.cell,
            pipeline=self.cell.declared,
            records_seen=seen,
            learnt=EarlierCells(self.silences),
            still=lambda least_s: self.silences.still(self.cell, least_s),
            faultless=self.cell.scenario.id == "none",
            load=self.load,
            stages_seen=self.stages_seen,
        )

    def size(self) -> Any:
        """What changes while results arrive, and perhaps at other times."""
        return len(self.rows), self.noise

    def results(self) -> list[str]:
        """What is in the output."""
        if self.broken:
            raise OutputError("no such table")
        return self.rows

    def set_aside(self) -> set[str | None]:
        """What rests among the dead letters."""
        return self.dead

    def away(self, since: int) -> bool:
        """Whether who was struck has not moved since."""
        return DrainConditions.away(self, since)  # type: ignore[arg-type]  # it is all it asks

    def moves(
        self,
        role: Role,
        *,
        record: str = "b",
        partition: int | None = 0,
        reached: bool = True,
    ) -> None:
        """A stage gets a record, or sends it."""
        t, conn = int(self.clock.now * 1e9), ROLES.index(role)
        of: dict[str, Any] = {"topic": "orders", "partition": partition, "record": record}
        self.lines.append(
            kinds.Fetched(t=t, conn=conn, reached=reached, **of)
            if role is Role.CONSUMER
            else kinds.Sent(t=t, request=f"{conn}:1", **of)
        )

    def happens(
        self, role: Role | None = None, partition: int | None = 0, *, reached: bool = True
    ) -> None:
        """The wire sees something about a record: of who was struck, if it is not said."""
        struck = role or Role(pair_of(self.cell)[0] or "producer")
        self.moves(struck, partition=partition, reached=reached)
        self.seen.append(int(self.clock.now * 1e9))

    def drained_after(
        self, within_s: float = 200.0, **acts: Callable[[], object]
    ) -> tuple[float, Drain]:
        """Return after how long it was at rest; ``acts``: what happens at which second, as
        ``at_7``.
        """
        began, drain = self.clock.now, Drain(self)  # type: ignore[arg-type]  # it is all that a drain asks
        due = {float(name.removeprefix("at_")): act for name, act in acts.items()}
        while self.clock.now - began < within_s:
            for at in [at for at in due if self.clock.now - began >= at]:
                due.pop(at)()
            if drain.at_rest():
                return self.clock.now - began, drain
            self.clock.now += 0.1
        raise AssertionError(f"never at rest: {drain.stage}: {drain.because}")


def test_what_is_whole_is_over_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = Pipe(monkeypatch)
    pipe.rows.append("b")
    after, drain = pipe.drained_after()
    assert after == pytest.approx(QUIET_S, abs=0.2)
    assert drain.told()["why"] == "settled"


def test_who_rests_among_the_dead_letters_is_waited_for_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is at its end as well as what is in the output; what is in neither is still missing."""
    for dead, missing, quick in (({"b"}, 0, True), ({"x"}, 1, False)):
        pipe = Pipe(monkeypatch)
        pipe.dead = {*dead}
        took, drain = pipe.drained_after()
        assert drain.missing == missing
        assert (took < PATIENCE_S / 2) is quick


def test_where_nobody_is_left_nobody_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = Pipe(monkeypatch)
    pipe.ended = True
    after, drain = pipe.drained_after()
    assert after < 0.2
    assert (drain.told()["why"], drain.missing) == ("ended", 1)


def test_who_ends_while_others_are_looked_at_may_be_started_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The last program fails between two questions of one check: the next check starts it again,
    and it sends what was missing.
    """
    pipe, fails = Pipe(monkeypatch), iter([True])

    def supervise() -> str | None:
        if not pipe.ended:
            return None
        pipe.ended = False
        pipe.rows.append("b")
        return "the producer was started again"

    def look() -> None:
        pipe.ended = next(fails, False)

    pipe.stage_trouble, pipe.send_trouble = supervise, look
    _, drain = pipe.drained_after()
    assert (drain.told()["why"], drain.missing) == ("settled", 0)


@pytest.mark.parametrize("how", ["missing", "not acknowledged"])
def test_what_may_still_come_is_waited_for_with_patience(
    monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """A record that is not there, or one that its sender may send again."""
    pipe = Pipe(monkeypatch)
    if how == "not acknowledged":
        pipe.rows.append("b")
        pipe.open = 1
    after, drain = pipe.drained_after()
    assert after == pytest.approx(PATIENCE_S, abs=0.3)
    assert drain.told()["why"] == "patience"


@pytest.mark.parametrize("what", ["wire", "output"])
def test_what_came_after_a_silence_is_learnt(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """The rest begins anew, the gap is told; the next cell of the pair rests twice as long as that,
    and no longer, once something has come. Before that it may only take longer to come back: the
    others of its pair are no proof that its records are lost.
    """
    pipe = Pipe(monkeypatch)
    after, drain = pipe.drained_after(
        at_7=pipe.happens if what == "wire" else lambda: pipe.rows.append("a")
    )
    assert after == pytest.approx(7 + PATIENCE_S, abs=0.3)
    assert drain.gap == pytest.approx(7, abs=0.2)
    pipe.silences.learn(pipe.cell, drain.gap, rested=1.0, patiently=True)
    then = Pipe(monkeypatch, "ack-lost", pipe.silences)
    again, drain = then.drained_after(at_1=then.happens)
    assert again == pytest.approx(1 + 14, abs=0.5)
    assert drain.rest.why is QuietReason.LEARNT
    never, drain = Pipe(monkeypatch, "ack-lost", pipe.silences).drained_after()
    assert never == pytest.approx(PATIENCE_S, abs=0.3)
    assert drain.told()["why"] == "patience"
    other, _ = Pipe(monkeypatch, "delivery-lost", pipe.silences).drained_after()
    assert other == pytest.approx(PATIENCE_S, abs=0.3), "another stage"


def test_what_is_known_to_come_is_no_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = Pipe(monkeypatch)
    pipe.rows.append("b")
    pipe.trouble = "partition 0 is behind"
    after, drain = pipe.drained_after(at_20=lambda: setattr(pipe, "trouble", None))
    assert after == pytest.approx(20 + QUIET_S, abs=0.3)
    assert drain.gap == 0


def test_a_change_that_is_no_result_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = Pipe(monkeypatch)
    after, drain = pipe.drained_after(at_20=lambda: setattr(pipe, "noise", 1))
    assert after == pytest.approx(PATIENCE_S, abs=0.3)
    assert drain.gap == 0


def test_a_short_cut_is_never_shorter_than_what_was_learnt(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipeline that was seen to go on after five seconds may do so again, though everything is
    there.
    """
    pipe = Pipe(monkeypatch)
    pipe.rows.append("b")
    pipe.silences.learn(CELLS["none"], 5.0, rested=1.0, patiently=False)
    after, drain = pipe.drained_after()
    assert after == pytest.approx(10, abs=0.3)
    assert drain.told()["why"] == "settled"


def test_without_a_fault_a_part_of_the_patience_is_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once for all cells: what comes late then is seen, and known."""
    pipe = Pipe(monkeypatch, "none")
    pipe.rows.append("b")
    after, drain = pipe.drained_after(at_3=lambda: pipe.rows.append("a"))
    assert after == pytest.approx(3 + PATIENCE_S / 3, abs=0.3)
    assert drain.gap == pytest.approx(3, abs=0.3)
    pipe.silences.learn(pipe.cell, 0.0, rested=10.0, patiently=False)
    again = Pipe(monkeypatch, "none", pipe.silences)
    again.rows.append("b")
    assert again.drained_after()[0] == pytest.approx(QUIET_S, abs=0.3), "it is known by then"


def test_a_dry_run_before_another_run_without_a_fault_leaves_the_wait_to_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It rests as any other; the next one waits for what comes late, and who rested less than that
    is run again.
    """
    pipe = Pipe(monkeypatch, "none")
    pipe.cell, pipe.rows = dataclasses.replace(pipe.cell, brief=True), ["a", "b"]
    assert pipe.drained_after()[0] == pytest.approx(QUIET_S, abs=0.3)
    pipe.silences.learn(pipe.cell, 0.0, rested=1.0, patiently=False)
    pipe.silences.learn(CELLS["commit-lost"], 0.2, rested=1.0, patiently=False)
    then = Pipe(monkeypatch, "none", pipe.silences)
    then.rows.append("b")
    after, drain = then.drained_after(at_3=lambda: then.rows.append("a"))
    assert after == pytest.approx(3 + PATIENCE_S / 3, abs=0.3)
    assert pipe.silences.too_short([CELLS["commit-lost"]]) == set()
    pipe.silences.learn(then.cell, drain.gap, rested=10.0, patiently=False)
    assert pipe.silences.too_short([CELLS["commit-lost"], then.cell]) == {CELLS["commit-lost"].id}
    assert pipe.silences.too_short([dataclasses.replace(CELLS["commit-lost"], brief=True)]) == set()


ONCE = dataclasses.replace(ORDERS, claims=Semantic.EXACTLY_ONCE)


@pytest.mark.parametrize(
    ("pipeline", "cell", "rows", "rest_s"),
    [
        (ONCE, "commit-lost", ["a", "b"], PATIENCE_S / 3),
        (ONCE, "told-to-end-while-reading", ["a", "b"], PATIENCE_S / 3),
        (ONCE, "commit-lost", ["a", "b", "b"], QUIET_S),
        (ONCE, "ack-lost", ["a", "b"], QUIET_S),
        (ONCE, "broker-crash-before-position", ["a", "b"], QUIET_S),
        (ORDERS, "commit-lost", ["a", "b"], QUIET_S),
    ],
)
def test_who_died_may_double_something_later(
    monkeypatch: pytest.MonkeyPatch, pipeline: Pipeline, cell: str, rows: list[str], rest_s: float
) -> None:
    """A program that repairs by a timer what its death has left: it is waited for where that is
    forbidden, and not seen yet.
    """
    pipe = Pipe(monkeypatch)
    [pipe.cell] = cells_of(pipeline, [CELLS[cell].scenario])
    pipe.rows = rows
    after, drain = pipe.drained_after()
    assert after == pytest.approx(rest_s, abs=0.3)
    assert drain.told()["why"] == "settled"


def test_what_was_learnt_of_one_death_is_not_known_of_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each leaves something else: the next cell of the pair waits again, and sees what comes."""
    pipe = Pipe(monkeypatch)
    cells = cells_of(
        ONCE, [CELLS["consumer-crash-before-delivery"].scenario, CELLS["commit-lost"].scenario]
    )
    pipe.silences.learn(cells[0], 0.0, rested=10.0, patiently=False)
    pipe.cell, pipe.rows = cells[1], ["a", "b"]
    after, drain = pipe.drained_after(at_5=lambda: pipe.rows.append("b"))
    assert drain.gap == pytest.approx(5, abs=0.3)
    assert after == pytest.approx(5 + 2 * 5, abs=0.5), (
        "twice what it was silent for: it may do so again"
    )


def test_what_cannot_be_read_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who reads it in the end says why."""
    pipe = Pipe(monkeypatch)
    pipe.broken = True
    after, _ = pipe.drained_after()
    assert after == pytest.approx(draining.UNREADABLE_S, abs=1.3)


def test_no_rest_outlasts_the_drain(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was learnt may be more than a drain may take."""
    silences = Silences()
    silences.learn(CELLS["request-lost"], 80.0, rested=1.0, patiently=True)
    after, drain = Pipe(monkeypatch, silences=silences).drained_after()
    assert after == pytest.approx(ORDERS.drain_s, abs=0.3)
    assert drain.rest.seconds == ORDERS.drain_s


def test_one_in_ten_is_patient_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Always the same ones: a cell that is run again does as it did."""
    monkeypatch.undo()
    silences, why = Silences(), []
    for seed in range(1, 101):
        [cell] = cells_of(ORDERS, [CELLS["request-lost"].scenario], seed=seed)
        silences.learn(cell, 0.0, rested=1.0, patiently=True)
        why.append(silences.rest(cell, settled=False).why)
    assert 3 <= why.count(QuietReason.PATIENCE) <= 20
    assert why.count(QuietReason.LEARNT) == 100 - why.count(QuietReason.PATIENCE)


def test_what_is_slow_to_begin_is_waited_for_longer() -> None:
    """A first step that took twelve seconds without a fault is awaited twice as long with one; the
    least is the least.
    """
    silences = Silences()
    assert silences.still(CELLS["request-lost"], 8.0) == 8.0
    step = longest_silence(0, [12 * SECOND, 13 * SECOND])
    silences.learn(CELLS["none"], 0.0, rested=1.0, patiently=False, step=step)
    assert silences.still(CELLS["request-lost"], 8.0) == 24.0
    assert silences.still(CELLS["request-lost"], 30.0) == 30.0


def test_the_first_step_of_traced_programs_counts_if_no_others_have_made_one() -> None:
    """A tracer stops a JVM at each call by which it reads its classes."""
    silences, none = Silences(), CELLS["none"]
    watched = dataclasses.replace(none.scenario, fault=NoFault(watched=True))
    traced = dataclasses.replace(none, scenario=watched)
    silences.learn(traced, 0.0, rested=1.0, patiently=False, step=6.0)
    assert silences.rest(CELLS["commit-lost"], settled=True).seconds == 12.0
    silences.learn(none, 0.0, rested=1.0, patiently=False, step=4.0)
    assert silences.rest(CELLS["commit-lost"], settled=True).seconds == 8.0
    silences.learn(traced, 5.0, rested=10.0, patiently=False, step=6.0)
    assert silences.rest(CELLS["commit-lost"], settled=True).seconds == 10.0, "it came at rest"


def test_the_longest_silence_begins_with_the_load() -> None:
    """What was seen before it is none of it; nor is what comes behind the last moment, for that is
    a rest.
    """
    assert longest_silence(5 * SECOND, [1 * SECOND, 6 * SECOND, 9 * SECOND]) == 3.0
    assert longest_silence(5 * SECOND, []) == 0.0


def test_pairs() -> None:
    """A stage, and what is done to it: the death of a broker is another act than the
    stage's own.
    """
    pairs = {name: pair_of(cell) for name, cell in CELLS.items()}
    assert pairs["none"] == NOBODY
    assert pairs["request-lost"] == pairs["ack-lost"] == ("producer", "drop")
    assert (
        pairs["producer-crash-before-send"]
        == pairs["producer-crash-before-ack"]
        == ("producer", "kill")
    )
    assert pairs["broker-crash-before-ack"] == ("producer", "kill broker")
    assert pairs["delivery-lost"] == ("consumer", "drop")
    assert pairs["commit-lost"] == ("consumer", "kill")
    assert pair_of(at_a_write()) == ("consumer", "crash-at-write"), (
        "its place follows from a dry run"
    )


def at_a_write() -> DeclaredCell:
    """Return a cell whose reader is killed at a durable write."""
    scenario = dataclasses.replace(
        CELLS["commit-lost"].scenario,
        fault=CrashAtWrite(Role.CONSUMER, (Api.FETCH, Direction.RESPONSE)),
    )
    return dataclasses.replace(CELLS["commit-lost"], scenario=scenario)


def test_a_run_without_a_fault_has_not_been_patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where everything was there: if the next one lacks something, nothing is known of that."""
    silences = Silences()
    silences.learn(CELLS["none"], 0.0, rested=10.0, patiently=False)
    after, _ = Pipe(monkeypatch, "none", silences).drained_after()
    assert after == pytest.approx(PATIENCE_S, abs=0.3)


def test_a_rest_that_was_too_short() -> None:
    """Something came after a longer silence, in a cell that is alike: nobody knows what came after
    this one.
    """
    silences, cells = Silences(), [CELLS["request-lost"], CELLS["ack-lost"], CELLS["commit-lost"]]
    assert silences.too_short(cells) == set(), "nothing was run"
    silences.learn(CELLS["request-lost"], 0.2, rested=1.0, patiently=False)
    silences.learn(CELLS["commit-lost"], 0.2, rested=1.0, patiently=False)
    silences.learn(CELLS["ack-lost"], 5.0, rested=30.0, patiently=True)
    assert silences.too_short(cells) == {CELLS["request-lost"].id}
    silences.learn(CELLS["request-lost"], 0.2, rested=10.0, patiently=False)
    assert silences.too_short(cells) == set()


# --- what the lines of the wire come to -----------------------------------------------------------


class Wire:
    """A wire's history that grows."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.so_far = so_far = so_far_of(folder)
        self.records_seen = RecordsOnWire(so_far, known=("a", "b", "c"))
        self.topics_seen = TopicsOnWire(so_far)
        self.stages_seen = StagesOnWire(so_far)

    def says(self, event: str, **fields: Any) -> None:
        """Write a line."""
        tell(self._folder, {"event": event, **fields})

    def opens(self, conn: int, role: str) -> None:
        """A connection."""
        self.says("conn", phase="open", conn=conn, role=role)

    def sends(self, request: str, record: str, *, topic: str = "orders") -> None:
        """A request with a record, on its way."""
        conn, corr = map(int, request.split(":"))
        header = {"conn": conn, "corr": corr, "role": "producer", "api": "Produce"}
        self.says("frame", dir="request", records=[record], **header)
        self.says("sent", record=record, topic=topic, request=request)

    def answers(self, request: str, record: str, error: int = 0, *, reached: bool = True) -> None:
        """Its answer."""
        conn, corr = map(int, request.split(":"))
        self.says("frame", conn=conn, corr=corr, role="producer", api="Produce", dir="response")
        self.says("produce_answer", record=record, request=request, error=error, reached=reached)

    def gives(
        self,
        record: str,
        *,
        topic: str = "orders",
        partition: int = 0,
        offset: int = 1,
        reached: bool = True,
    ) -> None:
        """A record on its way to whoever has the connection."""
        self.says(
            "fetched",
            record=record,
            topic=topic,
            partition=partition,
            offset=offset,
            conn=1,
            reached=reached,
        )


@pytest.fixture
def wire(tmp_path: Path) -> Wire:
    """A wire with a connection of the producer's."""
    found = Wire(tmp_path)
    found.opens(1, "producer")
    return found


def test_who_waits_for_an_answer(wire: Wire) -> None:
    """On a connection that is open; where it is cut, it is known that none will come."""
    wire.sends("1:1", "a")
    assert wire.records_seen.unanswered("producer") == 0, (
        "nobody knows yet that it asks for answers"
    )
    wire.answers("1:1", "a")
    wire.sends("1:2", "b")
    assert (
        wire.records_seen.unanswered("producer"),
        wire.records_seen.unacknowledged("producer"),
    ) == (1, 1)
    wire.says("conn", phase="close", conn=1, role="producer")
    assert (
        wire.records_seen.unanswered("producer"),
        wire.records_seen.unacknowledged("producer"),
    ) == (0, 1)
    assert wire.records_seen.unacknowledged("consumer") == 0
    wire.opens(2, "producer")
    wire.sends("2:1", "b")
    wire.answers("2:1", "b")
    assert wire.records_seen.unacknowledged("producer") == 0


def test_nobody_waits_for_what_a_program_says_to_itself(wire: Wire) -> None:
    """A sink that does so for ever would hardly be at rest."""
    wire.sends("1:1", "a")
    wire.answers("1:1", "a")
    header = {"conn": 1, "role": "producer", "api": "Produce", "dir": "request"}
    wire.says("frame", corr=2, **header)
    assert wire.records_seen.unanswered("producer") == 0
    wire.says("frame", corr=3, records=["b"], **header)
    assert wire.records_seen.unanswered("producer") == 1
    wire.records_seen = RecordsOnWire(wire.so_far, totals=True)
    assert wire.records_seen.unanswered("producer") == 2, "a total has no id of the load"


@pytest.mark.parametrize(("error", "reached"), [(0, False), (7, True)])
def test_an_answer_that_tells_nothing_acknowledges_nothing(
    wire: Wire, error: int, reached: bool
) -> None:
    wire.sends("1:1", "a")
    wire.answers("1:1", "a", error, reached=reached)
    assert wire.records_seen.unacknowledged("producer") == 1


def test_the_end_of_a_transaction_wants_its_answer_too(wire: Wire) -> None:
    """Its records are the producer's until it is told that the end was taken."""
    wire.sends("1:1", "a")
    wire.answers("1:1", "a")
    wire.says("ending", record="a", request="1:2", outcome=None, reached=True)
    assert wire.records_seen.unacknowledged("producer") == 1
    wire.says("ending", record="a", request="1:2", outcome="taken", reached=False)
    assert wire.records_seen.unacknowledged("producer") == 1
    wire.says("ending", record="a", request="1:3", outcome="taken", reached=True)
    assert wire.records_seen.unacknowledged("producer") == 0


def test_a_connection_that_has_ended(wire: Wire) -> None:
    """Who was given something over it may be gone."""
    assert wire.stages_seen.is_open(1)
    wire.says("conn", phase="close", conn=1, role="producer")
    assert not wire.stages_seen.is_open(1)


def test_a_position_that_is_saved_again_is_nothing_new(wire: Wire) -> None:
    wire.opens(2, "consumer")
    saved = {"group": "billing", "topic": "orders", "partition": 0, "request": "2:1"}
    for offset in (4, 4, 5, 5):
        wire.says("committed", offset=offset, **saved)
    assert len(wire.records_seen.moments()) == 2
    assert wire.records_seen.moments(1) == [wire.records_seen.last] == [5]
    assert wire.stages_seen.groups("consumer") == {"billing"}
    assert wire.stages_seen.groups("producer") == set()


def test_a_position_in_a_topic_of_a_programs_own_is_nothing_new(wire: Wire) -> None:
    """A sink that speaks to itself there for ever would never be at rest; its groups are known."""
    wire.opens(2, "consumer")
    saved = {"group": "control", "topic": "__control", "partition": 0, "request": "2:1"}
    for offset in (4, 10, 16):
        wire.says("committed", offset=offset, **saved)
    assert (wire.records_seen.moments(), wire.records_seen.firsts()) == ([], 0)
    assert wire.stages_seen.groups("consumer") == {"control"}


def test_a_topic_with_two_bars_in_front_is_the_pipelines_when_it_has_a_record(wire: Wire) -> None:
    """Else a right program is called stuck whose positions are all the news of a long wait."""
    wire.opens(2, "consumer")
    saved = {"group": "billing", "topic": "__orders", "partition": 0, "request": "2:1"}
    wire.says("committed", offset=0, **saved)
    assert wire.topics_seen.with_records() == set()
    wire.gives("a", topic="__orders")
    before = wire.records_seen.firsts()
    for offset in (1, 2):
        wire.says("committed", offset=offset, **saved)
    assert len(wire.records_seen.moments()) == 3
    assert wire.records_seen.firsts() > before
    assert wire.topics_seen.with_records() == wire.topics_seen.read() == {"__orders"}


def test_topics_that_records_were_seen_in(wire: Wire) -> None:
    """Declared or not; what is only written is read by nobody. Kafka's own are
    nobody's business.
    """
    wire.sends("1:1", "a", topic="orders")
    wire.sends("1:2", "a", topic="priced")
    wire.gives("a")
    wire.gives("a", topic="__transaction_state")
    assert wire.topics_seen.with_records() == {"orders", "priced"}
    assert "priced" not in wire.topics_seen.read()
    assert wire.records_seen.tried() == {"a"}
    assert wire.records_seen.tried(since=10**9) == set()


def test_each_line_counts_once(wire: Wire) -> None:
    wire.sends("1:1", "a")
    assert wire.records_seen.moments() == wire.records_seen.moments() == [3]
    wire.answers("1:1", "a")
    assert wire.records_seen.moments() == [3, 5]


def test_how_far_a_topic_was_read(wire: Wire) -> None:
    """By partition; what did not reach its reader was given to nobody."""
    assert (wire.topics_seen.reached("orders"), wire.topics_seen.given("orders")) == ({}, 0)
    for offset in (3, 5, 4):
        wire.gives("a", offset=offset)
    wire.gives("a", partition=1, offset=0)
    wire.gives("a", offset=9, reached=False)
    wire.gives("a", topic="priced", offset=7)
    assert wire.topics_seen.reached("orders") == {0: 5, 1: 0}
    assert wire.topics_seen.reached("priced") == {0: 7}
    assert (wire.topics_seen.given("orders"), wire.topics_seen.given("priced")) == (5, 7), (
        "the numbers of their lines"
    )


def test_what_a_stage_was_seen_to_ask_for(wire: Wire) -> None:
    """By its role. Who has asked for records reads, though the answer may take half a second where
    there are none.
    """
    wire.says("frame", conn=2, corr=0, role="consumer", api="JoinGroup", dir="request")
    assert wire.stages_seen.fetched("consumer") == 0
    wire.says("frame", conn=2, corr=1, role="consumer", api="Fetch", dir="request")
    assert wire.stages_seen.asked("consumer", "Fetch")
    assert not wire.stages_seen.asked("producer", "Fetch")
    assert not wire.stages_seen.asked("consumer", "Produce")
    assert wire.stages_seen.fetched("consumer") == 3
    wire.says("frame", conn=2, corr=1, role="consumer", api="Fetch", dir="response")
    wire.says("frame", conn=2, corr=2, role="consumer", api="Metadata", dir="request")
    assert wire.stages_seen.fetched("consumer") == 3
    assert wire.stages_seen.fetched("producer") == 0


def test_which_requests_were_refused(wire: Wire) -> None:
    """And how: one that went through was not."""
    for request, error in (("1:1", 0), ("1:2", 10), ("1:3", 7), ("1:4", 18)):
        wire.sends(request, "a")
        wire.answers(request, "a", error)
    assert wire.records_seen.refused(10, 18) == {"1:2", "1:4"}
    assert wire.records_seen.refused(3) == set()
