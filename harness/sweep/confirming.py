"""Confirms stuck findings, because the pipeline may only be slower than the drain waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.judge.verdict import Kind
from harness.sweep.cells import SweepCell, at_point
from harness.sweep.settings import BESIDE, POINTS
from harness.sweep.sweeping import is_over

if TYPE_CHECKING:
    from harness.matrix.listener import Progress
    from harness.sweep.planning import Planned
    from harness.sweep.sweeping import Sweep

PATIENTLY = "~patiently"
"""The suffix of a point's name if its cell runs with the drain's full time."""


def confirm_stuck(
    sweep: Sweep, planned: Planned, progress: Progress, until: float | None = None
) -> None:
    """Run one point of each stuck finding again, with the drain's full time. If it is kept
    then, run all its points so.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed.
    """
    if not isinstance(sweep.base, SweepCell):  # a declared pipeline's cells learn how long to wait
        return
    stood = (
        one.plan.scenario
        for one in sweep.saved.results(BESIDE)
        if one.ended and one.verdict.kind in {Kind.STUCK, Kind.BROKEN}
    )
    sure = {name.removesuffix(PATIENTLY) for name in stood if name.endswith(PATIENTLY)}
    for finding in sweep.outcomes(planned).findings():
        if (
            finding.signature.verdict != Kind.STUCK
            or finding.first.point.id in sure
            or is_over(until)
        ):
            continue
        progress.say(f"stuck; run again with the drain's full time: {finding.first.point.id}")
        [result] = sweep.run_cells(
            [at_point(sweep.base, finding.first.point, PATIENTLY, patient=True)], progress
        )
        if result.verdict.kind is Kind.KEPT:
            progress.say(
                "  not stuck, only slower; all points of the finding run again with the full time:"
            )
            cells = tuple(at_point(sweep.base, one.point, patient=True) for one in finding.points)
            sweep.run_cells(cells, progress, POINTS)
