"""A whole sweep of a play: what is planted at a step is found there, in few runs, and a right
system has no finding.
"""

from __future__ import annotations

import itertools
import json
import shutil
import time
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import pytest

from harness import saved
from harness.faults import Drop, Kill, NoFault, Twice
from harness.judge.verdict import Kind
from harness.matrix.selection import SelectionError
from harness.model.exits import ExitCode
from harness.model.failures import UsageError
from harness.model.history import History, HistoryError, read_history
from harness.model.states import State
from harness.registry import UnknownNameError
from harness.saved import ASIDE, SWEEP_FILE, judge_cell
from harness.stages.settings import Settings
from harness.sweep import sweeping
from harness.sweep.cells import SweepCell
from harness.sweep.classes import RunReason, class_of
from harness.sweep.found import slug
from harness.sweep.outcomes import Outcome, Outcomes, line_of, outcome_of, source_ended
from harness.sweep.pipelines import swept
from harness.sweep.saved_runs import DRY_RUNS, WATCHED
from harness.sweep.settings import DRY, POINTS, SweepSettings
from harness.sweep.signature import Signature
from harness.sweep.sweeping import DryRunError
from harness.sweep.telling import plain_of, summary_of, write_sweep
from tests.events import a_history
from tests.memory.plants import Plant
from tests.sweep.stepping import RIGHT, Quiet, Stepping, asked, sweep

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from harness.model.cell import Cell
    from harness.saved import CellResult
    from harness.sweep.planning import Planned
    from harness.sweep.sweeping import Sweep


def loses_at_lost_answers(cell: Cell) -> Plant:
    """Lose a record wherever the answer to a Produce is lost."""
    fault = cell.scenario.fault
    wrong = (
        isinstance(fault, Drop) and fault.at.api == "Produce" and fault.at.direction == "response"
    )
    return Plant(lose=1) if wrong else RIGHT


@dataclass(frozen=True)
class Done:
    """A sweep that is done. Tests may look at it, and not go on with it: several share it."""

    sweep: Sweep
    planned: Planned
    outcomes: Outcomes


def done(one: Sweep) -> Done:
    """Run a sweep."""
    one.dry_run(Quiet())
    planned = one.plan()
    one.run(planned, Quiet())
    return Done(one, planned, one.outcomes(planned))


@pytest.fixture(scope="module")
def losing(tmp_path_factory: pytest.TempPathFactory) -> Done:
    """Return a sweep of a play that loses records."""
    return done(sweep(tmp_path_factory.mktemp("losing") / "one", loses_at_lost_answers))


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory) -> Done:
    """Return a sweep of a play that loses nothing."""
    return done(sweep(tmp_path_factory.mktemp("right") / "one"))


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a sweep of kills, without a finding, which a copy of it can go on
    from.
    """
    return done(sweep(tmp_path_factory.mktemp("killed") / "one", acts=("kill",))).sweep.directory


def of_two_faults(killed: Path, folder: Path, wrong: Callable[[Cell], Plant]) -> Done:
    """Return a sweep of a play that is wrong only under two faults, of which the single faults are
    done: they show nothing.
    """
    shutil.copytree(killed, folder / "one", symlinks=True)
    one, progress = sweep(folder / "one", wrong, acts=("kill",)), Quiet()
    one.dry_run(progress)
    planned = one.plan()
    one.run(planned, progress)
    assert not progress.ran, "what the copy has is not run again"
    outcomes = one.outcomes(planned)
    assert len(outcomes.all) == len(planned.chosen)
    assert not outcomes.findings()
    return Done(one, planned, outcomes)


def test_what_is_planted_is_one_finding(losing: Done) -> None:
    """Every point of the class that was run shows it, and they are one finding; nothing else is."""
    outcomes = losing.outcomes
    [finding] = outcomes.findings()
    assert finding.signature.verdict == Kind.BROKEN
    assert finding.signature.anomalies == ("lost",)
    assert {point.point.act for point in finding.points} == {"lose"}
    assert {
        (point.point.step.api, str(point.point.step.direction)) for point in finding.points
    } == {("Produce", "response")}
    assert summary_of(losing.sweep, losing.planned, outcomes).exit_code == 1


def test_the_first_broken_point_is_enough(tmp_path: Path) -> None:
    """No point begins behind it, what was found is told, and a resumed sweep runs the rest."""
    one, progress = sweep(tmp_path / "one", loses_at_lost_answers), Quiet()
    one.exit_first = True
    one.dry_run(progress)
    planned = one.plan()
    one.run(planned, progress)
    outcomes = one.outcomes(planned)
    broken = [each for each in outcomes.all if each.signature.verdict == Kind.BROKEN]
    assert broken
    assert len(broken) <= one.settings.jobs
    assert len(outcomes.all) < len(planned.chosen)
    assert "PARTIAL" in "\n".join(summary_of(one, planned, outcomes).lines)
    assert summary_of(one, planned, outcomes).exit_code == ExitCode.BROKEN
    rest = sweep(tmp_path / "one", loses_at_lost_answers)
    rest.run(rest.plan(), progress)
    assert len(rest.outcomes(rest.plan()).all) >= len(planned.chosen)


def test_a_point_whose_history_cannot_be_read_is_run_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing proves its fault; the sweep ends, and does not run it for ever."""
    one, progress = sweep(tmp_path / "one", acts=("lose",)), Quiet()
    one.dry_run(progress)
    planned = one.plan()
    unreadable = planned.chosen[0][0].id

    def read(directory: Path, cell: str) -> History:
        if unreadable in cell:
            assert progress.ran.count(unreadable) < 2
            raise HistoryError("cannot read the history: Input/output error")
        return read_history(directory, cell)

    monkeypatch.setattr(saved, "read_history", read)
    one.run(planned, progress)
    assert progress.ran.count(unreadable) == 1
    [outcome] = [each for each in one.outcomes(planned).all if each.point.id == unreadable]
    assert not outcome.proved


