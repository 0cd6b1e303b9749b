"""Dead letters of declared pipelines, and stages that get only some of the records; without a
broker.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from harness.faults import InTurn
from harness.matrix.checking import Check
from harness.matrix.explaining import explanation
from harness.matrix.seen import seen_in
from harness.model.history import HISTORY
from harness.model.places import Waiting
from harness.model.plan import plan_of
from harness.model.scenario import NotApplicable, Predicted, Role
from harness.pipelines import DeclarationError, failure_points, read_pipeline
from harness.pipelines.cells import aim, cells_of
from harness.pipelines.clusters import OTHER_CLUSTERS
from harness.pipelines.dialects import DEAD_LETTERS as BEFORE
from harness.pipelines.dialects import dialect_of
from harness.pipelines.rebalances import OTHER_REBALANCES
from harness.pipelines.shares import Share
from harness.pipelines.silences import is_long
from harness.pipelines.traffic import StageTraffic
from harness.run.queue_broker import Count, Message
from harness.run.queue_server import DEAD_LETTERS
from harness.sweep.cells import with_fault
from harness.sweep.pipelines import declared_base
from harness.systems.declared.results.dead_letters import dead_queue
from harness.systems.declared.results.matcher import RecordMatcher
from harness.systems.declared.system import DeclaredSystem
from harness.systems.declared.transport.authorities import Authorities
from harness.systems.declared.transport.positions import Positions
from harness.systems.kafka.log_copies import LogCopy, LogEnds, WholeLog
from tests.judge.growing import end, tell
from tests.pipelines.scenes import KILLS, conditions_of, nobody, told

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.model.plan import Plan
    from harness.pipelines.declaration import Pipeline
    from harness.systems.declared.scene import Scene
    from tests.pipelines.scenes import Scenes

PROGRAMS = Path(__file__).with_name("programs") / "dead-letters"
DEAD = "orders.dlq"
TOPICS = ("orders", "orders.retry", DEAD)
REQUESTS = {"Fetch": 9, "OffsetCommit": 9, "Produce": 9}
EVERY = frozenset(range(1, 49))
POISON = frozenset({12, 24, 36, 48})


# --- the declaration ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"dead_letters": "orders.dlqs"}, "dead_letters: orders.dlqs is not among topics; did"),
        ({"dead_letters": "orders"}, "dead_letters: orders is the topic that the pipeline reads"),
        ({"output": "orders.dlq"}, "dead_letters: orders.dlq is the output, too"),
        ({"of": "count"}, "dead_letters: a total does not show which records are missing"),
        (
            {"system": "activemq"},
            (
                "dead_letters: on activemq the dead letters of orders are in DLQ.orders, not in "
                "orders.dlq: write that"
            ),
        ),
        ({"system": "pulsar"}, "dead_letters: lostack does not know where the dead letters are"),
        (
            {"dead_letters": "orders", "system": "rabbitmq"},
            "dead_letters: orders is the topic that the pipeline reads: name another",
        ),
        ({"dead_letters": ""}, "dead_letters is empty: write something, or leave it out"),
    ],
)
def test_a_topic_in_which_no_record_can_rest_is_refused(
    tmp_path: Path, change: dict[str, str], said: str
) -> None:
    text = (PROGRAMS / "pipeline.toml").read_text(encoding="utf-8")
    for field, value in change.items():
        match field:
            case "dead_letters":
                text = text.replace(f'dead_letters = "{DEAD}"', f'dead_letters = "{value}"')
            case "output":
                old = 'kind = "lines"\nfile = "{work}/booked.jsonl"'
                text = text.replace(old, f'kind = "topic"\ntopic = "{value}"')
            case "of":
                text += f'\n[aggregate]\nof = "{value}"\n'
            case _:
                text = text.replace('topics = ["orders", "orders.retry", "orders.dlq"]', "")
                text = text.replace('name = "booking"\n', "")
                text = f'system = "{value}"\ntopics = ["orders"]\n{text}'
    file = tmp_path / "pipeline.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(DeclarationError) as refused:
        read_pipeline(file)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_every_cell_knows_of_the_dead_letters() -> None:
    """The plan says that they are a permitted end and that their log is read; in a sweep, too."""
    pipeline = read_pipeline(PROGRAMS / "pipeline.toml")
    plans = plans_of(pipeline)
    plans.append(plan_of(with_fault(declared_base(pipeline, 1), "kills", KILLS, "It is killed.")))
    assert {(plan.dead_letters, plan.logs["aside"]) for plan in plans} == {(True, 3)}
    silent = dataclasses.replace(pipeline, dead_letters="")
    plans = plans_of(silent)
    assert {(plan.dead_letters, "aside" in plan.logs) for plan in plans} == {(False, False)}


def plans_of(pipeline: Pipeline) -> list[Plan]:
    """Return the plan of every cell that applies."""
    cells = cells_of(pipeline, failure_points(pipeline))
    return [plan_of(cell) for cell in cells if isinstance(cell.expectation, Predicted)]


# --- what is observed -----------------------------------------------------------------------------


def dead(scene: Scene, *positions: int) -> WholeLog:
    """Return a log with the records at these positions of the source."""
    values = [scene.cell.line(scene.load.records[position - 1]) for position in positions]
    copies = [
        LogCopy(0, 0, offset, None, value.encode(), None, None, visible=True)
        for offset, value in enumerate(values)
    ]
    count = len(copies)
    return WholeLog({0: LogEnds(0, count, count)}, tuple(copies))


class Cell:
    """A cell whose output has all records but those that are dead.

    ``taken``: up to where a group of the pipeline has read the dead letters; ``held``: the
    positions of the records that are there.
    """

    def __init__(
        self,
        scenes: Scenes,
        declared: str,
        *held: int,
        taken: int | None = None,
        read: tuple[str, ...] = ("orders",),
        missing: frozenset[int] = POISON,
    ) -> None:
        seen = [
            {"event": "fetched", "topic": topic, "partition": 0, "offset": 0}
            | {"record": "k0-1", "reached": True}
            for topic in read
        ]
        change = {"topics": TOPICS, "dead_letters": declared}
        empty = WholeLog({0: LogEnds(0, 0, 0)}, ())
        logs = {"orders": empty, "orders.retry": empty}
        saved = {DEAD: {} if taken is None else {0: taken}}
        observer = SimpleNamespace(
            log=lambda topic: logs[topic],
            ends=lambda topic: logs[topic].ends,
            positions=lambda _, topic: saved.get(topic, {}),
        )
        self.scene = scenes(
            "orders", *seen, fault=KILLS, pipeline=change, observer=observer, named=("booking",)
        )
        logs[DEAD] = dead(self.scene, *held)
        self.rows = [
            self.scene.cell.line(record)
            for record in self.scene.load.records
            if record.position not in missing
        ]
        self.found = RecordMatcher(self.scene)
        self.found.results = SimpleNamespace(rows=lambda: self.rows, size=lambda: 0)

    def observed(self) -> list[tuple[Any, ...]]:
        """Return the dead letters that are written down: topic, record and what each waits for."""
        positions = Positions(self.scene, {}, nobody(self.scene), self.found)
        Authorities(self.scene, positions, self.found).observe()
        lines = told(self.scene).of("stored", "hop", "topic", "record", "waiting")
        return [(topic, record, waits) for hop, topic, record, waits in lines if hop == "aside"]

    def ids(self, *positions: int) -> list[str]:
        """Return the ids of the records at these positions."""
        return [self.scene.load.records[position - 1].id for position in positions]


def test_what_rests_in_the_declared_topic_is_ready_for_a_reader(scenes: Scenes) -> None:
    """What a stage of the pipeline has read there waits for nothing."""
    cell = Cell(scenes, DEAD, 12, 24, 36, taken=1)
    first, second, third = cell.ids(12, 24, 36)
    assert cell.observed() == [
        (DEAD, first, None),
        (DEAD, second, Waiting.READY),
        (DEAD, third, Waiting.READY),
    ]
    logs = told(cell.scene).of("log", "hop", "topic", "end")
    assert ("aside", DEAD, 3) in logs


def test_a_reader_without_a_saved_position_has_taken_what_it_was_given(scenes: Scenes) -> None:
    cell = Cell(scenes, DEAD, 12, 24, read=("orders", DEAD))
    assert [waits for _, _, waits in cell.observed()] == [None, Waiting.READY]


def test_the_drain_does_not_wait_for_what_is_set_aside(scenes: Scenes) -> None:
    """Unless nothing declares it, or a stage has taken it and has yet to do something about it."""
    for declared, taken, aside in ((DEAD, None, {12, 24}), ("", None, set()), (DEAD, 2, set())):
        cell = Cell(scenes, declared, 12, 24, taken=taken)
        standing = conditions_of(cell.scene)
        assert standing.set_aside() == set(cell.ids(*aside))


def test_the_output_has_changed_when_a_record_was_set_aside(scenes: Scenes) -> None:
    sizes = [Cell(scenes, DEAD, *held).found.size() for held in ((12,), (12,), (12, 24))]
    assert sizes[0] == sizes[1] != sizes[2]
    sizes = [Cell(scenes, "", *held).found.size() for held in ((12,), (12, 24))]
    assert sizes[0] == sizes[1]


def test_dead_letters_of_a_queue_are_where_its_broker_puts_them(scenes: Scenes) -> None:
    """By the name that lostack gives its brokers; of those that were read there nobody waits."""
    assert BEFORE == DEAD_LETTERS
    for declared, counted in (("DLQ.parcels", True), ("", False)):
        asked: list[str] = []
        there: list[Message] = []
        broker = SimpleNamespace(
            queue=lambda name: f"/queue/{name}",
            dead_letters=lambda queue: queue.replace("/queue/", "/queue/DLQ."),
            count=lambda queue, asked=asked: asked.append(queue) or Count(2, 0, 0),
            messages=lambda _, there=there: there,
        )
        scene = scenes("parcels", pipeline={"dead_letters": declared}, broker=broker)
        lines = [scene.cell.line(record).encode() for record in scene.load.records[:2]]
        there += [
            Message("1", "a", lines[0], waiting=Waiting.READY),
            Message("2", "b", lines[1]),
        ]
        found = RecordMatcher(scene)
        found.results = SimpleNamespace(rows=list, size=lambda: 0)
        found.size()
        assert asked == (["/queue/DLQ.parcels"] if counted else [])
        assert found.set_aside() == ({scene.load.records[0].id} if counted else set())


def test_who_chooses_the_queue_of_dead_letters_names_it(scenes: Scenes) -> None:
    """Where the broker puts them if nothing is declared, is its own word."""
    broker = SimpleNamespace(queue=lambda name: f"q:{name}", dead_letters=lambda _: "found")
    assert dialect_of("rabbitmq").dead_letters == ""
    for declared, named in (("DLQ.parcels", "q:DLQ.parcels"), ("", "found")):
        scene = scenes("parcels", pipeline={"dead_letters": declared}, broker=broker)
        assert dead_queue(scene) == named


@pytest.mark.parametrize(
    ("held", "read", "missing", "seen"),
    [
        ((12, 24), ("orders",), POISON, True),
        ((12, 24), ("orders", DEAD), POISON, False),  # a topic that a stage reads is a hop
        ((11, 12), ("orders",), POISON, False),  # it has results, too: an audit, say
        ((), ("orders",), POISON, False),
        ((12, 24), ("orders",), frozenset(), False),  # nothing is missing
    ],
)
def test_without_a_word_lostack_finds_what_looks_like_dead_letters(
    scenes: Scenes,
    held: tuple[int, ...],
    read: tuple[str, ...],
    missing: frozenset[int],
    *,
    seen: bool,
) -> None:
    """A topic of the pipeline that no stage reads, and whose records are all missing."""
    cell = Cell(scenes, "", *held, read=read, missing=missing)
    expected = [(DEAD, record, Waiting.READY) for record in cell.ids(*held)]
    assert cell.observed() == (expected if seen else [])


def test_what_cannot_be_read_there_is_nobodys_fault(
    scenes: Scenes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A topic that nothing declares may hold anything; a declared one must hold records."""
    for declared, raised in (("", False), (DEAD, True)):
        cell = Cell(scenes, declared)
        strange = LogCopy(0, 0, 0, None, b"heartbeat", None, None, visible=True)
        whole = WholeLog({0: LogEnds(0, 1, 1)}, (strange,))
        observer = cell.scene.kafka.observer

        def log_of(
            topic: str, log: Callable[[str], WholeLog] = observer.log, whole: WholeLog = whole
        ) -> WholeLog:
            return whole if topic == DEAD else log(topic)

        monkeypatch.setattr(observer, "log", log_of)
        if raised:
            with pytest.raises(Exception, match=f"no record of topic {DEAD} carries the id"):
                cell.observed()
        else:
            assert cell.observed() == []


