"""Writing the reports beside the run they are made of, and pointing to the latest."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from harness.report.as_markdown import render as render_markdown
from harness.saved import RunInfo, SavedRunError, write_whole

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from harness.report.renderer import Renderer
    from harness.saved import SavedRun

LATEST = "latest"
STEP_SUMMARY = "GITHUB_STEP_SUMMARY"


class ReportError(Exception):
    """A report cannot be written; the message says where and why."""


def write_all(run: SavedRun, renderers: Mapping[str, Renderer]) -> tuple[Path, ...]:
    """Write every report into the run's own folder. Returns the files. Raises :class:`ReportError`."""
    files = []
    for renderer in renderers.values():
        file = run.directory / renderer.file
        text = renderer.render(run)
        try:
            write_whole(file, text)
        except OSError as error:
            raise ReportError(f"cannot write {file}: {error.strerror}; is the folder writable?") from error
        files.append(file)
    return tuple(files)


def is_newest(run: SavedRun) -> bool:
    """Whether ``latest`` points to no run that was started after this one."""
    try:
        latest = RunInfo.load(run_directory(run.directory.parent / LATEST))
    except (SavedRunError, OSError, ValueError):  # whatever it points to, it is no run
        return True
    return _age(run.info) >= _age(latest)


def _age(info: RunInfo) -> tuple[str, int, str]:
    """Order runs by their start; those of one second are numbered by their ids (``...``, ``...-2``, ``...-10``)."""
    return info.started, len(info.id), info.id


def point_latest(run: SavedRun) -> str | None:
    """Make ``latest``, beside the run's folder, point to it; atomic. Returns a warning where that cannot be done.

    A symbolic link; where the file system has none, a file that holds the folder's name.
    """
    latest = run.directory.parent / LATEST
    part = latest.with_name(f".{LATEST}.{os.getpid()}")
    try:
        part.unlink(missing_ok=True)
        try:
            part.symlink_to(run.directory.name, target_is_directory=True)
        except (OSError, NotImplementedError):
            part.write_text(run.directory.name + "\n", encoding="utf-8")
        part.replace(latest)
    except OSError as error:
        part.unlink(missing_ok=True)
        return f"{latest} still points elsewhere: {error.strerror}"
    return None


def run_directory(named: Path) -> Path:
    """Return the folder that a name means: itself, or what a ``latest`` points to. Raises :class:`SavedRunError`."""
    if named.is_file() and named.name == LATEST:
        return named.parent / named.read_text(encoding="utf-8").strip()
    if not named.is_dir():
        raise SavedRunError(f"there is no saved run at {named}")
    return named.resolve()


def append_step_summary(run: SavedRun, environment: Mapping[str, str]) -> str | None:
    """Append the Markdown report to GitHub's step summary, where there is one. Returns a warning where that fails."""
    file = environment.get(STEP_SUMMARY)
    if not file:
        return None
    try:
        with open(file, "a", encoding="utf-8") as summary:  # noqa: PTH123 - a path given by the environment
            summary.write(render_markdown(run))
    except OSError as error:
        return f"cannot append to {STEP_SUMMARY}: {error.strerror}"
    return None
