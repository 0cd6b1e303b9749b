"""Writes the reports into the folder of their run, and points ``latest`` to the newest run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness import latest
from harness.model.safe_files import write_whole
from harness.report.as_markdown import render as render_markdown

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from harness.report.renderer import Renderer
    from harness.saved import SavedRun

STEP_SUMMARY = "GITHUB_STEP_SUMMARY"


class ReportError(Exception):
    """A report cannot be written; the message says where and why."""


def write_all(run: SavedRun, renderers: Mapping[str, Renderer]) -> tuple[Path, ...]:
    """Write every report into the run's own folder; return the files.

    Raises:
        ReportError: a file cannot be written.
    """
    files = []
    for renderer in renderers.values():
        file = run.directory / renderer.file
        text = renderer.render(run)
        try:
            write_whole(run.directory, renderer.file, text)
        except OSError as error:
            raise ReportError(
                f"cannot write {file}: {error.strerror}; is the folder writable?"
            ) from error
        files.append(file)
    return tuple(files)


def point_latest(run: SavedRun) -> str | None:
    """Make ``latest`` point to a run, unless it points to a newer one. Return a warning if that
    cannot be done.
    """
    return latest.point_latest(run.directory, run.info)


def append_step_summary(run: SavedRun, environment: Mapping[str, str]) -> str | None:
    """Append the Markdown report to GitHub's step summary, if there is one. Return a warning if
    that fails.
    """
    file = environment.get(STEP_SUMMARY)
    if not file:
        return None
    try:
        with open(file, "a", encoding="utf-8") as summary:  # noqa: PTH123 - a path given by the environment
            summary.write(render_markdown(run))
    except OSError as error:
        return f"cannot append to {STEP_SUMMARY}: {error.strerror}"
    return None
