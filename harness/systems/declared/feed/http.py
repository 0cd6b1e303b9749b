"""Offer the records by HTTP: one POST each, several at once if there are several writers."""

from __future__ import annotations

import http.client
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from harness.model import events as kinds
from harness.pipelines.inputs import Resend
from harness.systems.declared.feed.feeders import PacedFeeder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.model.history import HistoryWriter
    from harness.systems.declared.feed.waves import Waves

ANSWER_S = 90.0
"""How long an answer to a POST may take: longer than a client tries to deliver a record."""


class HttpFeeder(PacedFeeder):
    """Sends one POST for each record, begun in order; with several ``writers`` as many at once as
    have no answer to wait for.

    After an answer of 2xx the producer has the record. After any other answer, or none, the record
    is offered again if ``resend`` says so. While nobody listens at the port the record waits and
    does not count as offered. An answer of 4xx is trouble: the producer refuses the record.
    """

    def __init__(
        self,
        url: str,
        lines: Mapping[str, str],
        *,
        rate: float,
        resend: Resend,
        history: HistoryWriter,
        waves: Waves,
        writers: int = 1,
    ) -> None:
        super().__init__(rate=rate / writers, history=history, waves=waves)
        at = urlsplit(url)
        self._host, self._port = at.hostname or "127.0.0.1", at.port
        self._path = (at.path or "/") + (f"?{at.query}" if at.query else "")
        self._lines = lines
        self._resend = resend
        self._writers = writers
        self._changed = threading.Condition()
        """Guards what the writers have done: who is busy, and how many records were offered."""
        self._busy = 0
        self.taken_over: set[str] = set()
        """The records whose POST was answered by 2xx."""

    def _run(self) -> None:
        todo = list(enumerate(self._lines.items(), start=1))
        with ThreadPoolExecutor(self._writers, thread_name_prefix="writer") as writers:
            while todo and not self._stop.is_set():
                if self._busy == self._writers or not self._may_offer(todo[0][0]):
                    with self._changed:
                        self._changed.wait_for(
                            lambda: self._busy < self._writers, timeout=self._pause_s
                        )
                    continue
                for _ in range(self._writers - self._busy):
                    _, (record, line) = todo.pop(0)
                    with self._changed:
                        self._busy += 1
                    writers.submit(self._offer, record, line)
                    if not todo or not self._waves.lets(todo[0][0]):
                        break
        if not self._stop.is_set():
            self._done.set()

    def _offer(self, record: str, line: str) -> None:
        """Offer one record until it is answered."""
        try:
            while not self._stop.is_set():
                status = self._post(record, line)
                if status is not None and status // 100 == 4:  # noqa: PLR2004 - the client's own fault, in HTTP's words
                    self._trouble = f"the producer answered {status} to a POST of {line[:120]!r}"
                    self._stop.set()
                    return
                if status is not None and status // 100 == 2:  # noqa: PLR2004
                    self.taken_over.add(record)
                if record in self.taken_over or (
                    status is not None and self._resend is Resend.NONE
                ):
                    with self._changed:
                        # counted once answered: a record that is refused again and again is no
                        # progress
                        self.offered += 1
                    return
                self._stop.wait(self._pause_s)
        finally:
            with self._changed:
                self._busy -= 1
                self._changed.notify()

    def _post(self, record: str, line: str) -> int | None:
        """Return the HTTP status of the answer; 0 if no answer came, ``None`` if nobody listens."""
        connection = http.client.HTTPConnection(self._host, self._port, timeout=ANSWER_S)
        try:
            connection.connect()
        except OSError:
            return None
        try:
            self._history.write(kinds.Taken(record=record))
            connection.request(
                "POST", self._path, line.encode(), {"Content-Type": "application/json"}
            )
            return connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return 0
        finally:
            connection.close()
