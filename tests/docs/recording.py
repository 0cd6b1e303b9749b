"""Records a run of ``lostack demo`` for the moving picture: ``python -m tests.docs.recording``.

The recording is an asciicast (version 2): a line of JSON about the whole, and then a line for each
line that the command printed: seconds since it began, ``"o"``, the text. The three cells of the run
are kept in ``tests/gate``; from them a test makes the same lines again.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from harness.latest import LATEST, run_directory
from tests.gate.saved import save

ROOT: Final = Path(__file__).parents[2]
RECORDING: Final = ROOT / "docs" / "demo.cast"
WIDTH: Final = 100
"""Columns of the terminal. ``lostack demo`` prints no longer line of its own words."""
COMMAND: Final = ("lostack", "demo")


class RecordingError(Exception):
    """A run cannot be the picture; the message says why."""


@dataclass(frozen=True, slots=True)
class Recording:
    """``lines``: when each was printed (seconds), and its text. ``about``: the first line's."""

    about: dict[str, Any]
    lines: tuple[tuple[float, str], ...]

    @classmethod
    def read(cls, file: Path = RECORDING) -> Recording:
        """Read a recording."""
        about, *rest = map(json.loads, file.read_text(encoding="utf-8").splitlines())
        return cls(about, tuple((at, text.removesuffix("\r\n")) for at, _, text in rest))

    def text(self) -> str:
        """Return it as it stands in its file."""
        told = [[at, "o", f"{line}\r\n"] for at, line in self.lines]
        return "".join(f"{json.dumps(each, ensure_ascii=False)}\n" for each in (self.about, *told))


def record(folder: Path, program: Path | None = None) -> Recording:
    """Run the demo in a folder, and note when each line comes. ``program``: another ``lostack``
    than this environment's.

    Raises:
        RecordingError: the demo did not show what it says.
    """
    began = time.monotonic()
    lines: list[tuple[float, str]] = []
    with subprocess.Popen(
        [program or Path(sys.executable).with_name(COMMAND[0]), *COMMAND[1:]],
        cwd=folder,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    ) as running:
        lines.extend(
            (round(time.monotonic() - began, 1), line.rstrip("\n")) for line in running.stdout or ()
        )
    if running.returncode:
        raise RecordingError(f"lostack demo ended with {running.returncode}")
    return Recording(
        {
            "version": 2,
            "width": WIDTH,
            "height": len(lines),
            "timestamp": int(time.time()),
            "title": f"lostack {version('lostack')}: {' '.join(COMMAND)}",
        },
        tuple(lines),
    )


def cells(folder: Path) -> list[Path]:
    """Return the folders of the demo's three runs in their order: without a fault, lost, kept."""
    parts = ("reports/dry-runs", "reports", "reports-of-right")
    return [run_directory(folder / part / LATEST).resolve() for part in parts]


def keep(recording: Recording, folder: Path) -> None:
    """Write a recording, and what its cells' histories say, into the repository."""
    save("demo", cells(folder))
    RECORDING.write_text(recording.text(), encoding="utf-8")


def main() -> None:
    """Record and keep it; say what else is to be made anew."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            keep(record(Path(folder)), Path(folder) / "lostack-demo")
        except RecordingError as error:
            sys.exit(str(error))


if __name__ == "__main__":
    main()