@dataclass(frozen=True, slots=True)
class WatchedCell(SweepCell):
    """A cell whose durable writes a dry run of its own watches, as those of declared ones."""

    brief: bool = False


def watched(directory: Path) -> Sweep:
    """Return a sweep of such cells."""
    one = sweep(directory)
    one.base = WatchedCell(**{each.name: getattr(one.base, each.name) for each in fields(one.base)})
    return one


@pytest.mark.parametrize("unreadable", ["dry-1", "dry-2", WATCHED])
def test_a_dry_run_whose_history_cannot_be_read_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unreadable: str
) -> None:
    """It has shown nothing, and the others have."""
    monkeypatch.setattr(sweeping, "DeclaredSweepCell", WatchedCell)
    watched(tmp_path / "one").dry_run(Quiet())
    [history] = (tmp_path / "one" / DRY).glob(f"2*/cells/*{unreadable}*/history")
    shutil.rmtree(history)
    one, progress = watched(tmp_path / "one"), Quiet()
    one.dry_run(progress)
    assert progress.ran == [unreadable]
    [aside] = (tmp_path / "one" / DRY).glob(f"2*/{ASIDE}/*")
    assert aside.name == history.parent.name
    later = Quiet()
    one.dry_run(later)
    assert not later.ran
    assert one.plan().chosen