# --- whose records ------------------------------------------------------------------------------


def undertaken() -> Pipeline:
    """Return the pipeline whose second consumer gets dead letters only."""
    return read_pipeline(PROGRAMS / "undertaker.toml")


def shown(**shares: Share) -> dict[str, StageTraffic]:
    """Return what a dry run has shown of these stages."""
    every = {"producer": Share(sent=EVERY, offered=48), **shares}
    return {
        role: StageTraffic((role,), 1, REQUESTS, REQUESTS, share=each)
        for role, each in every.items()
    }


BOTH = {
    "booking": Share(EVERY, POISON, 48),
    "undertaker": Share(POISON, frozenset(), 48),
}


def planned(pipeline: Pipeline, seen: dict[str, StageTraffic], tmp_path: Path) -> dict[str, Any]:
    """Return the cells of a check that run, and why the others do not, by name."""
    check = Check(pipeline, DeclaredSystem(), tmp_path, "test")
    cells, rest = check.plan(seen)
    why = {cell.scenario.id: getattr(cell.expectation, "because", "") for cell in rest}
    return {cell.scenario.id: cell for cell in cells} | why


def test_the_target_is_one_of_those_that_the_stage_gets(tmp_path: Path) -> None:
    """Of the undertaker's points each; of the booking's only those at which it sends. The second
    third has one of the four.
    """
    cells = planned(undertaken(), shown(**BOTH), tmp_path)
    targets = {
        name: cell.load().target.position
        for name, cell in cells.items()
        if not isinstance(cell, str)
    }
    ends = [targets[f"undertaker-crash-at-{each}-delivery"] for each in ("first", "last")]
    undertakers = {
        at
        for name, at in targets.items()
        if name.startswith("undertaker-") and not cells[name].scenario.edge
    }
    assert ends == [min(POISON), max(POISON)]
    assert "undertaker-started-late" not in targets
    sends = {"booking-crash-before-send", "booking-ack-lost", "booking-broker-crash-before-ack"}
    assert undertakers == {24}
    assert {targets[name] for name in sends} == {24}
    reads = {
        at
        for name, at in targets.items()
        if name.startswith("booking-") and ("commit" in name or "delivery" in name)
    }
    assert len(reads) > 1, "it gets every record"


