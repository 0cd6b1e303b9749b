"""Reads what the wire has written of a cell so far, line by line: there may be many lines, and what
they show is asked for often.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from contextlib import contextmanager
from typing import TYPE_CHECKING

from harness.model import events as kinds
from harness.model.events import ConnPhase

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.model.history import Event
    from harness.model.tail import SoFar


class SeenOnWire(ABC):
    """What the wire has seen so far. Safe to use from several threads."""

    def __init__(self, so_far: SoFar) -> None:
        """``so_far``: has the lines in the order in which the wire wrote them."""
        self._so_far = so_far
        self._lock = threading.Lock()
        self._read = 0
        self._role_of: dict[int, str] = {}
        self._closed: set[int] = set()

    @contextmanager
    def _up_to_date(self) -> Iterator[None]:
        """Take in the new lines, and keep other threads out."""
        with self._lock:
            new = self._so_far.events(self._read)
            self._read += len(new)
            for event in new:
                self._note_connection(event)
                self._take(event)
            yield

    @abstractmethod
    def _take(self, event: Event) -> None:
        """Take in a line."""

    def _note_connection(self, event: Event) -> None:
        match event:
            case kinds.Conn(phase=ConnPhase.OPEN):
                self._role_of[event.conn] = event.role or ""
            case kinds.Conn(phase=ConnPhase.CLOSE):
                self._closed.add(event.conn)
            case kinds.Frame(conn=int() as conn, role=str() as role):
                self._role_of.setdefault(conn, role)

    def _role(self, request: str | None) -> str:
        """Return the stage that has made a request; ``""`` if its connection is unknown."""
        return "" if request is None else self._role_of.get(int(request.split(":")[0]), "")
