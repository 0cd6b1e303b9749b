"""Renderers: pure functions of a saved run. A new one is a small file and a line in :data:`RENDERERS`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.report import as_html, as_json, as_junit, as_markdown
from harness.report.writing import ReportError, append_step_summary, point_latest, run_directory, write_all

if TYPE_CHECKING:
    from pathlib import Path

    from harness.report.renderer import Renderer
    from harness.saved import SavedRun

RENDERERS: dict[str, Renderer] = {
    "json": as_json.RENDERER,
    "markdown": as_markdown.RENDERER,
    "junit": as_junit.RENDERER,
    "html": as_html.RENDERER,
}


def write_reports(run: SavedRun, directory: Path | None = None) -> list[Path]:
    """Write every report, by default into the run's own folder. Returns the files. Raises :class:`ReportError`."""
    return write_all(run, RENDERERS, directory)


__all__ = ["RENDERERS", "ReportError", "append_step_summary", "point_latest", "run_directory", "write_reports"]