def test_a_broken_point_that_did_not_wait_long_enough_is_run_again_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is kept then, and the sweep goes on; one that stays broken ends it. So it is of a user's
    pipeline.
    """
    monkeypatch.setattr(sweeping, "DeclaredCell", SweepCell)
    asked_again: list[str] = []

    def again(cells: Sequence[Cell]) -> list[str]:
        asked_again.extend(cell.id for cell in cells)
        return asked_again

    one = sweep(
        tmp_path / "one", lambda cell: RIGHT if asked_again else loses_at_lost_answers(cell)
    )
    progress = Quiet()
    one.exit_first, one.again = True, again
    one.dry_run(progress)
    planned = one.plan()
    one.run(planned, progress)
    assert asked_again
    assert not one.found_first
    assert not one.outcomes(planned).findings()
    assert len(one.outcomes(planned).all) == len(planned.chosen)
    assert list((tmp_path / "one" / POINTS).glob(f"*/{ASIDE}/*")), (
        "the first results are kept, and count no more"
    )
    fresh = sweep(tmp_path / "one")
    assert not fresh.outcomes(fresh.plan()).findings()
    other = sweep(tmp_path / "other", loses_at_lost_answers)
    other.exit_first, other.again = True, lambda cells: [cell.id for cell in cells]
    other.dry_run(progress)
    other.run(other.plan(), progress)
    assert other.found_first
    assert len(other.outcomes(other.plan()).all) < len(planned.chosen)


def test_what_is_broken_in_lostack_s_own_pipelines_is_not_run_again(tmp_path: Path) -> None:
    """A cell that is given up there is stuck, never broken for want of patience."""
    one, progress = sweep(tmp_path / "one", loses_at_lost_answers), Quiet()
    one.exit_first, one.again = True, lambda cells: [cell.id for cell in cells]
    one.dry_run(progress)
    one.run(one.plan(), progress)
    assert one.found_first
    assert not list((tmp_path / "one" / POINTS).glob(f"*/{ASIDE}/*"))


def test_without_a_broken_point_all_are_run(tmp_path: Path) -> None:
    one, progress = sweep(tmp_path / "one", lambda _: RIGHT), Quiet()
    one.exit_first = True
    one.dry_run(progress)
    planned = one.plan()
    one.run(planned, progress)
    assert not one.found_first
    assert len(one.outcomes(planned).all) == len(planned.chosen)


def test_a_bug_that_only_two_faults_show(killed: Path, tmp_path: Path) -> None:
    """No single fault finds it; one during the recovery from another does, and its
    name says both.
    """

    def wrong(cell: Cell) -> Plant:
        fault = cell.scenario.fault
        return (
            Plant(lose=1)
            if isinstance(fault, Twice) and fault.second.at.api == "InitProducerId"
            else RIGHT
        )

    singly = of_two_faults(killed, tmp_path, wrong)
    one, planned = singly.sweep, singly.planned
    deeper = one.deeper(planned)
    assert {
        point.step.role
        for each, inside in deeper.classes.items()
        if each not in planned.classes
        for point in inside
    } == {"producer", "consumer"}  # whose recovery differs where it has no position yet
    one.run(deeper, Quiet())
    outcomes = one.outcomes(deeper)
    [finding] = outcomes.findings()
    assert {point.point.happens.act for point in finding.points} == {"kill"}
    assert {point.point.second[1].act for point in finding.points if point.point.second} == {
        "kill",
        "kill-broker",
        "lose",
    }
    assert finding.first.point.id.endswith("+then+producer.InitProducerId.request.1+kill")
    assert not outcomes.unproved


@pytest.mark.parametrize("way", ["request", "response"])
def test_where_the_first_fault_stood_makes_another_recovery(
    way: str, killed: Path, tmp_path: Path
) -> None:
    """The requests of a recovery may be the same, whatever there is to recover: each kind of step
    has one of its own.
    """

    def wrong(cell: Cell) -> Plant:
        fault = cell.scenario.fault
        both = (
            isinstance(fault, Twice)
            and fault.first.at.api == "Produce"
            and str(fault.first.at.direction) == way
            and fault.second.at.api == "InitProducerId"
        )
        return Plant(lose=1) if both else RIGHT

    singly = of_two_faults(killed, tmp_path, wrong)
    one = singly.sweep
    deeper = one.deeper(singly.planned)
    one.run(deeper, Quiet())
    [finding] = one.outcomes(deeper).findings()
    assert {
        (point.point.step.api, str(point.point.step.direction)) for point in finding.points
    } == {("Produce", way)}


def test_who_is_cut_short_has_seen_the_beginning_of_every_recovery(
    killed: Path, tmp_path: Path
) -> None:
    """The kills before what a program goes on from; and no recovery is done to its end before
    another has begun.
    """
    singly = of_two_faults(killed, tmp_path, lambda _: RIGHT)
    deeper = singly.sweep.deeper(singly.planned)
    new = [
        point for point, _ in deeper.chosen if point.second is not None and not point.kills_broker
    ]
    acts = [point.second[1].act for point in new if point.second]
    assert acts == sorted(acts, key=lambda act: act != "kill")
    assert set(acts) == {"kill", "lose"}
    recoveries = {point.step for point in new}
    assert len(recoveries) > 1
    assert {point.step for point in new[: len(recoveries)]} == recoveries


@pytest.mark.parametrize("foreign", [False, True])
def test_what_a_successor_does_first_is_a_step_of_the_recovery(
    foreign: bool, tmp_path: Path
) -> None:
    """Its name is one of the dry runs, too; but only there it is done by somebody who has begun
    anew, on other connections.
    """

    def wrong(cell: Cell) -> Plant:
        fault = cell.scenario.fault
        return (
            Plant(lose=1)
            if isinstance(fault, Twice) and fault.second.at.api == "Produce"
            else RIGHT
        )

    one, progress = sweep(tmp_path / "one", wrong, acts=("kill",)), Quiet()
    one.system = Stepping(wrong, foreign=foreign)
    one.dry_run(progress)
    planned = one.plan()
    one.run(planned, progress)
    known = {step for step, _ in planned.steps.found}
    seconds = {
        point.second[0]
        for inside in one.deeper(planned).classes.values()
        for point in inside
        if point.second
    }
    begun = {step for step in seconds & known if step.role == "producer"}
    first = {(step.api, str(step.direction)) for step in begun}
    assert first == {("Produce", "request"), ("Produce", "response")}
    assert {step.api for step in seconds - known} == {"InitProducerId"}
    assert not one.outcomes(planned).findings()
    deeper = one.deeper(planned)
    one.run(deeper, progress)
    [finding] = one.outcomes(deeper).findings()
    assert {point.point.second[0].api for point in finding.points if point.point.second} == {
        "Produce"
    }


def test_a_right_system_has_no_finding(right: Done) -> None:
    """Every class has a point with a proof; what was run is the first and the last of each, and 5 %
    of the rest.
    """
    one, planned, outcomes = right.sweep, right.planned, right.outcomes
    assert not outcomes.findings()
    assert not outcomes.unproved
    assert not outcomes.unseen()
    pruned = sum(max(0, len(inside) - 2) for inside in planned.classes.values())
    assert sum(why is RunReason.SAMPLE for _, why in planned.chosen) == -(-pruned * 5 // 100) > 0
    assert len(outcomes.chosen) == sum(min(2, len(inside)) for inside in planned.classes.values())
    assert f"{len(outcomes.sampled)} sampled, 0 deviations, 0 without proof" in line_of(
        planned.steps.frames, outcomes
    )
    told = summary_of(one, planned, outcomes)
    assert told.exit_code == 0
    assert json.loads(json.dumps(plain_of(one, planned, outcomes, told)))["findings"] == []


def test_the_first_record_is_struck_too(right: Done) -> None:
    """No load comes before it, and none is asked for; what waits for a client's time-out is only
    done where it is named.
    """
    one, planned = right.sweep, right.planned
    first = one.base.load().records[0].id
    assert {point.act for inside in planned.classes.values() for point in inside} >= {
        "kill",
        "lose",
    }
    struck = {point.step.at for inside in planned.classes.values() for point in inside}
    assert first in struck
    acts = {point.act for inside in planned.classes.values() for point in inside}
    assert "silent" not in acts


def test_a_deviation_splits_its_class(tmp_path: Path) -> None:
    """What is wrong from one record on is found between the first and the last of the class, by
    halves.
    """

    def wrong(cell: Cell) -> Plant:
        late = cell.load().target.position > 5
        return Plant(duplicate=1) if late and isinstance(cell.scenario.fault, Drop) else RIGHT

    one, progress = sweep(tmp_path / "one", wrong), Quiet()
    one.dry_run(progress)
    planned = one.plan()
    one.run(planned, progress)
    outcomes = one.outcomes(planned)
    assert outcomes.deviations()
    for each, inside in outcomes.inside().items():
        if each.act != "lose" or each not in outcomes.deviations():
            continue
        ran = outcomes.by_id()
        places = [at for at, point in enumerate(inside) if point.id in ran]
        changes = [
            (a, b) for a, b in itertools.pairwise(places) if ran[inside[a].id] != ran[inside[b].id]
        ]
        assert changes
        assert all(b - a == 1 for a, b in changes), (
            "between two that differ, nothing is left to be run"
        )


def test_a_point_whose_fault_never_fires_was_not_run(tmp_path: Path) -> None:
    """It is told, and counts for nothing."""
    one = sweep(
        tmp_path / "one",
        lambda cell: Plant(disarm=True) if isinstance(cell.scenario.fault, Kill) else RIGHT,
    )
    one.dry_run(Quiet())
    planned = one.plan()
    one.run(planned, Quiet())
    outcomes = one.outcomes(planned)
    assert {one.point.act.partition("-")[0] for one in outcomes.unproved} == {"kill"}
    assert {each.act.partition("-")[0] for each in outcomes.unseen()} == {"kill"}
    assert summary_of(one, planned, outcomes).exit_code == 4


@pytest.mark.parametrize(
    ("states", "ended", "proved"),
    [
        (("left in source", "stalled"), True, False),
        (("left in source",), False, True),
        (("stalled",), True, True),
    ],
)
def test_who_ends_the_source_has_proved_nothing(
    states: tuple[str, ...], ended: bool, proved: bool, losing: Done
) -> None:
    """Its program has ended by itself: whether another record moved behind the fault is chance, and
    makes no finding of it.
    """
    planned, some = losing.planned, losing.outcomes.all[0]
    stuck = replace(some, signature=Signature(str(Kind.STUCK), states=states), ended=ended)
    outcomes = Outcomes(planned.classes, (stuck,))
    assert (len(outcomes.unproved), len(outcomes.findings())) == ((0, 1) if proved else (1, 0))
    broken = replace(stuck, signature=Signature(str(Kind.BROKEN), ("lost",), states))
    assert Outcomes(planned.classes, (broken,)).findings()


@pytest.mark.parametrize(
    ("roles", "ended", "expected"),
    [
        (("producer", "consumer"), "producer", True),
        (("producer", "consumer"), "consumer", False),
        (("processor",), "processor", True),
    ],
)
def test_only_the_program_at_the_source_ends_the_source(
    roles: tuple[str, ...], ended: str, expected: bool
) -> None:
    """A consumer that ends by itself leaves records in the topic; what is left in the source has
    another cause.
    """
    lines = [{"event": "node", "t": 1, "role": role, "phase": "started"} for role in roles]
    lines.append({"event": "fault", "t": 2, "phase": "fired"})
    lines.append(
        {"event": "node", "t": 3, "role": ended, "phase": "exited", "status": 1, "asked": False}
    )
    assert source_ended(a_history(tuple(lines))) is expected


def test_a_supervised_program_does_not_end_the_source() -> None:
    """It was started again: if it ends each time, that is a finding, and no point
    without a proof.
    """
    lines = [
        {
            "event": "node",
            "t": at,
            "role": "producer",
            "node": "producer",
            "phase": "started",
            "supervised": True,
        }
        for at in (1, 4)
    ]
    lines += [
        {
            "event": "node",
            "t": at,
            "role": "producer",
            "node": "producer",
            "phase": "exited",
            "status": 1,
        }
        for at in (3, 5)
    ]
    lines.append({"event": "fault", "t": 2, "phase": "fired"})
    assert not source_ended(a_history(tuple(lines)))


def test_a_refusal_is_no_finding_with_another_act(tmp_path: Path) -> None:
    """Who is refused decides itself what to do: another cause than a death or a loss that ends
    alike.
    """
    one = sweep(tmp_path / "one", acts=("kill", "lose", "refuse"))
    one.dry_run(Quiet())
    planned = one.plan()
    points = [point for inside in planned.classes.values() for point in inside]
    some = [
        next(point for point in points if point.act.startswith(act))
        for act in ("kill", "lose", "refuse-N", "refuse-done-R")
    ]
    each = class_of(some[0], "calm")
    broken = Signature(str(Kind.BROKEN), ("lost",))
    told = tuple(
        Outcome(point, RunReason.FIRST, each, class_of(point, "calm"), broken, "", tmp_path, 1.0)
        for point in some
    )
    found = Outcomes(planned.classes, told).findings()
    assert [{one.point.act.partition("-")[0] for one in finding.points} for finding in found] == [
        {"kill", "lose"},
        {"refuse"},
    ]


def test_a_finding_is_shown_by_the_point_that_most_likely_shows_it_again(right: Done) -> None:
    """One whose own record is affected, before one that kills no broker, before the earliest."""
    planned, broken = right.planned, Signature(str(Kind.BROKEN), ("lost",))
    told = [replace(each, signature=broken, own=False) for each in right.outcomes.all]
    kills = [each for each in told if each.point.kills_broker][:2]
    plain = [each for each in told if not each.point.kills_broker][:2]

    def shown(*points: Outcome) -> Outcome:
        [finding] = Outcomes(planned.classes, points).findings()
        return finding.first

    assert shown(*kills, *plain).point == min(
        (each.point for each in plain), key=lambda point: point.place
    )
    assert shown(replace(kills[0], own=True), *plain).point == kills[0].point
    assert shown(*kills).point == min((each.point for each in kills), key=lambda point: point.place)
    [finding] = Outcomes(
        planned.classes, (*kills, *plain), frozenset({slug(kills[1].point.id)})
    ).findings()
    assert finding.first.point == kills[1].point, (
        "its scenario file is there, and may be a test of somebody's"
    )


@pytest.mark.parametrize(
    ("changed", "own"),
    [
        ({}, False),
        ({"state": State.LOST}, True),
        ({"state": State.LEFT_IN_TOPIC}, False),
        ({"recordings": 2}, False),
    ],
)
def test_whether_a_fault_s_own_record_is_affected(
    changed: dict[str, Any], own: bool, losing: Done
) -> None:
    """It is where the claim forbids what happened to that one: at least once a loss, and no
    duplicate.
    """
    told = next(each for each in losing.outcomes.all if each.signature.verdict == Kind.BROKEN)
    assert not told.own
    result = next(
        each for each in losing.sweep.saved.results(POINTS) if each.directory == told.directory
    )
    account = result.judgement.account
    rows: Any = tuple(
        row | (changed if row["record"] == told.point.step.at else {}) for row in account.rows
    )
    result = replace(
        result, judgement=replace(result.judgement, account=replace(account, rows=rows))
    )
    usual = losing.planned.usual
    assert outcome_of(result, told.point, told.why, told.planned, usual).own is own


def test_an_error_that_kept_points_show_as_well_makes_no_other_finding(right: Done) -> None:
    """Who hears that a connection was lost is chance; an error that is told only where something
    broke tells findings apart.
    """
    all_of_them = right.outcomes.all
    act = next(each.where.act for each in all_of_them)
    same = [each for each in all_of_them if each.where.act == act]
    same = sorted(same, key=lambda each: each.point.place)[:5]
    errors = (("Cut",), ("Cut",), (), ("Other",), ("Cut", "Other"))
    verdicts = (Kind.KEPT, Kind.STUCK, Kind.STUCK, Kind.STUCK, Kind.STUCK)
    told = [
        replace(each, signature=Signature(str(verdict), errors=some))
        for each, some, verdict in zip(same, errors, verdicts, strict=True)
    ]
    found = Outcomes(right.planned.classes, tuple(told)).findings()
    assert [(finding.signature.errors, len(finding.points)) for finding in found] == [
        ((), 2),
        (("Other",), 2),
    ]
    assert {finding.ordinary for finding in found} == {frozenset({"Cut"})}


def test_a_sweep_goes_on_where_it_was_cut(tmp_path: Path) -> None:
    one, progress = sweep(tmp_path / "one"), Quiet()
    one.dry_run(progress)
    planned = one.plan()
    one.run(planned, progress, until=time.monotonic())
    assert len(one.outcomes(planned).all) == 0
    half = [point for point, _ in planned.chosen[: len(planned.chosen) // 2]]
    some = replace(planned, chosen=tuple((point, RunReason.FIRST) for point in half))
    one.run(some, progress)
    again, later = sweep(tmp_path / "one"), Quiet()
    again.dry_run(later)
    assert not later.ran
    anew = again.plan()
    assert [point.id for point, _ in anew.chosen] == [point.id for point, _ in planned.chosen]
    again.run(anew, later)
    assert set(later.ran).isdisjoint(point.id for point in half)
    assert len(again.outcomes(anew).all) == len(planned.chosen)


def test_what_a_run_has_judged_is_not_judged_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But a run in the place of one that was put aside is another run."""
    read: list[Path] = []

    def judging(directory: Path) -> CellResult:
        read.append(directory)
        return judge_cell(directory)

    monkeypatch.setattr(saved, "judge_cell", judging)  # the runner has its own name for it
    one = sweep(tmp_path / "one")
    one.dry_run(Quiet())
    dry = [each.directory for each in one.saved.dry_runs()]
    assert len(dry) == DRY_RUNS
    assert not read
    run = dry[0].parents[1]
    one.saved.put_aside_run(run)
    assert one.saved.dry_runs() == []
    (one.directory / ASIDE / run.name).rename(run)
    assert len(one.saved.dry_runs()) == DRY_RUNS
    assert read == dry


