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


def commands(data: Path, read: dict[Path, int]) -> Iterator[Entry]:
    """Yield each command in the append-only files of a server's folder, with its place. A
    transaction that has no end there did nothing.

    ``read``: up to where each file was read before; it is moved on.

    Raises:
        StrangeJournalError: the files were rewritten, or hold something else than commands.
    """
    for number, file in enumerate(_files(data)):
        begin = read.get(file, 0)
        with file.open("rb") as opened:
            opened.seek(begin)
            raw = opened.read()
        try:
            for end, entries in _whole(number, begin, raw):
                read[file] = begin + end
                yield from entries
        except NotRespError as error:
            raise StrangeJournalError(f"{file.name}: {error}") from error


def _whole(number: int, begin: int, raw: bytes) -> Iterator[tuple[int, list[Entry]]]:
    """Yield the commands that take effect together, with where they end."""
    held: list[Entry] = []
    inside = False
    for at, end, value in values(raw):
        said = words(value)
        name = said[0].upper() if said else b""
        if name not in (b"MULTI", b"EXEC", b""):
            held.append((f"{number}:{begin + at}", said))
        inside = name == b"MULTI" or (inside and name != b"EXEC")
        if not inside:
            yield end, held
            held = []


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