def test_the_records_are_those_of_the_dry_run(tmp_path: Path) -> None:
    """A router that goes by the key gives a stage the same positions again only if the keys are the
    same.
    """
    pipeline = undertaken()
    [dry] = cells_of(pipeline, failure_points(pipeline)[:1])
    cells = planned(pipeline, shown(**BOTH), tmp_path)
    same, other = cells["undertaker-commit-lost"].load(), cells["booking-commit-lost"].load()
    assert [record.key for record in same.records] == [r.key for r in dry.load().records]
    assert [record.key for record in other.records] != [r.key for r in dry.load().records]


def test_seeds_and_points_draw_different_ones() -> None:
    pipeline = undertaken()
    share = {"undertaker": Share(frozenset(range(2, 49, 2)), frozenset(), 48)}
    cells = [
        aim(cell, share)
        for seed in range(1, 6)
        for cell in cells_of(pipeline, failure_points(pipeline), seed=seed)
        if cell.scenario.id.startswith("undertaker-")
        and not isinstance(cell.scenario.fault, InTurn)  # it has targets outside that third, too
    ]
    found = {
        cell.load().target.position
        for cell in cells
        if not isinstance(cell.expectation, NotApplicable)
    }
    assert len(found) > 3
    assert found <= {2, *range(18, 33, 2), 48}, "the first of them, the middle third, the last"


