"""``index.html`` beside the runs: the newest first, each with its sentence and a link
to its page.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from harness.report.as_html import render_template
from harness.saved import RUN_FILE, RunInfo, SavedRunError, write_whole

if TYPE_CHECKING:
    from pathlib import Path

INDEX = "index.html"
TREND = "trend.html"


@dataclass(frozen=True, slots=True)
class Listed:
    """One run in the list. ``green`` and ``sentence`` are null if it has no report yet."""

    info: RunInfo
    link: str | None
    green: bool | None
    sentence: str | None


def write_index(reports: Path) -> Path:
    """Write the page that lists the runs below a folder.

    Raises:
        OSError: the list cannot be written.
    """
    file = reports / INDEX
    write_whole(
        file,
        render_template("index.html.j2", runs=listed(reports), trend=(reports / TREND).is_file()),
    )
    return file


def listed(reports: Path) -> list[Listed]:
    """Return the runs in a folder, the newest first. Runs that cannot be read are left out."""
    found = []
    for file in reports.glob(f"*/{RUN_FILE}"):
        if file.parent.is_symlink():
            continue
        try:
            info = RunInfo.load(file.parent)
        except SavedRunError:
            continue
        found.append(_listed(info, file.parent))
    return sorted(
        found, key=lambda run: (run.info.started, len(run.info.id), run.info.id), reverse=True
    )


def _listed(info: RunInfo, directory: Path) -> Listed:
    link = f"{quote(directory.name)}/report.html" if (directory / "report.html").is_file() else None
    try:
        data = json.loads((directory / "report.json").read_text(encoding="utf-8"))
        return Listed(info, link, bool(data["summary"]["green"]), _sentence(data["summary"]))
    except (OSError, ValueError, KeyError, TypeError):
        return Listed(info, link, None, None)


def _sentence(summary: dict[str, int]) -> str:
    names = ("kept", "broken", "convicted", "not_convicted", "void", "stuck")
    said = ", ".join(f"{summary[name]} {name.replace('_', ' ')}" for name in names if summary[name])
    ran = (
        f"planned {summary['planned']} {'=' if summary['planned'] == summary['ran'] else '≠'} "
        f"ran {summary['ran']}"
    )
    marks = (
        f"{'SIMULATED ' if summary['simulated'] else ''}{'PARTIAL ' if summary['partial'] else ''}"
    )
    return f"{marks}{said or 'nothing'}; {ran}"
