"""``index.html`` beside the runs: the newest first, each with its sentence and a link
to its page.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from harness.model import safe_files
from harness.report.as_html import INDEX, TREND, render_template
from harness.report.summary import GREEN, SIGNS, WORST, Outcome
from harness.saved import RunInfo, SavedRunError

if TYPE_CHECKING:
    from pathlib import Path

OURS: Final = b"<title>lostack"
"""Near its beginning every page of lostack has this."""
_HEAD_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class Listed:
    """One run in the list. ``outcome`` is its worst one; it and ``sentence`` are null if the run
    has no report yet.
    """

    info: RunInfo
    link: str | None
    outcome: Outcome | None
    sentence: str | None

    @property
    def verdict(self) -> str:
        """What came of the run, in a sign and a word or two."""
        match self.outcome:
            case None:
                return "no report"
            case Outcome.KEPT | Outcome.CONVICTED:
                return f"{SIGNS[Outcome.KEPT]} green"
            case Outcome.VOID:
                return f"{SIGNS[Outcome.VOID]} proves nothing"
            case other:
                return f"{SIGNS[other]} {other}"


def write_index(reports: Path) -> Path:
    """Write the page that lists the runs below a folder.

    Raises:
        OSError: the list cannot be written.
    """
    trend = safe_files.is_file(reports, TREND)
    safe_files.write_whole(
        reports, INDEX, render_template("index.html.j2", runs=listed(reports), trend=trend)
    )
    return reports / INDEX


def is_ours(reports: Path, page: str) -> bool:
    """Whether a page beside the runs is one that lostack wrote, or is not there yet."""
    if not safe_files.exists(reports, page):
        return True
    try:
        return OURS in safe_files.read_start(reports, page, _HEAD_BYTES)
    except OSError:
        return False


def listed(reports: Path) -> list[Listed]:
    """Return the runs in a folder, the newest first. Runs that cannot be read are left out."""
    found = []
    for name in safe_files.folders(reports):
        with suppress(SavedRunError):
            found.append(_listed(RunInfo.load(reports / name), reports / name))
    return sorted(
        found, key=lambda run: (run.info.started, len(run.info.id), run.info.id), reverse=True
    )


def _listed(info: RunInfo, directory: Path) -> Listed:
    link = (
        f"{quote(directory.name)}/report.html"
        if safe_files.is_file(directory, "report.html")
        else None
    )
    try:
        data = safe_files.read_json(directory, "report.json")
        return Listed(info, link, _worst(data["summary"]), _sentence(data["summary"]))
    except (OSError, ValueError, KeyError, TypeError):
        return Listed(info, link, None, None)


def _worst(summary: dict[str, object]) -> Outcome:
    """Return the worst outcome of a run; void, too, is one that did not run whole."""
    if summary["green"]:
        return Outcome.KEPT
    told = (each for each in WORST if each not in GREEN and summary[each.replace(" ", "_")])
    return next(told, Outcome.VOID)


def _sentence(summary: dict[str, object]) -> str:
    names = ("kept", "broken", "convicted", "not_convicted", "void", "stuck")
    said = ", ".join(f"{summary[name]} {name.replace('_', ' ')}" for name in names if summary[name])
    ran = (
        f"planned {summary['planned']} {'=' if summary['planned'] == summary['ran'] else '≠'} "
        f"ran {summary['ran']}"
    )
    marks = (
        f"{'SIMULATED ' if summary['simulated'] else ''}{'PARTIAL ' if summary['partial'] else ''}"
    )
    head = f"{summary['headline']}; " if summary.get("headline") and not summary["green"] else ""
    return f"{head}{marks}{said or 'nothing'}; {ran}"
