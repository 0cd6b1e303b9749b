"""What points teach, and that a sweep ends when they teach nothing for long enough."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from harness.model.exits import ExitCode
from harness.sweep.classes import Class, RunReason
from harness.sweep.lessons import Lessons
from harness.sweep.outcomes import Outcome
from harness.sweep.signature import Signature
from harness.sweep.telling import plain_of, summary_of, write_sweep
from tests.memory.plants import Plant
from tests.sweep.stepping import RIGHT, Quiet, sweep
from tests.sweep.test_classes import point

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.model.cell import Cell


def outcome(act: str, phase: str, verdict: str = "kept", place: int = 1) -> Outcome:
    """Return the outcome of a point."""
    each = Class("producer", "Produce", "request", act, phase)
    return Outcome(
        point(place, act), RunReason.FIRST, each, each, Signature(verdict), "", Path(), 1.0
    )


def test_what_teaches() -> None:
    """A new state, a new act, a new outcome of an act; the same again does not."""
    lessons, dry = Lessons(), []
    for one in (
        outcome("kill", "calm", place=1),
        outcome("kill", "calm", place=2),
        outcome("kill", "joining", place=3),
        outcome("kill", "joining", place=4),
        outcome("kill", "calm", "broken", place=5),
        outcome("kill", "joining", "broken", place=6),
        outcome("lose", "joining"),
        outcome("refuse-A", "calm"),
        outcome("refuse-B", "calm"),
    ):
        lessons.note(one)
        dry.append(lessons.dry)
    assert dry == [0, 1, 0, 1, 0, 1, 0, 0, 1]


def test_what_has_no_proof_does_not_count() -> None:
    """It teaches nothing, and says nothing about whether there is more to learn; a point that was
    void and ran again counts once.
    """
    lessons, dry = Lessons(), []
    for place, verdict in enumerate(("kept", "kept", "void", "void", "kept")):
        lessons.note(outcome("kill", "calm", verdict, place=place))
        dry.append(lessons.dry)
    lessons.note(outcome("kill", "calm", place=2))
    assert [*dry, lessons.dry] == [0, 1, 1, 1, 2, 3]
    lessons.note(outcome("kill", "calm", place=2))
    assert lessons.dry == 3
    lessons.note(outcome("kill", "calm", "stuck", place=2))
    assert lessons.dry == 0


def test_what_was_run_before_teaches_nothing_again() -> None:
    """A sweep that goes on knows what it has learnt."""
    lessons = Lessons.of([outcome("kill", "calm", place=place) for place in (1, 2)])
    assert lessons.dry == 1
    lessons.note(outcome("kill", "calm", place=3))
    assert lessons.dry == 2
    lessons.note(outcome("kill", "joining", place=4))
    assert lessons.dry == 0


def test_a_sweep_ends_when_points_teach_nothing(tmp_path: Path) -> None:
    """No point begins behind so many that taught nothing; what is left is told, and is run when the
    sweep goes on.
    """
    one, progress = sweep(tmp_path / "one", jobs=1, acts=("lose",)), Quiet()
    one.until_dry = dry = 4
    one.dry_run(progress)
    planned = one.plan()
    before = len(progress.ran)
    one.run(planned, progress)
    assert one.ran_dry
    outcomes = one.outcomes(planned)
    assert len(outcomes.all) < len(planned.chosen)
    lessons = Lessons()
    steps = []
    by_id = {each.point.id: each for each in outcomes.all}
    for each in (by_id[name] for name in progress.ran[before:]):
        lessons.note(each)
        steps.append(lessons.dry)
    assert steps[-1] == dry, "it ends at the point that makes it so many"
    assert max(steps) == dry
    told = summary_of(one, planned, outcomes)
    assert any(f"--until-dry: {dry} points" in line for line in told.lines)
    assert any("PARTIAL" in line for line in told.lines)
    assert told.exit_code == ExitCode.VOID
    taught = f"the last {dry} points taught nothing new"
    assert any(taught in line for line in told.lines)
    page = write_sweep(one, planned, outcomes, told)[1].read_text()
    assert taught in page
    assert plain_of(one, planned, outcomes, told)["reached"]["dry"] == dry  # type: ignore[index]
    rest = sweep(tmp_path / "one", jobs=1, acts=("lose",))
    rest.run(rest.plan(), progress)
    assert not rest.ran_dry, "it counts its own points"
    assert len(rest.outcomes(rest.plan()).all) >= len(planned.chosen)


def test_no_second_fault_begins_behind_points_that_teach_nothing(tmp_path: Path) -> None:
    """A command counts once, for both levels; what is left of both is told."""
    one, progress = sweep(tmp_path / "one", jobs=1, depth=2), Quiet()
    one.until_dry = 4
    one.dry_run(progress)
    planned = one.plan()
    one.run(planned, progress)
    assert one.ran_dry
    ran = [*progress.ran]
    deeper = one.deeper(planned)
    assert len(deeper.chosen) > len(planned.chosen)
    one.run(deeper, progress)
    assert progress.ran == ran
    outcomes = one.outcomes(deeper)
    told = summary_of(one, deeper, outcomes)
    left = len(deeper.chosen) - len(outcomes.all)
    assert any(f"PARTIAL: {left} points" in line for line in told.lines)


def test_a_new_outcome_keeps_it_going(tmp_path: Path) -> None:
    """A bug at the very point behind which a right pipeline's sweep ends: the count begins anew."""

    def ran(name: str, wrong: Callable[[Cell], Plant]) -> list[str]:
        one, progress = sweep(tmp_path / name, wrong, jobs=1, acts=("lose",)), Quiet()
        one.until_dry = 4
        one.dry_run(progress)
        before = len(progress.ran)
        one.run(one.plan(), progress)
        return progress.ran[before:]

    right = ran("right", lambda _: RIGHT)
    wrong = ran("wrong", lambda it: Plant(lose=1) if it.scenario.id == right[-1] else RIGHT)
    assert wrong[: len(right)] == right
    assert len(wrong) > len(right)
