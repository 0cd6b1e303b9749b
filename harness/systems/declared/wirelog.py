"""What the wire has written of a cell so far, read on from where it was read last."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from harness.core.history import Event


class WireLog:
    """A growing history file. Safe to use from several threads."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._events: list[Event] = []
        self._at = 0
        self._lock = threading.Lock()

    def events(self) -> tuple[Event, ...]:
        """Return everything that is written whole."""
        with self._lock:
            if self.file.exists():
                with self.file.open("rb") as lines:
                    lines.seek(self._at)
                    data = lines.read()
                whole = data[: data.rfind(b"\n") + 1]
                self._at += len(whole)
                self._events += [json.loads(line) for line in whole.splitlines()]
            return tuple(self._events)
