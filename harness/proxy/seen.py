"""What a proxy has seen, from the wire's lines. The lines are not kept in memory: each question for
records reads the file again.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from harness.model import events as kinds
from harness.model.events import ConnPhase, RulePhase
from harness.model.history import Lines, Mark

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.model.history import Event

PIECE_BYTES: Final = 1 << 20


class _Reader:
    """Reads the whole lines of a file, from where it has stopped, piece by piece."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._mark = Mark("wire.jsonl")
        self._offset = 0
        self._rest = b""
        self.damage: list[str] = []
        """What could not be read."""

    def events(self) -> Iterator[Event]:
        """Yield the events of the lines that are new."""
        while piece := os.pread(self._fd, PIECE_BYTES, self._offset):
            self._offset += len(piece)
            *whole, self._rest = (self._rest + piece).split(b"\n")
            lines = Lines()
            yield from lines.events(whole, self._mark)
            self.damage += lines.damage


class ProxyView:
    """What the wire has written about a proxy. Safe to use from several threads, and when the file
    has been removed.
    """

    def __init__(self, file: Path) -> None:
        self._fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
        weakref.finalize(self, os.close, self._fd)
        self._reader = _Reader(self._fd)
        self._lock = threading.Lock()
        self._held: defaultdict[str, list[str]] = defaultdict(list)
        self._refused = 0
        self._why_refused: str | None = None
        self._unread: str | None = None

    def held(self, fault: str) -> list[str]:
        """Return the names of what a fault has held so far."""
        with self._lock:
            self._read_on()
            return list(self._held[fault])

    def refused(self) -> tuple[int, str | None]:
        """Return how many connections found no broker, and why the last one did not."""
        with self._lock:
            self._read_on()
            return self._refused, self._why_refused

    def unread(self) -> str | None:
        """Say what first could not be read; ``None`` if all was."""
        with self._lock:
            self._read_on()
            damage = self._reader.damage
            return f"the wire's lines are damaged: {damage[0]}" if damage else self._unread

    def all(self) -> Iterator[Event]:
        """Yield all events, from the first one."""
        return _Reader(self._fd).events()

    def _read_on(self) -> None:
        for event in self._reader.events():
            match event:
                case kinds.Rule(phase=RulePhase.HIT, held=str() as held):
                    self._held[event.rule].append(held)
                case kinds.Conn(phase=ConnPhase.REFUSED):
                    self._refused += 1
                    self._why_refused = event.because
                case kinds.Undecodable() | kinds.Failed() if self._unread is None:
                    self._unread = event.because or ""
                case _:
                    pass
