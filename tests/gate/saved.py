"""Real runs, small enough to be kept: what the judge reads of them, and what it said.

An archive holds runs as they lie in a reports folder, without the lines that no count comes from
(frames, connections), and beside each cell ``expected.json``: its verdict, its label and its
counts. Folders of the machine have names instead.

``python -m tests.gate NAME RUN ...`` writes the archive ``NAME.tar.xz`` of saved runs anew; a run
whose cells are judged otherwise without those lines is refused.
"""

from __future__ import annotations

import io
import json
import lzma
import shutil
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from harness.model import events as kinds
from harness.model.ending import end_anew
from harness.model.history import HISTORY
from harness.report.publishing import without_folders
from harness.saved import CELLS, judge_cell, load_run

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.saved import CellResult

HERE: Final = Path(__file__).parent
SUFFIX: Final = ".tar.xz"
EXPECTED: Final = "expected.json"
LEFT_OUT: Final = frozenset({kinds.FRAME, "conn"})
"""Kinds of lines that are not kept: most of what a wire writes, and no verdict comes from them."""


class GateError(Exception):
    """A run cannot be kept; the message says why."""


def archives() -> list[Path]:
    """Return the archives there are."""
    return sorted(HERE.glob(f"*{SUFFIX}"))


def said_of(result: CellResult) -> dict[str, Any]:
    """Return what is compared: verdict, label and counts."""
    return {
        "verdict": str(result.verdict.kind),
        "label": result.verdict.label,
        "counts": result.judgement.account.counts,
    }


def save(name: str, runs: Iterable[Path]) -> Path:
    """Write an archive of saved runs. Raises GateError where a cell is judged otherwise without
    what is left out.
    """
    with tempfile.TemporaryDirectory() as folder:
        for number, directory in enumerate(runs, start=1):
            run = load_run(directory)
            copy = without_folders(run, Path(folder, f"run-{number}"))
            for result in run.results:
                cell = copy / CELLS / result.directory.name
                with tempfile.TemporaryDirectory() as whole:
                    shutil.copytree(cell / HISTORY, whole, dirs_exist_ok=True)
                    for file in (cell / HISTORY).glob("*.jsonl"):
                        _thin(file)
                    end_anew(Path(whole), cell / HISTORY)
                again, before = said_of(judge_cell(cell)), said_of(result)
                if again != before:
                    raise GateError(
                        f"{result.plan.id} of {directory} is judged otherwise without "
                        f"{', '.join(LEFT_OUT)}"
                    )
                (cell / EXPECTED).write_text(
                    json.dumps(before, indent=1, sort_keys=True), encoding="utf-8"
                )
        target = HERE / f"{name}{SUFFIX}"
        target.write_bytes(lzma.compress(_packed(Path(folder)), preset=9 | lzma.PRESET_EXTREME))
    return target


def unpack(archive: Path, to: Path) -> list[Path]:
    """Unpack an archive; return the folders of its cells."""
    with tarfile.open(archive) as packed:
        packed.extraction_filter = getattr(
            tarfile, "data_filter", lambda member, _: member
        )  # none before Python 3.11.4
        packed.extractall(to)  # noqa: S202 - archives of ours, and filtered where that can be
    return sorted(file.parent for file in to.rglob(EXPECTED))


def _thin(file: Path) -> None:
    """Leave lines out of a history, and number what stays; a last line that was cut stays so."""
    *lines, rest = file.read_bytes().split(b"\n")
    kept, number = [], 0
    for event in (json.loads(line) for line in lines):
        number = 0 if event.get("line") == 1 else number
        if event["event"] not in LEFT_OUT:
            number += 1
            kept.append(event | ({"line": number} if "line" in event else {}))
    file.write_bytes(
        b"".join(json.dumps(event, separators=(",", ":")).encode() + b"\n" for event in kept) + rest
    )


def _packed(folder: Path) -> bytes:
    """Pack a folder, so that the same content has the same bytes."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as packed:
        for file in sorted(file for file in folder.rglob("*") if file.is_file()):
            entry = tarfile.TarInfo(str(file.relative_to(folder)))
            entry.size = file.stat().st_size
            with file.open("rb") as content:
                packed.addfile(entry, content)
    return buffer.getvalue()