@pytest.mark.parametrize(("shard", "refused"), [((1, 2), True), ((1, 1), False)])
def test_a_part_of_an_older_sweep_is_refused(
    shard: tuple[int, int], refused: bool, tmp_path: Path
) -> None:
    """Its points came in another order, so its parts had other ones; a whole sweep has the same."""
    asked(shard=shard).save(tmp_path)
    file = tmp_path / SWEEP_FILE
    file.write_text(json.dumps(json.loads(file.read_text()) | {"schema": 1}))
    if refused:
        with pytest.raises(UsageError, match="whose parts have other points: begin it anew"):
            SweepSettings.load(tmp_path)
    else:
        assert SweepSettings.load(tmp_path).shard == shard


def test_shards_have_every_point_once(right: Done, tmp_path: Path) -> None:
    """Together they are the whole sweep, also of one folder, where the later ones see what the
    first have run.
    """
    found = []
    for part in (1, 2, 3):
        one = sweep(tmp_path / f"part-{part}", shard=(part, 3))
        one.dry_run(Quiet())
        planned = one.plan()
        found += [point.id for point, _ in planned.chosen]
        one.run(planned, Quiet())
        outcomes = one.outcomes(planned)
        write_sweep(one, planned, outcomes, summary_of(one, planned, outcomes))
    assert sorted(found) == sorted(point.id for point, _ in right.planned.chosen)