def test_a_stage_that_gets_none_of_the_middle_third_is_not_tried(tmp_path: Path) -> None:
    rare = shown(
        booking=Share(EVERY, frozenset({48}), 48), undertaker=Share(frozenset({48}), offered=48)
    )
    cells = planned(undertaken(), rare, tmp_path)
    assert cells["undertaker-commit-lost"] == (
        "only 1 of 48 records came there in the dry run, and none of the middle third, where "
        "faults strike: offer more (records = 96)"
    )
    assert not isinstance(cells["booking-commit-lost"], str)


def test_a_consumer_that_sends_is_tried_where_it_sends(tmp_path: Path) -> None:
    """It sets records aside. One that sends nothing has the same points as before; no two points
    have one name.
    """
    pipeline = read_pipeline(PROGRAMS / "pipeline.toml")
    quiet = set(planned(pipeline, shown(booking=Share(EVERY, offered=48)), tmp_path))
    sends = set(planned(pipeline, shown(booking=BOTH["booking"]), tmp_path))
    assert quiet == {point.id for point in failure_points(pipeline)} - {
        *(f"booking-crash-at-write-{number}" for number in range(2, 9)),
        *(point.id for point in failure_points(pipeline) if is_long(point)),
        *OTHER_CLUSTERS,
        *OTHER_REBALANCES,
    }
    assert {"booking-crash-before-send", "booking-request-lost", "request-lost"} <= sends - {""}
    assert not [name for name in quiet if name.endswith("before-send") and "booking" in name]
    points = [point.id for point in failure_points(pipeline, sending=["booking"])]
    assert len(points) == len(set(points))


