"""Points that kill their broker share its death, and none of them is judged by what another did."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from harness.controls import OnWire
from harness.faults import Drop, Kill, Twice
from harness.judge.verdict import Kind
from harness.matrix.lanes import DIE_AT_ONCE
from harness.model.cell import STANDS_S
from harness.model.exits import ExitCode
from harness.model.failures import CellFailure
from harness.model.scenario import Deployment, Role
from harness.protocols.kafka.steps import Api
from harness.sweep import sweeping
from harness.sweep.acts import KILL_BROKER
from harness.sweep.cells import at_point, shares_death, sharing, with_fault
from harness.sweep.pipelines import swept
from harness.sweep.shrinking import shrink_all
from harness.sweep.telling import plain_of, summary_of
from harness.wire.rules import Direction
from tests.memory.plants import Plant
from tests.sweep import stepping
from tests.sweep.stepping import RIGHT, Quiet, asked, sweep

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from harness.model.cell import Cell
    from harness.sweep.planning import Planned
    from harness.sweep.sweeping import Sweep

Groups = list[tuple[str, ...]]
SENT = OnWire(Role.PRODUCER, Api.PRODUCE, Direction.REQUEST)
KILLED: Any = Kill(SENT, (Role.BROKER,))


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> Groups:
    """Return the points, by their names, that were announced together to a broker of their own."""
    found: Groups = []

    def together(_: object, cells: Sequence[Cell]) -> None:
        found.append(tuple(cell.scenario.id for cell in cells))

    monkeypatch.setattr(stepping._Deployed, "together", together)
    return found


def shared(groups: Groups) -> set[str]:
    """Return the points that have shared a death."""
    return {point for group in groups if len(group) > 1 for point in group}


def quarters(one: Sweep, planned: Planned, group: Sequence[str]) -> set[int]:
    """Return in which quarters of the records the steps of these points are."""
    of = {each.id: each for inside in planned.classes.values() for each in inside}
    cells = [at_point(one.base, of[name]) for name in group]
    return {4 * (cell.load().target.position - 1) // cell.records for cell in cells}


def test_points_share_a_death_and_repetitions_do_not(tmp_path: Path, groups: Groups) -> None:
    """Up to eight of them. What shows whether a finding comes back dies alone each time."""

    def wrong(cell: Cell) -> Plant:
        return Plant(lose=1) if isinstance(cell.scenario.fault, Kill) else RIGHT

    one, progress = sweep(tmp_path / "one", wrong, acts=(KILL_BROKER,), jobs=3), Quiet()
    one.dry_run(progress)
    planned = one.plan()
    one.run(planned, progress)
    outcomes = one.outcomes(planned)
    points = {each.point.id for each in outcomes.all}
    assert sorted(point for group in groups for point in group) == sorted(points)
    assert 3 < max(map(len, groups)) <= DIE_AT_ONCE
    assert len(groups) <= -(-len(points) // DIE_AT_ONCE) + 4, "a death in each quarter, and splits"
    assert all(len(quarters(one, planned, group)) == 1 for group in groups)
    groups.clear()
    shrink_all(one, outcomes, planned.usual, progress, until=None)
    assert groups
    assert not shared(groups)


def test_one_job_is_one_death_for_each(tmp_path: Path, groups: Groups) -> None:
    one = sweep(tmp_path / "one", acts=(KILL_BROKER,), jobs=1)
    one.dry_run(Quiet())
    one.run(one.plan(), Quiet())
    assert groups
    assert not shared(groups)


def test_what_proves_nothing_in_a_shared_death_dies_again_alone(
    tmp_path: Path, groups: Groups
) -> None:
    """It came too late, or its broker did not come back; the others of its death keep their
    verdicts, and are not run again.
    """
    late: list[str] = []

    def wrong(cell: Cell) -> Plant:
        if cell.scenario.together and not late:
            late.append(cell.scenario.id)
            raise CellFailure("the broker's death did not wait for this cell")
        return RIGHT

    one, progress = sweep(tmp_path / "one", wrong, acts=(KILL_BROKER,), jobs=3), Quiet()
    one.dry_run(progress)
    planned = one.plan()
    one.run(planned, progress)
    [voided] = late
    assert groups.count((voided,)) == 1
    assert progress.ran.count(voided) == 2
    assert all(progress.ran.count(point) == 1 for point in shared(groups) - {voided})
    found = {each.point.id: each.signature.verdict for each in one.outcomes(planned).all}
    assert set(found.values()) == {Kind.KEPT}, "what it was alone counts"


def test_who_died_alone_does_not_die_again(tmp_path: Path) -> None:
    """A second run would be the same one; the sweep is done, however many run at once later."""
    late: list[str] = []

    def wrong(cell: Cell) -> Plant:
        if cell.scenario.together and not late:
            late.append(cell.scenario.id)
            raise CellFailure("the broker did not come back")
        return RIGHT

    one, progress = sweep(tmp_path / "one", wrong, acts=(KILL_BROKER,), jobs=1), Quiet()
    one.dry_run(progress)
    planned = one.plan()
    one.run(planned, progress)
    assert progress.ran.count(*late) == 1
    outcomes = one.outcomes(planned)
    assert [each.point.id for each in outcomes.unproved] == late
    assert not any("PARTIAL" in line for line in summary_of(one, planned, outcomes).lines)
    progress.ran.clear()
    rest = sweep(tmp_path / "one", wrong, acts=(KILL_BROKER,), jobs=3)
    rest.run(rest.plan(), progress)
    assert progress.ran == []


@pytest.mark.parametrize("jobs", [1, 3])
def test_a_sweep_that_ends_before_the_run_alone_is_partial(
    jobs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The point is still to be run, and is run when the sweep goes on, however many run at once
    then.
    """
    late: list[str] = []

    def wrong(cell: Cell) -> Plant:
        if cell.scenario.together and not late:
            late.append(cell.scenario.id)
            raise CellFailure("the broker's death did not wait for this cell")
        return RIGHT

    one, progress = sweep(tmp_path / "one", wrong, acts=(KILL_BROKER,), jobs=3), Quiet()
    one.dry_run(progress)
    planned = one.plan()
    first_round = len(progress.ran) + len(planned.chosen)
    with monkeypatch.context() as patch:
        patch.setattr(sweeping, "is_over", lambda _: len(progress.ran) >= first_round)
        one.run(planned, progress)
    assert len(progress.ran) == first_round
    outcomes = one.outcomes(planned)
    told = summary_of(one, planned, outcomes)
    assert plain_of(one, planned, outcomes, told)["reached"]["left"] == 1  # type: ignore[index]
    assert any("PARTIAL: 1 point still to be run" in line for line in told.lines)
    assert told.exit_code == ExitCode.VOID
    rest = sweep(tmp_path / "one", wrong, acts=(KILL_BROKER,), jobs=jobs)
    progress.ran.clear()
    rest.run(rest.plan(), progress)
    assert progress.ran == late
    assert not rest.outcomes(rest.plan()).unproved


