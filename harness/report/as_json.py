"""``report.json``: the whole report, for programs. ``schema.json`` beside this file describes its
form.
"""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING

from harness.report.costs import costs
from harness.report.coverage import coverage
from harness.report.headline import headline
from harness.report.matrix import matrix_rows
from harness.report.renderer import Renderer
from harness.report.summary import outcome, rerun_line, summarise
from harness.saved import SCHEMA

if TYPE_CHECKING:
    from harness.saved import CellResult, SavedRun


def report_of(run: SavedRun) -> dict[str, object]:
    """Return the report as plain data."""
    info = run.info
    return {
        "schema": SCHEMA,
        "run": {
            "id": info.id,
            "started": info.started,
            "seconds": info.seconds,
            "complete": info.complete,
            "seeds": list(info.seeds),
            "records": info.records,
            "versions": info.versions,
            "machine": info.machine,
            "command": info.command,
            "phases": info.phases,
        },
        "summary": {"headline": headline(run)} | summarise(run).row(),
        "matrix": matrix_rows(run),
        "coverage": [goal.row() for goal in coverage(run)],
        "costs": [row for cost in costs(run) for row in cost.rows()],
        "cells": [cell_row(result, run.compared(result)) for result in run.results],
        "missing": list(run.missing),
        "not_applicable": [dataclasses.asdict(row) for row in info.not_applicable],
    }


def cell_row(result: CellResult, compared: tuple[str, ...]) -> dict[str, object]:
    """Return one cell as plain data."""
    return result.row() | {
        "compared": list(compared),
        "outcome": str(outcome(result.verdict)),
        "rerun": rerun_line(result.plan),
        "directory": f"{result.directory.parent.name}/{result.directory.name}",
    }


def render(run: SavedRun) -> str:
    """Return the report as JSON text (ASCII only: nothing in it can disturb a terminal)."""
    return json.dumps(report_of(run), indent=1) + "\n"


RENDERER = Renderer("json", "report.json", render)