def test_a_point_that_only_the_dry_run_shows_can_be_named_before_it(tmp_path: Path) -> None:
    """As with --only. If the consumer turns out to send nothing, the point does not apply."""
    pipeline, name = read_pipeline(PROGRAMS / "pipeline.toml"), "booking-crash-before-send"
    check = Check(pipeline, DeclaredSystem(), tmp_path, "test")
    check.plan({}, (name,))
    [cell], _ = check.plan(shown(booking=BOTH["booking"]), (name,))
    assert cell.scenario.id == name
    quiet = dataclasses.replace(
        shown(booking=Share(EVERY, offered=48))["booking"], requests={"Fetch": 9}, answers={}
    )
    cells, [never] = check.plan(shown() | {"booking": quiet}, (name,))
    assert not cells
    assert "the dry run saw no Produce request of the booking" in str(never.expectation)
    with pytest.raises(DeclarationError, match="there is no failure point booking-crash-before-s"):
        check.plan({}, ("booking-crash-before-sends",))


def test_what_a_stage_gets_is_learnt_from_the_dry_run(tmp_path: Path) -> None:
    """From the wire, by the position of each record in the source; an answer that never arrived
    gives nothing.
    """
    frames = [
        {"event": "frame", "conn": n, "role": role, "dir": "request", "api": "Fetch", "corr": 1}
        for n, role in ((1, "booking"), (2, "undertaker"))
    ]
    offered = [{"event": "offered", "record": f"k-{n}", "position": n} for n in (1, 2, 3)]
    given = [
        {"event": "fetched", "conn": conn, "record": f"k-{n}", "reached": reached, "topic": "t"}
        for conn, n, reached in (
            (1, 1, True),
            (1, 2, True),
            (1, 3, True),
            (2, 2, True),
            (2, 3, False),
        )
    ]
    sent = [{"event": "sent", "request": "1:7", "record": "k-2", "topic": "orders.retry"}]
    tell(tmp_path / HISTORY, *frames, *offered, *given, *sent, by="all")
    end(tmp_path / HISTORY)
    result: Any = SimpleNamespace(directory=tmp_path, plan=SimpleNamespace(target="k-2"))
    shares = {role: one.share for role, one in seen_in(result).items()}
    assert shares == {
        "booking": Share(frozenset({1, 2, 3}), frozenset({2}), 3),
        "undertaker": Share(frozenset({2}), frozenset(), 3),
    }
    assert shares["booking"].some(sent=False) is None, "it gets all"
    assert shares["undertaker"].some(sent=True) is None, "it sends none"


def test_the_plan_says_who_gets_only_some() -> None:
    lines = "\n".join(explanation(undertaken(), shown(**BOTH), ()))
    assert lines.count("a fault strikes at one of these") == 2
    assert "it sent 4 of 48 records" in lines
    assert "it was given 4 of 48 records" in lines


def test_roles_without_a_share_draw_from_all() -> None:
    """A service that is killed, a broker, a stage of which the wire saw nothing."""
    pipeline = undertaken()
    cells = cells_of(pipeline, failure_points(pipeline))
    assert [aim(cell, {}) for cell in cells] == list(cells)
    assert Role.CONSUMER not in {stage.known for stage in pipeline.stages}
