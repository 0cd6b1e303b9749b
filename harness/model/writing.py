"""The writing of a history: append-only JSON lines, one file per writer (see
:mod:`harness.model.history`).

It needs the standard library alone: programs in environments of their own write histories, too.
They name a kind and its fields (:class:`LedgerWriter`); a test holds these against the types. All
others write objects (:class:`harness.model.history.HistoryWriter`).
"""

from __future__ import annotations

import json
import os
import threading
import time
from typing import TYPE_CHECKING

from harness.model.closing import Closing

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

SUFFIX = ".jsonl"
APPENDING = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
"""How a history is opened. A link in its place is not followed: it may lead anywhere."""
CLOSED = -1
"""The descriptor of a closed writer: a number that no open file can have."""


class HistoryError(Exception):
    """A history cannot be written (disk full, read-only folder), or a folder has no history."""


def in_plain_json(line: object) -> bytes:
    """Return a line as JSON, made by the standard library."""
    return json.dumps(line, separators=(",", ":")).encode()


class Appending(Closing):
    """Appends lines to one file. Safe to use from several threads of one process.

    Raises:
        HistoryError: the file cannot be opened. The methods raise it if a line cannot be written
            whole, so that a full disk never passes silently.
    """

    def __init__(self, path: Path, *, cell: str, by: str) -> None:
        self.path = path
        self._whose = in_plain_json({"cell": cell, "by": by})[1:-1]
        self._lines = 0
        self._turn = threading.Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(path, APPENDING, 0o644)
        except OSError as error:
            msg = f"cannot write the history {path}: {error.strerror}"
            raise HistoryError(msg) from error

    def append(self, told: Iterable[bytes]) -> None:
        """Append lines, with the same time, by one ``write(2)``. Each is a JSON object of what the
        line has besides what every line has.

        Raises:
            HistoryError: the lines could not be written whole.
        """
        with self._turn:
            number = self._lines
            times = b'"t":%d,"w":%d,%b' % (time.monotonic_ns(), time.time_ns(), self._whose)
            lines = [
                b'{"line":%d,%b,%b\n' % (line, times, each[1:])
                for line, each in enumerate(told, number + 1)
            ]
            if not lines:
                return
            data = b"".join(lines)
            try:
                written = os.write(self._fd, data)
            except OSError as error:
                msg = f"cannot write the history {self.path}: {error.strerror}"
                raise HistoryError(msg) from error
            self._lines = number + len(lines)
        if written != len(data):
            msg = (
                f"cannot write the history {self.path}: only {written} of {len(data)} bytes "
                "fitted (disk full?)"
            )
            raise HistoryError(msg)

    def close(self) -> None:
        """Close the file; further writes fail. Safe to call twice."""
        fd, self._fd = self._fd, CLOSED
        if fd != CLOSED:
            os.close(fd)


class LedgerWriter(Appending):
    """Appends what a program says."""

    def write(self, event: str, **fields: object) -> None:
        """Append one event of kind ``event`` (see :mod:`harness.model.events`) with its fields.

        Raises:
            HistoryError: the line could not be written whole.
        """
        self.append((in_plain_json({"event": event, **fields}),))