def test_a_point_that_splits_a_class_runs_alone_too(tmp_path: Path) -> None:
    """It is no chosen point of the plan; that nothing of it is proved is no reason to leave it."""
    chosen, broken = set[str](), set[str]()
    late: list[str] = []

    def wrong(cell: Cell) -> Plant:
        if cell.scenario.together and cell.scenario.id not in chosen and not late:
            late.append(cell.scenario.id)
            raise CellFailure("the broker's death did not wait for this cell")
        return Plant(lose=1) if cell.scenario.id in broken else RIGHT

    one, progress = sweep(tmp_path / "one", wrong, acts=(KILL_BROKER,), jobs=3), Quiet()
    one.dry_run(progress)
    planned = one.plan()
    chosen |= {point.id for point, _ in planned.chosen}
    broken |= {points[-1].id for points in planned.classes.values() if len(points) > 2}
    one.run(planned, progress)
    [voided] = late
    assert progress.ran.count(voided) == 2
    assert voided not in {each.point.id for each in one.outcomes(planned).unproved}


def test_what_proves_nothing_alone_either_is_void(tmp_path: Path, groups: Groups) -> None:
    never: list[str] = []

    def wrong(cell: Cell) -> Plant:
        if cell.scenario.together and not never:
            never.append(cell.scenario.id)
        if never and cell.scenario.id == never[0]:
            raise CellFailure("the fault did not fire")
        return RIGHT

    one, progress = sweep(tmp_path / "one", wrong, acts=(KILL_BROKER,), jobs=3), Quiet()
    one.dry_run(progress)
    planned = one.plan()
    one.run(planned, progress)
    assert progress.ran.count(never[0]) == 2
    assert [each.point.id for each in one.outcomes(planned).unproved] == never
    rest = sweep(tmp_path / "one", wrong, acts=(KILL_BROKER,), jobs=3)
    progress.ran.clear()
    rest.run(rest.plan(), progress)
    assert progress.ran == [], "nor when the sweep is continued"
    assert groups


