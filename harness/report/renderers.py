"""All renderers, and the writing of a run's reports. A new renderer is a small file and a line in
:data:`RENDERERS`.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from harness.latest import is_marked
from harness.report import as_anomalies, as_html, as_json, as_junit, as_markdown
from harness.report.as_html import INDEX
from harness.report.index import is_ours, write_index
from harness.report.writing import point_latest, write_all

if TYPE_CHECKING:
    from pathlib import Path

    from harness.report.renderer import Renderer
    from harness.saved import SavedRun

RENDERERS: dict[str, Renderer] = {
    renderer.name: renderer
    for renderer in (
        as_json.RENDERER,
        as_markdown.RENDERER,
        as_junit.RENDERER,
        as_html.RENDERER,
        as_anomalies.RENDERER,
    )
}


def write_reports(run: SavedRun) -> tuple[Path, ...]:
    """Write every report into the run's folder, let ``latest`` point to it unless it points to a
    newer run, list the runs.

    Returns the files.  A pointer that cannot be moved is no
    error here: who wants to tell people about it calls :func:`point_latest`, which returns the
    warning. Likewise an index that is not written: :func:`why_no_index` says why.

    Raises:
        ReportError: one cannot be written.
    """
    files = write_all(run, RENDERERS)
    point_latest(run)
    if why_no_index(run) is None:
        with contextlib.suppress(OSError):  # like the pointer: the reports are there without it
            write_index(run.directory.parent)
    return files


def why_no_index(run: SavedRun) -> str | None:
    """Say why no index is written beside a run, or return ``None``. Only lostack's own folders of
    runs have one.
    """
    beside = run.directory.parent
    if not is_marked(beside):
        return f"no index was written: lostack has not put this run into {os.path.relpath(beside)}"
    if not is_ours(beside, INDEX):
        return f"no index was written: {os.path.relpath(beside / INDEX)} is not lostack's"
    return None