def test_what_is_broken_without_a_fault_is_not_swept(tmp_path: Path) -> None:
    """It would tell nothing of any fault."""
    one = sweep(tmp_path / "one", lambda _: Plant(lose=1))
    with pytest.raises(DryRunError, match="lost"):
        one.dry_run(Quiet())


def test_a_folder_that_is_no_sweep(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not the folder of a sweep"):
        SweepSettings.load(tmp_path)
    (tmp_path / SWEEP_FILE).write_text('{"schema": 99}')
    with pytest.raises(UsageError, match="newer"):
        SweepSettings.load(tmp_path)
    (tmp_path / SWEEP_FILE).write_text("[")
    with pytest.raises(UsageError, match="damaged"):
        SweepSettings.load(tmp_path)


def test_which_pipelines_are_meant() -> None:
    """A name, a name with a semantic, or a glob; the settings may be those of a scenario, which
    must be one of theirs.
    """
    three = [f"plain/{semantic}" for semantic in ("at-most-once", "at-least-once", "exactly-once")]
    assert [f"{cell.pipeline}/{cell.semantic}" for cell in swept(["plain"], asked())] == three
    assert [
        f"{cell.pipeline}/{cell.semantic}" for cell in swept(["plain/exactly*"], asked())
    ] == three[2:]
    settings = [
        Settings.of(swept(three[2:], asked(system="", like=like))[0].settings)
        for like in ("", "late-commit")
    ]
    assert [each.producer.in_step for each in settings] == [False, True]
    with pytest.raises(UnknownNameError, match="did you mean late-commit"):
        swept(["plain/exactly-once"], asked(system="", like="late-comit"))
    with pytest.raises(SelectionError, match="no pipeline matches 'plane'"):
        swept(["plane"], asked())


@pytest.mark.parametrize("shard", [(1, 1), (1, 2)])
def test_a_sweep_of_which_nothing_has_a_proof_is_void(
    shard: tuple[int, int], tmp_path: Path
) -> None:
    """Also a part of one: it has shown nothing."""
    one = sweep(
        tmp_path / "one",
        lambda cell: RIGHT if isinstance(cell.scenario.fault, NoFault) else Plant(disarm=True),
        shard=shard,
    )
    one.dry_run(Quiet())
    planned = one.plan()
    one.run(planned, Quiet())
    outcomes = one.outcomes(planned)
    assert outcomes.all
    assert not any(point.proved for point in outcomes.all)
    assert summary_of(one, planned, outcomes).exit_code == ExitCode.VOID


def test_dry_runs_that_name_no_protocol_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are of before steps were known by their protocol: a plan from them would silently have
    other points.
    """
    one = sweep(tmp_path / "one", lambda _: RIGHT)
    one.dry_run(Quiet())

    def old(*where: Any) -> History:
        found = read_history(*where)
        return a_history((*found.events, {"event": "conn", "phase": "open", "conn": 1, "t": 1}), ())

    assert one.plan().steps.found
    monkeypatch.setattr("harness.sweep.planning.read_history", old)
    with pytest.raises(UsageError, match=r"of an older lostack.*begin a new sweep"):
        one.plan()
