"""The end of a run: its outcomes on the screen and in the reports."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from harness.cli.telling import tell, tell_json_text, tell_lines, warn
from harness.judge.evidence import evidence_of
from harness.report.renderers import RENDERERS, why_no_index, write_reports
from harness.report.summary import Outcome, rerun_line, summarise

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.model.exits import ExitCode
    from harness.saved import CellResult, SavedRun

MEANING: Mapping[str, str] = {
    Outcome.VOID: "the run proves nothing about this cell",
    Outcome.STUCK: "no progress, although everything is healed",
    Outcome.NOT_CONVICTED: "a control must be broken",
}
"""Explanations of outcomes whose names do not explain themselves."""


def finish(saved: SavedRun, *, as_json: bool) -> ExitCode:
    """Print the outcomes, write the reports, and return the exit code."""
    summary = summarise(saved)
    if as_json:
        tell_json_text(RENDERERS["json"].render(saved))
    else:
        for result in saved.results:
            if not result.verdict.green:
                _tell_red(result)
        tell()
        tell_lines((summary.sentence, *saved.info.untried))
    files = write_reports(saved)
    warn(why_no_index(saved))
    if not as_json:
        tell(f"reports: {', '.join(os.path.relpath(file) for file in files)}")
    return summary.exit_code


def _tell_red(result: CellResult) -> None:
    label = result.verdict.label
    means = f" ({MEANING[label]})" if label in MEANING else ""
    tell()
    tell(f"{label.upper()}{means}  {result.plan.id}")
    tell(f"  {result.verdict.reason}")
    tell_lines(f"  {word}: {said}" for word, said in evidence_of(result.judgement))
    tell(f"  {result.plan.because}")
    tell(f"  again: {rerun_line(result.plan)}")
    tell(f"  saved: {os.path.relpath(result.directory)}")
