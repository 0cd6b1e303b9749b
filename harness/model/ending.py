"""The end of a history: what its files held when the cell had ended.

A writer that is killed cannot say how many lines it has written. So the runner, which outlives all
other writers, says it of every file, in the last line of its own. Whoever judges the cell then sees
if lines were cut off later, or if a file was removed, emptied, doubled, exchanged or changed.

Files are given by their names, with their contents in pieces, as
:func:`~harness.model.history.read_files` gives them.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

from harness.model import events as kinds
from harness.model import safe_files
from harness.model.history import MOST_BYTES, MOST_LINE, read_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

Files: TypeAlias = "Iterable[tuple[str, Iterable[bytes]]]"
RUNNER = "runner.jsonl"
"""The runner's file. Its own entry says what it held before its last line."""
NO_END = f"{RUNNER} (its end is missing: lines were cut off, or lostack was killed)"
"""What differs where the runner's last line does not end the cell."""
FILES = "files"
"""The field of the runner's last line: for each file its number of lines and of bytes, and its
SHA-256.
"""


class Counted(TypedDict):
    """What the runner says of a file."""

    lines: int
    bytes: int
    sha256: str


def counted(files: Files) -> dict[str, Counted]:
    """Return what the runner says of files before it writes its last line."""
    return {name: _counted(content) for name, content in files}


def differences(files: Files) -> Iterator[str]:
    """Yield in which way files differ from what the runner said of them at the end of the cell."""
    now, last = _parted(files)
    end = _decoded(last)
    if end is None:
        yield NO_END
        return
    for name, told in sorted(end[FILES].items()):
        found = now.get(name)
        if found is None:
            yield f"{name} (it is gone; it had {told['lines']} lines when the cell ended)"
        elif found["lines"] != told["lines"]:
            yield f"{name} ({found['lines']} lines; it had {told['lines']} when the cell ended)"
        elif found != told:
            yield f"{name} (changed since the cell ended)"
    for name in sorted(now.keys() - end[FILES].keys()):
        yield f"{name} (it came after the cell had ended)"


def end_anew(original: Path, copy: Path) -> None:
    """Let the history of a copy, which was changed on purpose, end by what it holds itself. What
    the original has lost is missing in the copy, too.
    """
    before, last_before = _parted(read_files(original))
    after, last = _parted(read_files(copy))
    end, told = _decoded(last_before), _decoded(last)
    if end is None or told is None:
        return
    told[FILES] = {
        name: after[name] if name in after and before.get(name) == entry else entry
        for name, entry in end[FILES].items()
    }
    content = safe_files.read_bytes(copy, RUNNER, MOST_BYTES).removesuffix(last)
    line = json.dumps(told, separators=(",", ":")).encode() + b"\n"
    safe_files.write_whole(copy, RUNNER, content + line)


def _parted(files: Files) -> tuple[dict[str, Counted], bytes]:
    """Return what files hold, and the last line of the runner's, which does not count there."""
    found: dict[str, Counted] = {}
    last = [b""]
    for name, content in files:
        found[name] = _counted(_before_last(content, last) if name == RUNNER else content)
    return found, last[0]


def _before_last(content: Iterable[bytes], last: list[bytes]) -> Iterator[bytes]:
    """Yield all but the last line of a file, and put that into ``last``. A line that is longer than
    any of a history is no last one.
    """
    for piece in content:
        data = last[0] + piece
        begins = data.rfind(b"\n", 0, len(data) - 1) + 1
        if len(data) - begins > MOST_LINE:
            begins = len(data)
        yield data[:begins]
        last[0] = data[begins:]


def _counted(content: Iterable[bytes]) -> Counted:
    lines, size, checksum = 0, 0, hashlib.sha256()
    for piece in content:
        lines, size = lines + piece.count(b"\n"), size + len(piece)
        checksum.update(piece)
    return {"lines": lines, "bytes": size, "sha256": checksum.hexdigest()}


def _decoded(last: bytes) -> dict[str, Any] | None:
    """Return the line with which a cell has ended; ``None`` if this is another line."""
    try:
        line = json.loads(last)
    except ValueError:
        return None
    ends = isinstance(line, dict) and line.get("event") == kinds.CELL and last.endswith(b"\n")
    told = line.get(FILES) if ends else None
    entries = told.values() if isinstance(told, dict) else [None]
    return line if all(isinstance(e, dict) and "lines" in e for e in entries) else None
