"""What the runner relies on, of each system that there is. Another one gets all this by its line in
the registry.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

import pytest

from harness.contract.systems import STEPS, left, processes
from harness.judge.verdict import Kind
from harness.model.failures import EnvironmentFailure
from harness.model.history import HISTORY, HistoryError, read_history
from harness.model.scenario import Deployment
from harness.model.semantics import Semantic
from harness.model.waiting import WaitCancelledError, cancellable

if TYPE_CHECKING:
    from pathlib import Path

    from harness.contract.systems import Ground
    from harness.model.cell import Cell
    from harness.saved import CellResult

MADE = "made"
WRONG = (
    "lost",
    "duplicated",
    "stored_twice",
    "delivered_twice",
    "phantom",
    "resurrected",
    "torn",
    "reordered",
    "stalled",
    "left_in_topic",
    "left_in_source",
)
WITHIN_S = 120.0


def test_what_is_said_while_it_is_prepared_is_one_line_each(ground: Ground) -> None:
    """It is shown as it comes; a system may be prepared again, and this one was."""
    assert all(line.strip() and "\n" not in line for line in ground.said)


def test_what_takes_part_has_a_version(ground: Ground) -> None:
    """For the report: names and words, the same each time."""
    versions = ground.system.versions()
    assert versions
    assert all(isinstance(word, str) and word for each in versions.items() for word in each)
    assert ground.system.versions() == versions


def test_the_ground_holds(ground: Ground) -> None:
    """Whoever asks whether a deployment still stands is told nothing of one that does."""
    ground.deployed.check()


@pytest.mark.parametrize("semantic", Semantic)
def test_a_cell_without_a_fault_is_kept_and_counted_exactly(
    ground: Ground, semantic: Semantic
) -> None:
    """All that was offered is recorded once, under every semantic that the system has. When it is
    closed it leaves nothing; and to close it again is harmless.
    """
    if semantic not in ground.semantics:
        pytest.skip("the system does not have it: why, is asked where it is planned")
    play = ground.play(semantic)
    kept(play.cell, play.through("observe").judged())
    assert ground.left_by(play) == []
    play.close()


def test_cells_at_once_do_not_meet(ground: Ground) -> None:
    """Each is kept, and counted exactly: the runner overlaps those that share a deployment."""
    if not ground.subject.at_once:
        pytest.skip("its cells take turns")
    plays = [ground.play(semantic) for semantic in ground.semantics[-1:] * 2]
    found: dict[str, CellResult] = {}
    stop = threading.Event()

    def work(number: int) -> None:
        with cancellable(stop):
            found[plays[number].cell.id] = plays[number].through("observe").judged()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(plays))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WITHIN_S)
    stop.set()
    for play in plays:
        kept(play.cell, found[play.cell.id])


def test_what_is_observed_twice_is_the_same(ground: Ground) -> None:
    """Everything is at rest, and to look at it changes nothing."""
    play = ground.play().through("drain")
    try:
        first, second = play.step("observe"), play.step("observe")
    finally:
        play.close()
    assert first
    assert sorted(first) == sorted(second)


@pytest.mark.parametrize("last", [MADE, *STEPS][:-1])
def test_a_cell_that_is_closed_after_any_step_leaves_nothing(ground: Ground, last: str) -> None:
    """Neither a process nor an open file nor a thread; and to close it again is harmless. So it is
    after the last step, too, as the cells without a fault show.
    """
    play = ground.play()
    try:
        if last != MADE:
            play.through(last)
    finally:
        play.close()
    assert ground.left_by(play) == []
    play.close()


def test_a_cell_that_is_interrupted_leaves_nothing(ground: Ground) -> None:
    """Ctrl-C ends its waits, and then it is closed."""
    play, stop = ground.play(), threading.Event()
    try:
        with cancellable(stop), contextlib.suppress(WaitCancelledError):
            play.through("load")
            stop.set()
            for step in ("inject", "drain"):
                play.step(step)
    finally:
        play.close()
    assert ground.left_by(play) == []


@pytest.mark.parametrize("at", ["first", "last"])
def test_a_cell_whose_preparation_fails_leaves_nothing(ground: Ground, at: str) -> None:
    """The disk is full, from its first line or its last one on; it is told, and the next cell is
    kept.
    """
    if not ground.lines_of_preparing:
        pytest.skip("nothing is written while this system prepares: nothing fails for want of room")
    play = ground.play(fails_at=2 if at == "first" else 1 + ground.lines_of_preparing)
    with pytest.raises(HistoryError):
        play.step("prepare")
    with contextlib.suppress(HistoryError):  # there is still no room, which may be told again
        play.close()
    assert ground.left_by(play) == []
    play.close()
    after = ground.play()
    kept(after.cell, after.through("observe").judged())


def test_where_nothing_can_be_written_nothing_is_deployed(ground: Ground, tmp_path: Path) -> None:
    """One line says so; a system that writes nothing is deployed, and closed."""
    taken = tmp_path / "taken"
    taken.write_text("no folder")
    before = processes()
    said = str(taken)
    try:
        ground.system.deploy(Deployment.SHARED, taken / "deployments" / "there").close()
    except EnvironmentFailure as error:
        said = str(error)
    assert "\n" not in said
    assert str(taken) in said
    assert left(lambda: [str(one) for one in processes() - before]) == []


def kept(cell: Cell, result: CellResult) -> None:
    """A cell is kept, every record was recorded, and nothing else has happened to any."""
    counts = result.judgement.account.counts
    wrong = {name: counts[name] for name in WRONG if counts[name]}
    assert not wrong, f"{wrong}: {result.verdict.reason}"
    assert counts["recorded"] == counts["offered"] == len(cell.load().records)
    assert (result.verdict.kind, result.verdict.green) == (Kind.KEPT, True), result.verdict.reason
    assert result.ended
    assert read_history(result.directory / HISTORY, cell.id).damage == ()
