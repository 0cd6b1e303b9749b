"""A history that grows, written by hand."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from harness.model.ending import RUNNER, counted
from harness.model.history import read_files
from harness.model.tail import SoFar
from tests.events import whole

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def tell(folder: Path, *events: Mapping[str, Any], by: str = "wire") -> None:
    """Write lines into a history; one without a time has its number in the file for it."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{by}.jsonl"
    before = file.read_bytes().count(b"\n") if file.exists() else 0
    with file.open("a", encoding="utf-8") as lines:
        for number, event in enumerate(events, start=before + 1):
            line = {"line": number, "t": number, "by": by, **event}
            lines.write(json.dumps(whole(line)) + "\n")


def so_far_of(folder: Path, *events: Mapping[str, Any]) -> SoFar:
    """Return what a history says so far, to which the wire has written these lines."""
    tell(folder, *events)
    return SoFar(folder)


def end(history: Path) -> None:
    """Let a history that was written by hand into ``all.jsonl`` end as the runner lets it."""
    every = history / "all.jsonl"
    *lines, last = every.read_text(encoding="utf-8").splitlines(keepends=True)
    event = json.loads(last)
    if event["event"] == "cell":
        every.write_text("".join(lines), encoding="utf-8")
    else:
        event |= {"event": "cell", "by": "runner", "phase": "ended"}
    files = counted(read_files(history)) | {RUNNER: counted([(RUNNER, ())])[RUNNER]}
    (history / RUNNER).write_text(json.dumps(event | {"line": 1, "files": files}) + "\n")
