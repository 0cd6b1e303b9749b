"""Reads the append-only files of a server."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from harness.run.queue_journal import StrangeJournalError
from lostack_redis.aof import commands, files_in
from lostack_redis.held import KeyContents
from lostack_redis.resp import NotRespError

if TYPE_CHECKING:
    from pathlib import Path

    from harness.run.queue_broker import Message

FOLDER: Final = "appendonlydir"
ALONE: Final = "appendonly.aof"
"""The one file that Redis 6 writes."""


class Journal:
    """The append-only files of a server, read further each time. Safe to use from several
    threads.
    """

    def __init__(self, data: Path) -> None:
        self._data = data
        self._lock = threading.Lock()
        self._held = KeyContents()
        self._read: dict[Path, int] = {}

    def messages(self, queue: str) -> tuple[Message, ...]:
        """Return every copy that a stream or a list has had.

        Raises:
            StrangeJournalError: the files were rewritten, hold something else than commands, or a
                command did to it what lostack does not know.
        """
        with self._lock:
            if any(_cut(file, at) for file, at in self._read.items()):
                self._held, self._read = KeyContents(), {}  # a power loss has cut it
            for number, file in enumerate(self._files()):
                begin = self._read.get(file, 0)
                with file.open("rb") as opened:
                    opened.seek(begin)
                    raw = opened.read()
                try:
                    for end, entries in commands(number, begin, raw):
                        self._read[file] = begin + end
                        for place, said in entries:
                            self._held.do(place, said)
                except NotRespError as error:
                    raise StrangeJournalError(f"{file.name}: {error}") from error
            return self._held.messages(queue)

    def _files(self) -> list[Path]:
        alone = self._data / ALONE
        if alone.exists():
            return [alone]
        listed = (each.read_text("ascii") for each in self._data.glob(f"{FOLDER}/*.manifest"))
        found = [(kind, self._data / FOLDER / name) for kind, name in files_in(next(listed, ""))]
        for kind, file in found:
            if kind == "b" and file.stat().st_size:
                raise StrangeJournalError(f"{file.name}: the append-only file was rewritten")
        return [file for kind, file in found if kind == "i"]


def _cut(file: Path, at: int) -> bool:
    return not file.exists() or file.stat().st_size < at
