"""When a cell of a sweep counts as stuck: after what was learnt, and for good only after all its
time.
"""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from harness.faults import Drop
from harness.judge.verdict import Kind
from harness.model.failures import CellFailure
from harness.run import drain
from harness.run.drain import stillness
from harness.stages.settings import Settings
from harness.sweep.cells import LONGER, SweepCell
from harness.sweep.confirming import confirm_stuck
from harness.sweep.pipelines import swept
from harness.sweep.silence import TWICE, Silence
from tests.memory.plants import Plant
from tests.sweep.stepping import RIGHT, Quiet, asked, sweep

if TYPE_CHECKING:
    from pathlib import Path

    from harness.model.cell import Cell


def base() -> SweepCell:
    """Return a cell of a sweep."""
    return swept(["plain/exactly-once"], asked(system=""))[0]


def test_a_rest_is_longer_than_any_time_out_and_twice_what_was_seen() -> None:
    """A client that waits for an answer stands still for as long as that takes."""
    cell = base()
    least = LONGER * Settings.of(cell.settings).producer.request_timeout_ms / 1000
    assert cell.still_s == least
    cell.stood(least / 4, moved=True)
    assert cell.still_s == least
    cell.stood(least, moved=True)
    assert cell.still_s == TWICE * least
    assert replace(cell, patient=True).still_s == math.inf


def test_all_cells_of_a_sweep_learn_together() -> None:
    one, other = base(), base()
    assert one.silence is not other.silence
    replace(one, seed=7).stood(50, moved=True)
    assert one.still_s == 100


def test_what_was_given_up_too_early_is_run_again() -> None:
    """As soon as another one was seen to move after a longer silence."""
    silence, one, other = Silence(), base(), replace(base(), seed=9)
    silence.learn(one, 20, moved=False)
    silence.learn(other, 19, moved=True)
    assert silence.too_short([one, other]) == set()
    silence.learn(other, 21, moved=True)
    assert silence.too_short([one, other]) == {one.id}


@pytest.mark.parametrize("ends", [True, False], ids=["it takes longer", "it never ends"])
def test_what_stands_still_is_confirmed_once_with_all_its_time(ends: bool, tmp_path: Path) -> None:
    """Where that ends by itself, there is no finding, and every point of it has been run so."""

    def wrong(cell: Cell) -> Plant:
        patient = isinstance(cell, SweepCell) and cell.patient
        return (
            Plant(stop_reading=True)
            if isinstance(cell.scenario.fault, Drop) and not (ends and patient)
            else RIGHT
        )

    one, progress = sweep(tmp_path / "one", wrong, acts=("lose",)), Quiet()
    one.dry_run(progress)
    planned = one.plan()
    one.run(planned, progress)
    found = one.outcomes(planned).findings()
    assert [finding.signature.verdict for finding in found] == [Kind.STUCK]
    before = len(progress.ran)
    confirm_stuck(one, planned, progress)
    assert len(progress.ran) - before == (1 + len(found[0].points) if ends else 1)
    assert len(one.outcomes(planned).findings()) == (0 if ends else 1)
    again = sweep(tmp_path / "one", wrong, acts=("lose",))
    confirm_stuck(again, again.plan(), later := Quiet())
    assert not later.ran
    assert len(again.outcomes(planned).findings()) == (0 if ends else 1)


def test_a_confirmation_that_proves_nothing_is_made_again(tmp_path: Path) -> None:
    """When the sweep goes on: nobody knows yet whether the pipeline is only slower."""
    failing = [True]

    def wrong(cell: Cell) -> Plant:
        if isinstance(cell, SweepCell) and cell.patient and failing[0]:
            raise CellFailure("the broker did not start")
        return Plant(stop_reading=True) if isinstance(cell.scenario.fault, Drop) else RIGHT

    one = sweep(tmp_path / "one", wrong, acts=("lose",))
    one.dry_run(Quiet())
    planned = one.plan()
    one.run(planned, Quiet())
    confirm_stuck(one, planned, first := Quiet())
    failing[0] = False
    again = sweep(tmp_path / "one", wrong, acts=("lose",))
    confirm_stuck(again, planned, later := Quiet())
    assert first.ran == later.ran != []
    confirm_stuck(again, planned, sure := Quiet())
    assert not sure.ran


def test_a_drain_tells_its_cell_of_every_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of those that have ended by themselves, and of the one after which it was given up."""
    clock = [100.0]
    monkeypatch.setattr(drain, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    cell, moves = base(), [0]
    still = stillness(cell, lambda: moves[0], lambda: True)
    assert still is not None
    rest = cell.still_s
    assert rest is not None
    for at, moved, over in ((0, 0, False), (9, 1, False), (10, 2, False), (10 + rest + 1, 2, True)):
        clock[0], moves[0] = 100.0 + at, moved
        assert still.over() == over
    assert cell.silence.longest_s == 9
    assert cell.silence.too_short([cell]) == set()
    cell.stood(rest + 2, moved=True)
    assert cell.silence.too_short([cell]) == {cell.id}
