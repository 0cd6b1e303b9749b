"""The harness's side of the guardian: its process, and the socket for requests and events."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.model.failures import EnvironmentFailure
from harness.runtimes.interface import StartError

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.runtimes.process.messages import Answer, Request

GUARDIAN: Final = Path(__file__).with_name("guardian.py")
ANSWER_WITHIN_S: Final = 20.0
"""Time limit in seconds for an answer. The guardian answers within milliseconds; after this time it
is taken for hung.
"""
GONE_WITHIN_S: Final = 20.0
"""Time limit in seconds for the end of a killed process. SIGKILL acts at once, except during an
uninterruptible disk access.
"""


class GuardianDiedError(EnvironmentFailure):
    """The guardian is gone, and with it every node. The run proves nothing about the system under
    test.
    """


class _Request:
    """A request to the guardian, and its answer, which stays ``None`` if the guardian dies."""

    def __init__(self, message: Request, on_answer: Callable[[Answer], None]) -> None:
        self.message = message
        self.on_answer = on_answer
        self.answer: Answer | None = None
        self.answered = threading.Event()


class Link:
    """Sends requests to the guardian, and passes on its answers and events. Thread-safe.

    ``directory``: the folder of its log; ``temporary``: the folder that it removes. ``exited`` is
    called with each node's end, ``gone`` at the end of the guardian, both in the reader's thread.
    Raises GuardianDiedError if the guardian does not start, and from every request after its death.
    """

    def __init__(
        self,
        directory: Path,
        temporary: Path,
        exited: Callable[[Answer], None],
        gone: Callable[[], None],
    ) -> None:
        self.directory = directory
        self.failure: Exception | None = None
        """Why the guardian is gone, unless it was asked to end."""
        self._exited = exited
        self._gone = gone
        self._requests: dict[int, _Request] = {}
        self._next_id = 0
        self._lock = threading.Lock()
        self._closing = False
        self._farewell = False
        self._ready = threading.Event()
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            log = (self.directory / "guardian.log").open("ab")
        except OSError as error:
            raise StartError(f"cannot write logs to {self.directory}: {error.strerror}") from error
        self._socket, theirs = socket.socketpair()
        self._socket.setsockopt(
            socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(ANSWER_WITHIN_S), 0)
        )
        command = [
            sys.executable,
            "-I",
            "-S",
            str(GUARDIAN),
            str(theirs.fileno()),
            str(os.getpid()),
            str(temporary),
        ]
        with log, theirs:
            self._guardian = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        self._reader = threading.Thread(target=self._read, name="guardian-reader", daemon=True)
        self._reader.start()
        if not self._ready.wait(ANSWER_WITHIN_S) or self.failure is not None:
            self._guardian.kill()
            raise self.failure or GuardianDiedError("the guardian of the nodes did not start")

    @property
    def pid(self) -> int:
        """Process id of the guardian."""
        return self._guardian.pid

    def check(self) -> None:
        """Raise GuardianDiedError if the guardian is gone."""
        if self.failure is not None:
            raise self.failure

    def close(self) -> None:
        """Let the guardian end every node with everything it started, and then itself; wait for
        that.
        """
        self._closing = True
        with contextlib.suppress(OSError):  # the guardian may be gone
            self._socket.shutdown(socket.SHUT_WR)
        try:
            self._guardian.wait(GONE_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._guardian.kill()
            self._guardian.wait(GONE_WITHIN_S)
        self._reader.join(GONE_WITHIN_S)
        self._socket.close()

    def ask(
        self,
        message: Request,
        on_answer: Callable[[Answer], None],
        fds: tuple[int, ...] = (),
    ) -> Answer:
        """Send a request and wait for the answer. ``on_answer`` has been called by then."""
        with self._lock:
            self._next_id += 1
            request = _Request({"id": self._next_id, **message}, on_answer)
            self._requests[self._next_id] = request
            try:
                self._send(request.message, fds)
            except OSError:
                request.answered.set()
        request.answered.wait(ANSWER_WITHIN_S)
        if request.answer is None:
            if self.failure is None:
                what = (
                    "is closed" if self._closing else f"has not answered for {ANSWER_WITHIN_S:g} s"
                )
                self.failure = GuardianDiedError(
                    f"the guardian of the nodes (pid {self._guardian.pid}) {what}"
                )
            raise self.failure
        return request.answer

    def _send(self, message: Request, fds: tuple[int, ...]) -> None:
        data = json.dumps(message).encode() + b"\n"
        sent = socket.send_fds(self._socket, [data], fds) if fds else 0
        self._socket.sendall(data[sent:])

    def _read(self) -> None:
        """Run the reader thread: hand out answers and ends until the guardian is gone."""
        with self._socket.makefile("rb") as lines:
            try:
                for line in lines:
                    self._handle(json.loads(line))
            except (OSError, ValueError):
                pass
        self._guardian_gone()

    def _handle(self, message: Answer) -> None:
        if "id" in message:
            request = self._requests.pop(message["id"])
            request.on_answer(message)
            request.answer = message
            request.answered.set()
        elif message["event"] == "exited":
            self._exited(message)
        elif message["event"] == "ready":
            self._ready.set()
        elif message["event"] == "closed":
            self._farewell = True

    def _guardian_gone(self) -> None:
        """Fail all waiting requests, unless the guardian was asked to end."""
        if not (self._closing and self._farewell):
            try:
                code: int | None = self._guardian.wait(ANSWER_WITHIN_S)
            except subprocess.TimeoutExpired:
                code = None
            self.failure = self.failure or GuardianDiedError(
                f"the guardian of the nodes (pid {self._guardian.pid}) ended by {_ended_by(code)}, "
                f"and all nodes with it; see {self.directory / 'guardian.log'}"
            )
        for request in tuple(self._requests.values()):
            request.answered.set()
        self._gone()
        self._ready.set()


def _ended_by(code: int | None) -> str:
    if code is None:
        return "closing its socket"
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"status {code}"
