"""Firsts: a reader whose group has no position yet, the first record and the last, positions that
are gone.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from harness import controls
from harness.controls import OnWire
from harness.faults import Forget, Kill, PartitionFilled, StartLate
from harness.judge.verdict import Kind
from harness.matrix.checking import Check
from harness.matrix.progress import make_progress
from harness.matrix.seen import seen_in
from harness.model.cell import expand
from harness.model.scenario import Edge, NotApplicable, Role
from harness.model.semantics import Semantic
from harness.pipelines import DeclarationError, failure_points, read_pipeline
from harness.pipelines.cells import aim, cells_of
from harness.pipelines.shares import Share
from harness.proofs.growth import Filled
from harness.proofs.start import READ_LATE, StartedLate, start_signs
from harness.protocols.kafka.steps import Api
from harness.scenarios.plain import NONE
from harness.systems.declared import abilities
from harness.wire.rules import Direction
from tests.events import a_history, typed
from tests.judge.recording import played, steps
from tests.pipelines.test_check import EXAMPLES, Silent, check
from tests.pipelines.test_declaration import GOOD, declared

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from harness.model.scenario import Scenario
    from harness.pipelines.declaration import Pipeline
    from harness.systems.declared.system import DeclaredSystem
    from tests.pipelines.scenes import Scenes

PROGRAMS = EXAMPLES.parent / "tests" / "pipelines" / "programs"
FOLDER = PROGRAMS / "begins-at-end"
FIRST, LAST = "consumer-crash-at-first-delivery", "consumer-crash-at-last-delivery"
LATE, EXPIRED = "consumer-started-late", "positions-expired"
FILLED = "consumer-partition-filled"
ENDS = ("producer-crash-before-first-ack", "last-request-lost")
ALL = (FIRST, LAST, LATE, EXPIRED, FILLED, *ENDS)
ANSWER = OnWire(Role.PRODUCER, Api.PRODUCE, Direction.RESPONSE)


def points(pipeline: Pipeline) -> dict[str, Scenario]:
    """Return the failure points of a pipeline by their names."""
    return {each.id: each for each in failure_points(pipeline)}


def why_not(pipeline: Pipeline, name: str) -> str | None:
    """Say why a point does not apply."""
    found = points(pipeline)[name].expect[pipeline.claims]
    return found.because if isinstance(found, NotApplicable) else None


# --- what is planned ------------------------------------------------------------------------------


def test_every_pipeline_has_them(tmp_path: Path) -> None:
    """Of these, four are at the first record of the run, or at the last."""
    pipeline = read_pipeline(declared(tmp_path, GOOD))
    found = points(pipeline)
    assert {name: why_not(pipeline, name) for name in ALL} == dict.fromkeys(ALL)
    edges = {name: found[name].edge for name in ALL if found[name].edge}
    assert edges == {
        FIRST: Edge.FIRST,
        LAST: Edge.LAST,
        ENDS[0]: Edge.FIRST,
        ENDS[1]: Edge.LAST,
    }
    assert found[LATE].fault == StartLate(ANSWER, Role.CONSUMER)
    expired: Any = found[EXPIRED].fault
    assert (expired.victims, expired.forget) == ((Role.CONSUMER,), Forget.POSITIONS)


def test_the_target_is_the_first_record_or_the_last(tmp_path: Path) -> None:
    """Of all; or of those that the stage gets, wherever they are."""
    pipeline = read_pipeline(declared(tmp_path, GOOD))
    cells = {cell.scenario.id: cell for cell in cells_of(pipeline, failure_points(pipeline))}
    records = len(cells[FIRST].load().records)
    assert cells[FIRST].load().target.position == 1
    assert cells[LAST].load().target.position == records
    assert 1 < cells["commit-lost"].load().target.position < records
    some = Share(given=frozenset({3, 5}), offered=records)
    at = [aim(cells[name], {"consumer": some}).load().target.position for name in (FIRST, LAST)]
    assert at == [3, 5]


def test_so_it_is_in_a_cell_with_lostack_s_own_programs() -> None:
    """It was drawn from the middle third, whatever its scenario said."""
    for edge, position in ((Edge.FIRST, 1), (Edge.LAST, 24)):
        scenario = replace(NONE, edge=edge)
        [cell] = expand((scenario,), semantics=[Semantic.AT_LEAST_ONCE], seeds=[1], records=24)
        assert cell.load().target.position == position


def test_a_reader_that_begins_at_the_end_says_so(tmp_path: Path) -> None:
    """Then what was there before is none of its records; that it dies at its first is still
    tried.
    """
    text = GOOD.replace('role = "consumer"', 'role = "consumer"\nbegins = "end"')
    pipeline = read_pipeline(declared(tmp_path, text))
    said = 'the consumer declares begins = "end": what was there before is not its own'
    assert (why_not(pipeline, LATE), why_not(pipeline, EXPIRED)) == (said, said)
    assert why_not(pipeline, FIRST) is None
    with pytest.raises(DeclarationError, match="begins"):
        read_pipeline(declared(tmp_path, text.replace('"end"', '"middle"')))


def test_what_no_reader_can_keep_is_not_asked_of_it(tmp_path: Path) -> None:
    """Without its positions it must read again or skip; exactly-once forbids both."""
    text = GOOD.replace('claims = "at-least-once"', 'claims = "exactly-once"')
    said = why_not(read_pipeline(declared(tmp_path, text)), EXPIRED)
    assert said == (
        "without its positions a reader must read again or skip, and exactly-once forbids one of "
        "the two"
    )


def test_where_nobody_sends_what_it_reads_nothing_shows_that_it_is_there() -> None:
    pipeline = read_pipeline(EXAMPLES / "enrich" / "pipeline.toml")
    said = why_not(pipeline, "processor-started-late")
    assert said is None or said.startswith("no stage sends what it reads")


# --- the faults -----------------------------------------------------------------------------------


def test_the_stage_is_started_when_the_records_are_there() -> None:
    """Nobody is hurt; if no record comes it is never started, and the cell is void."""
    fault = StartLate(ANSWER, Role.CONSUMER)
    assert steps(fault, ANSWER) == ["fired", "Beginning.begin consumer", "healed"]
    assert steps(fault) == []
    with pytest.raises(ValueError, match="another stage than the producer"):
        StartLate(ANSWER, Role.PRODUCER)


def test_the_record_may_wait_until_the_stage_is_ready() -> None:
    """It is not let go before."""
    begun, held = "Beginning.begin consumer", StartLate(ANSWER, Role.CONSUMER, held=True)
    done = steps(held, ANSWER)
    assert [each.partition(" ")[0] for each in done] == [
        "fired",
        "Beginning.begin",
        "resolve",
        "healed",
    ]
    assert done[1] == begun
    assert done[2].endswith("release")


@pytest.mark.parametrize(
    ("started", "said"),
    [
        ([12], None),
        ([12, 20], None),
        ([8, 12], "the consumer was started before the records were there"),
        ([], "the consumer was never started"),
    ],
)
def test_its_proof_is_when_it_was_first_started(started: Sequence[int], said: str | None) -> None:
    lines = [
        typed(
            {
                "event": "node",
                "t": t,
                "phase": "started",
                "node": "consumer",
                "role": "consumer",
                "incarnation": 1,
            }
        )
        for t in started
    ]
    course: Any = type("Course", (), {"history": a_history(lines), "fired_at": 10})()
    assert StartedLate("consumer").trouble(course) == said


def test_a_record_that_waited_for_its_reader_shows_the_effect() -> None:
    """Where it was given to it; of another fault it shows nothing."""
    hit = {"event": "rule", "t": 5, "rule": "fault", "phase": "hit", "records": ["a"]}
    given = {"event": "fetched", "t": 6, "record": "a", "reached": True}
    fired = {"event": "fault", "t": 5, "phase": "fired", "fault": "start-late"}
    assert start_signs(a_history([fired, hit, given])) == {READ_LATE: {"a"}}
    assert start_signs(a_history([fired, hit, given | {"reached": False}])) == {READ_LATE: set()}
    assert start_signs(a_history([fired | {"fault": "kill"}, hit, given])) == {}


def test_a_producer_that_is_silent_for_long_is_given_longer_to_fill_a_new_partition(
    scenes: Scenes, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[float] = []
    monkeypatch.setattr(controls, "wait_until", lambda _, *, within_s, **__: asked.append(within_s))
    scene, feed = scenes("orders"), SimpleNamespace(release=lambda: None)
    given: Any = feed
    for silent_s in (0.0, 80.0):
        monkeypatch.setattr(
            scene.learnt.silences, "still", lambda _, least, most=silent_s: max(least, most)
        )
        abilities.AddedPartitions(scene, given).await_filled()
    assert asked == [abilities.FILLED_S, 80.0]


def test_new_partitions_have_records_before_their_reader_is_back() -> None:
    at = OnWire(Role.PRODUCER, Api.PRODUCE, Direction.REQUEST)
    assert steps(PartitionFilled(at, Role.CONSUMER), at) == [
        "fired",
        "kill",
        "kill",
        "applied",
        "resolve Produce discard",
        "NewPartitions.add",
        "restart",
        "NewPartitions.await_filled",
        "restart",
        "healed",
    ]
    with pytest.raises(ValueError, match="another stage"):
        PartitionFilled(at, Role.PRODUCER)


@pytest.mark.parametrize(
    ("added", "sent", "back", "said"),
    [
        (5, 6, 7, None),
        (5, 8, 7, "no added partition had a record when the consumer came back"),
        (5, 6, 4, "no added partition had a record when the consumer came back"),
        (5, None, 7, "no record was sent to an added partition"),
        (None, 6, 7, "no partition was added to the topic"),
    ],
)
def test_the_proof_is_a_record_in_a_new_partition(
    added: int | None, sent: int | None, back: int, said: str | None
) -> None:
    node = {"phase": "started", "node": "consumer", "role": "consumer", "incarnation": 2}
    at = {"topic": "t", "partition": 1}
    lines = [
        {"event": "added", "t": added, "before": 1, **at},
        {"event": "sent", "t": sent, "record": "a", "request": "1:1", **at},
        {"event": "node", "t": back, **node},
    ]
    course: Any = type("Course", (), {})()
    course.history = a_history([typed(each) for each in lines if each["t"] is not None])
    found = Filled("consumer").trouble(course)
    assert (found is None) if said is None else str(found).startswith(said)


def test_positions_go_while_their_reader_is_dead() -> None:
    """After its death, before its successor."""
    commit = OnWire(Role.CONSUMER, Api.OFFSET_COMMIT, Direction.REQUEST)
    fault = Kill(commit, (Role.CONSUMER,), forget=Forget.POSITIONS)
    assert played(fault).done == [
        "arm fault",
        "armed",
        "fired",
        "kill",
        "applied",
        "resolve OffsetCommit discard",
        "SavedPositions.forget",
        "restart",
        "healed",
    ]


# --- with a broker --------------------------------------------------------------------------------


@pytest.mark.kafka
@pytest.mark.rest(together=True)
@pytest.mark.timeout(600)
def test_a_reader_that_begins_at_the_end_is_convicted(
    system: DeclaredSystem, tmp_path: Path
) -> None:
    """Without a position it skips what is there: at its first record, at a late start, in a new
    partition, and when its positions are gone. Before there were these points it was kept.
    """
    names = (FIRST, LATE, EXPIRED, FILLED, "commit-lost")
    found = check(system, tmp_path, FOLDER / "pipeline.toml", *names)
    said = {name: (one.verdict.kind, one.verdict.by_fault) for name, one in found.items()}
    assert said == {
        FIRST: (Kind.BROKEN, True),
        LATE: (Kind.BROKEN, True),
        EXPIRED: (Kind.BROKEN, True),
        FILLED: (Kind.BROKEN, True),
        "commit-lost": (Kind.KEPT, True),
    }, {name: one.verdict.reason for name, one in found.items()}
    lost = {name: one.judgement.account.lost for name, one in found.items()}
    assert lost[FIRST] >= {found[FIRST].plan.target}
    assert found[LATE].plan.target in lost[LATE]
    assert lost[EXPIRED] - {found[EXPIRED].plan.target}, "what came while it was away"


@pytest.mark.kafka
@pytest.mark.rest(together=True)
@pytest.mark.timeout(600)
def test_one_that_begins_at_the_start_is_kept(system: DeclaredSystem, tmp_path: Path) -> None:
    """At all of them; each fault struck."""
    found = check(system, tmp_path, FOLDER / "right.toml", *ALL)
    assert {name: (one.verdict.kind, one.verdict.fired) for name, one in found.items()} == (
        dict.fromkeys(ALL, (Kind.KEPT, 1))
    ), {name: one.verdict.reason for name, one in found.items()}
    assert all(one.verdict.effect for one in found.values())


@pytest.mark.kafka
@pytest.mark.rest(together=True)
@pytest.mark.timeout(600)
def test_a_late_start_that_does_not_come_proves_nothing(
    system: DeclaredSystem, tmp_path: Path
) -> None:
    """The stage whose cue never comes is not started: void, and said so."""
    asked = Check(
        replace(read_pipeline(FOLDER / "right.toml"), drain_s=5.0), system, tmp_path, "pytest"
    )
    with make_progress(Silent()) as progress:
        [cell], _ = asked.plan(seen_in(asked.dry_run(progress)), (LATE,))
        never = StartLate(OnWire(Role.PRODUCER, Api.END_TXN, Direction.RESPONSE), Role.CONSUMER)
        saved = asked.faults(
            [replace(cell, scenario=replace(cell.scenario, fault=never))], (), progress
        )
    [found] = saved.results
    assert found.verdict.kind is Kind.VOID
    assert found.verdict.reason.startswith("the fault did not fire; the run failed: the output ")
