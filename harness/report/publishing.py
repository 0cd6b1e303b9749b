"""Publishing a run: writes its Markdown, JSON and page without the names of this machine's folders,
small enough to commit.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.model import safe_files
from harness.model.ending import end_anew
from harness.model.history import HISTORY, history_files
from harness.model.history import MOST_BYTES as MOST_HISTORY
from harness.model.plan import PLAN_FILE, Plan, PlanError, sealed_anew
from harness.report import as_html, as_markdown
from harness.report.as_json import report_of
from harness.report.summary import is_simulated
from harness.report.writing import ReportError
from harness.saved import CELLS, RUN_FILE, load_run

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from harness.saved import SavedRun

FILES: Final = ("report.md", "report.json", "report.html")
MOST_BYTES: Final = 2_000_000
"""The largest size of a published run, in bytes: a repository keeps it for ever."""
_SHORTEST: Final = 4
"""Shorter names of folders (``/``) are not replaced, because they occur in too many other texts."""


def publish(run: SavedRun, to: Path) -> tuple[Path, ...]:
    """Write a run's Markdown, JSON and page into ``to``; return the files.

    They are made from a copy of the run in which the folders of this machine have been given names.

    Raises:
        ReportError: the run is partial, simulated or too large, or a file cannot be written.
    """
    if not run.whole:
        raise ReportError(f"{run.info.id} is partial; only a whole run is published")
    if any(is_simulated(run, result.plan.system) for result in run.results):
        raise ReportError(f"{run.info.id} is simulated; only a run of real systems is published")
    with tempfile.TemporaryDirectory() as folder:
        clean = load_run(without_folders(run, Path(folder, run.info.id)))
        texts = (
            as_markdown.render(clean),
            json.dumps(report_of(clean), separators=(",", ":")) + "\n",
            as_html.render(clean),
        )
    size = sum(len(text.encode()) for text in texts)
    if size > MOST_BYTES:
        raise ReportError(
            f"{run.info.id} has reports of {size:,} bytes, of {MOST_BYTES:,} permitted; run "
            "fewer seeds"
        )
    try:
        to.mkdir(parents=True, exist_ok=True)
        for name, text in zip(FILES, texts, strict=True):
            safe_files.write_whole(to, name, text)
    except OSError as error:
        raise ReportError(f"cannot write {to}: {error.strerror}") from error
    return tuple(to / name for name in FILES)


def without_folders(run: SavedRun, copy: Path) -> Path:
    """Copy the files from which the reports are made, with names in place of folders; return the
    copy.
    """
    folders = sorted(folders_of(run), key=lambda pair: -len(pair[0]))
    names = [(json.dumps(folder)[1:-1], name) for folder, name in folders]

    def take(source: str, words: Iterable[tuple[str, str]]) -> Path:
        text = safe_files.read_bytes(run.directory, source, MOST_HISTORY)
        for word, name in words:
            text = text.replace(word.encode(), name.encode())
        target = copy / source
        target.parent.mkdir(parents=True, exist_ok=True)
        safe_files.write_whole(target.parent, target.name, text)
        return target

    take(RUN_FILE, names)
    for result in run.results:
        cell = f"{CELLS}/{result.directory.name}"
        seals = _sealed_anew(run.directory / cell, take(f"{cell}/{PLAN_FILE}", names))
        for source in history_files(run.directory / cell / HISTORY):
            take(f"{cell}/{source}", (*names, *seals))
        end_anew(run.directory / cell / HISTORY, copy / cell / HISTORY)
    return copy


def _sealed_anew(cell: Path, copy: Path) -> tuple[tuple[str, str], ...]:
    """Seal the copy of a cell's plan, in which folders have other names; return its old seal with
    the new one, where it has any.

    A plan that was changed stays one.
    """
    try:
        seal = Plan.load(cell).seal
    except PlanError:
        return ()
    if seal is None:
        return ()
    safe_files.write_whole(
        copy.parent, copy.name, sealed_anew(safe_files.read_text(copy.parent, copy.name))
    )
    return ((seal, str(Plan.load(copy.parent).seal)),)


def folders_of(run: SavedRun) -> Iterator[tuple[str, str]]:
    """Yield the folders that a text of this run may speak of, each with its name."""
    places = {
        "run": run.directory,
        "reports": run.directory.parent,
        "here": Path.cwd(),
        "lostack": Path(__file__).parents[2],
        "python": Path(sys.prefix),
        "base": Path(sys.base_prefix),
        "home": Path.home(),
        "tmp": Path(tempfile.gettempdir()),
    }
    for name, place in places.items():
        for folder in {str(place), str(place.resolve())}:
            if len(folder) >= _SHORTEST:
                yield folder, f"[{name}]"