@pytest.mark.parametrize(
    ("fault", "shares"),
    [
        (KILLED, True),
        (Kill(SENT, (Role.PRODUCER,)), False),
        (Kill(replace(SENT, role=Role.BROKER), (Role.BROKER,)), False),
        (Kill(SENT, (Role.BROKER, Role.CONSUMER)), False),
        (Twice(KILLED, Drop(SENT)), False),
    ],
    ids=["a-broker", "another", "between-brokers", "two-nodes", "two-faults"],
)
def test_which_points_share(tmp_path: Path, fault: Kill | Twice, shares: bool) -> None:
    """A frame between brokers names no cell; a second fault strikes a recovery of its own."""
    one = sweep(tmp_path / "one")
    cell = with_fault(one.base, "point", fault, "Because.", 3)
    assert shares_death(cell) is shares
    found = sharing(cell)
    assert bool(found.scenario.together) is shares
    assert (found.dies_with is not None) is shares
    assert found.stands_s < STANDS_S, "less than a cell that cannot run again"
    if shares:
        assert found.scenario.deployment is Deployment.OWN
        [base] = swept(["shared/at-least-once"], asked(system=""))
        other = with_fault(base, "point", fault, "Because.", 3)
        assert not shares_death(other), "brokers ask each other something"
        pipeline = replace(cell.scenario.pipeline, shares_death=False)
        alone = replace(cell, scenario=replace(cell.scenario, pipeline=pipeline))
        assert not shares_death(alone)


@pytest.mark.parametrize(
    ("what", "role", "api", "shares"),
    [
        ("plain", Role.PRODUCER, Api.PRODUCE, True),
        ("plain", Role.PRODUCER, Api.END_TXN, False),
        ("plain", Role.PRODUCER, Api.ADD_PARTITIONS_TO_TXN, False),
        ("plain", Role.CONSUMER, Api.FETCH, True),
        ("plain", Role.CONSUMER, Api.OFFSET_COMMIT, True),
        ("topic-to-topic", Role.PROCESSOR, Api.PRODUCE, True),
        ("topic-to-topic", Role.PROCESSOR, Api.FETCH, False),
        ("topic-to-topic", Role.PROCESSOR, Api.TXN_OFFSET_COMMIT, False),
    ],
)
@pytest.mark.parametrize("direction", list(Direction))
def test_which_points_of_transactions_share(
    what: str, role: Role, api: Api, direction: Direction, shares: bool
) -> None:
    """A marker is on its way behind an EndTxn, until the next Produce: there the cell needs the
    frames between brokers. The Java client may send before that. A consumer has no transactions.
    """
    [base] = swept([f"{what}/exactly-once"], asked(system=""))
    fault: Any = Kill(OnWire(role, api, direction), (Role.BROKER,))
    for client, early in {
        "kafka-python": False,
        "confluent-kafka": False,
        "java==4.3.0": True,
    }.items():
        cell = with_fault(replace(base, client=client), "point", fault, "Because.", 3)
        assert shares_death(cell) is (shares and not (early and api is Api.PRODUCE)), client
