"""Read the append-only files of a server: the commands that changed something, in their order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.run.queue_journal import StrangeJournalError
from lostack_redis.resp import NotRespError, values, words

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FOLDER: Final = "appendonlydir"
ALONE: Final = "appendonly.aof"
"""The one file that Redis 6 writes."""
_WORDS: Final = 6
"""How many words a manifest's line has: ``file NAME seq NUMBER type KIND``."""
Entry = tuple[str, tuple[bytes, ...]]
"""The place of a command, and its words."""


def commands(data: Path) -> Iterator[Entry]:
    """Yield each command in the append-only files of a server's folder, with its place. A
    transaction that has no end there did nothing.

    Raises:
        StrangeJournalError: the files were rewritten, or hold something else than commands.
    """
    held: list[Entry] | None = None
    for place, said in _raw(data):
        name = said[0].upper() if said else b""
        if name == b"MULTI":
            held = []
        elif name == b"EXEC":
            yield from held or ()
            held = None
        elif held is not None:
            held.append((place, said))
        elif name:
            yield place, said


def _raw(data: Path) -> Iterator[Entry]:
    for number, file in enumerate(_files(data)):
        raw = file.read_bytes()
        try:
            for at, value in values(raw):
                yield f"{number}:{at}", words(value)
        except NotRespError as error:
            raise StrangeJournalError(f"{file.name}: {error}") from error


def _files(data: Path) -> list[Path]:
    alone = data / ALONE
    if alone.exists():
        return [alone]
    listed = (each.read_text("ascii").splitlines() for each in data.glob(f"{FOLDER}/*.manifest"))
    found = [line.split() for line in next(listed, [])]
    named = [(line[5], data / FOLDER / line[1]) for line in found if len(line) >= _WORDS]
    for kind, file in named:
        if kind == "b" and file.stat().st_size:
            raise StrangeJournalError(f"{file.name}: the append-only file was rewritten")
    return [file for kind, file in named if kind == "i"]
