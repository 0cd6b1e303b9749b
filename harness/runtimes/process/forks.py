"""The guardian's side of the fork server: starts it on request, asks it for programs, and does
without it if it dies.

Standard library only, because the guardian uses nothing else.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import selectors
import socket
import time

TYPE_CHECKING = False  # ``typing`` would cost a tenth of the start-up
if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.runtimes.process.members import Members, kill_group
    from harness.runtimes.process.messages import Answer, Request
    from harness.runtimes.process.second import Second
    from harness.runtimes.process.spawning import read_all, spawn
else:
    from members import Members, kill_group
    from spawning import read_all, spawn

PRELOADED_WITHIN_S = 10.0
"""How many seconds a program waits for the fork server before it is started without it."""
CHUNK = 1 << 16
FORKED = ("module", "words", "env", "cwd", "log")
"""What the fork server needs of a request."""


class ForkServer:
    """The fork server's process, and the programs that wait for it to be ready."""

    __slots__ = ("deadline", "pid", "ready", "socket", "waiting")

    def __init__(self, pid: int, ours: socket.socket) -> None:
        self.pid = pid
        self.socket = ours
        self.ready = False
        self.deadline = time.monotonic() + PRELOADED_WITHIN_S
        self.waiting: list[tuple[Request, int]] = []


class Forks:
    """The fork server (if there is one), the modules that it imports, and the programs that wait
    for it.
    """

    def __init__(
        self,
        selector: selectors.BaseSelector,
        second: Second,
        start: Callable[[Request, int], None],
    ) -> None:
        """Begin without a server. ``start`` starts a program that has waited."""
        self.selector = selector
        self.second = second
        self.start_program = start
        self.preload: Request | None = None
        self.server: ForkServer | None = None
        self.leaving = False

    @property
    def pid(self) -> int:
        """The server's process id; 0 if there is no server."""
        return self.server.pid if self.server else 0

    @property
    def awaited(self) -> bool:
        """Whether programs wait for the server to be ready."""
        return bool(self.server and self.server.waiting)

    def expect(self, message: Request) -> None:
        """Start the server with the modules that it must import."""
        self.preload = message
        self.start()

    def start(self) -> None:
        """Start the requested fork server. If it dies before it is ready, there is none."""
        if self.server is not None or self.preload is None:
            return
        ours, theirs = socket.socketpair()
        with theirs:
            told = spawn(self.preload, theirs.fileno(), self.second)
        if "pid" not in told:
            ours.close()
            self.preload = None
            return
        self.server = ForkServer(told["pid"], ours)
        self.selector.register(ours, selectors.EVENT_READ, self.read)

    def keep(self, message: Request, stdin: int) -> bool:
        """Keep a program until the server is ready; return false if it need not wait."""
        if self.server is None:  # it was killed
            self.start()
        if self.server is None or self.server.ready:
            return False
        self.server.waiting.append((message, stdin))
        return True

    def read(self) -> None:
        """Fork the waiting programs when the server is ready; start them without it if the server
        has ended.
        """
        server = self.server
        if server is None:
            return
        try:
            server.ready = bool(server.socket.recv(CHUNK))
        except OSError:
            server.ready = False
        if server.ready:
            self.start_waiting(server)
        else:
            self.drop()

    def drop(self) -> None:
        """End the fork server, and start the waiting programs without it. A server that was ready
        once is started again.
        """
        server, self.server = self.server, None
        if server is None:
            return
        kill_group(server.pid)  # it is reaped with the others
        self.selector.unregister(server.socket)
        server.socket.close()
        self.second.tell(b"-", Members(server.pid))
        if server.waiting and not self.leaving:
            self.preload = None
            self.start_waiting(server)

    def drop_late(self) -> None:
        """End a server for which programs have waited too long."""
        if (
            self.server is not None
            and self.server.waiting
            and time.monotonic() >= self.server.deadline
        ):
            self.drop()

    def start_waiting(self, server: ForkServer) -> None:
        """Start the programs that have waited, in their order."""
        waiting, server.waiting = server.waiting, []
        for message, stdin in waiting:
            self.start_program(message, stdin)

    def fork(self, message: Request, stdin: int) -> Answer | None:
        """Let the fork server fork a node. Return its answer; ``None`` if no program
        was started.
        """
        if self.server is None or not self.server.ready:
            return None
        read, write = os.pipe()
        request = {name: value for name, value in message.items() if name in FORKED}
        with contextlib.suppress(OSError):  # it has just died: the pipe will tell nothing
            socket.send_fds(
                self.server.socket, [json.dumps(request).encode() + b"\n"], [stdin, write]
            )
        os.close(write)
        if not select.select([read], [], [], PRELOADED_WITHIN_S)[0]:
            self.drop()  # then the pipe ends: by its death, or by a program's, or as one that runs
        said = read_all(read)
        told: Answer | None = json.loads(said) if said else None
        return told
