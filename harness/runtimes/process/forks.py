"""The fork server as the guardian has it: started when it is expected, asked for programs, done without where it dies.

Standard library only: the guardian has no other.
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
    from typing import Any

    from harness.runtimes.process.members import Members, kill_group
    from harness.runtimes.process.second import Second
    from harness.runtimes.process.spawning import read_all, spawn
else:
    from members import Members, kill_group
    from spawning import read_all, spawn

PRELOADED_WITHIN_S = 10.0
"""How long a program may wait for the fork server to be ready, or to fork it, before it is started afresh."""
CHUNK = 1 << 16


class ForkServer:
    """The fork server's process, and the programs that wait for it to be ready."""

    __slots__ = ("deadline", "pid", "ready", "socket", "waiting")

    def __init__(self, pid: int, ours: socket.socket) -> None:
        self.pid = pid
        self.socket = ours
        self.ready = False
        self.deadline = time.monotonic() + PRELOADED_WITHIN_S
        self.waiting: list[tuple[dict[str, Any], int]] = []


class Forks:
    """The fork server while there is one, what it is to import, and how programs come to it."""

    def __init__(self, selector: selectors.BaseSelector, second: Second, start: Callable[[dict[str, Any], int], None]) -> None:
        """``start``: starts a program that has waited."""
        self.selector = selector
        self.second = second
        self.start_program = start
        self.preload: dict[str, Any] | None = None
        self.server: ForkServer | None = None
        self.leaving = False

    @property
    def pid(self) -> int:
        """The server's process; 0 where there is none."""
        return self.server.pid if self.server else 0

    @property
    def awaited(self) -> bool:
        """Whether programs wait for it to be ready."""
        return bool(self.server and self.server.waiting)

    def expect(self, message: dict[str, Any]) -> None:
        """Start the server with what it is to import."""
        self.preload = message
        self.start()

    def start(self) -> None:
        """Start the fork server that was asked for. Where it dies before it is ready, there is none."""
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

    def keep(self, message: dict[str, Any], stdin: int) -> bool:
        """Keep a program until the server is ready; false where it need not wait."""
        if self.server is None:  # it was killed
            self.start()
        if self.server is None or self.server.ready:
            return False
        self.server.waiting.append((message, stdin))
        return True

    def read(self) -> None:
        """Fork what has waited for the server to be ready; start it afresh where the server has ended instead."""
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
        """End the fork server, and start the waiting nodes without it. One that was ready once is started again."""
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
        """Do without a server for which programs have waited long enough."""
        if self.server is not None and self.server.waiting and time.monotonic() >= self.server.deadline:
            self.drop()

    def start_waiting(self, server: ForkServer) -> None:
        """Start everything that has waited, in its order."""
        waiting, server.waiting = server.waiting, []
        for message, stdin in waiting:
            self.start_program(message, stdin)

    def fork(self, message: dict[str, Any], stdin: int) -> dict[str, Any] | None:
        """Let the fork server fork a node. Return what that says, ``None`` where there is no such program now."""
        if self.server is None or not self.server.ready:
            return None
        read, write = os.pipe()
        request = {name: message[name] for name in ("module", "words", "env", "cwd", "log")}
        with contextlib.suppress(OSError):  # it has just died: the pipe will tell nothing
            socket.send_fds(self.server.socket, [json.dumps(request).encode() + b"\n"], [stdin, write])
        os.close(write)
        if not select.select([read], [], [], PRELOADED_WITHIN_S)[0]:
            self.drop()  # then the pipe ends: by its death, or by a program's, or as one that runs
        said = read_all(read)
        told: dict[str, Any] | None = json.loads(said) if said else None
        return told
