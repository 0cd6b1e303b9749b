"""The guardian's second: a fork of it that outlives it, and then kills the members of all nodes.
Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time

TYPE_CHECKING = False  # ``typing`` would cost a tenth of the start-up
if TYPE_CHECKING:
    import socket
    from collections.abc import Iterable
    from typing import NoReturn

    from harness.runtimes.process import cgroups, members
    from harness.runtimes.process.members import Members, kill_group
else:
    import cgroups
    import members
    from members import Members, kill_group

CHUNK = 1 << 16
CLOSE_WITHIN_S = 15.0


class Second:
    """The guardian's side of the second: its process, and the pipe that tells it of each node."""

    def __init__(self, harness: socket.socket) -> None:
        self.harness = harness
        self.start(())

    def start(self, nodes: Iterable[Members]) -> None:
        """Fork the second, and tell it all living nodes."""
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            be_second(read, write, self.harness)
        os.close(read)
        self.pid, self.pipe = pid, write
        for node in nodes:
            self.tell(b"+", node)

    def replace(self, nodes: Iterable[Members]) -> None:
        """Start another second after the death of the first."""
        os.close(self.pipe)
        self.start(nodes)

    def tell(self, sign: bytes, node: Members) -> None:
        """Add a node to those that the second would kill, or remove it. A dead second is replaced
        when it is reaped.
        """
        with contextlib.suppress(BrokenPipeError):
            os.write(
                self.pipe, sign + f"{node.leader} {node.since} {node.name} {node.cgroup}\n".encode()
            )

    def end(self) -> None:
        """Kill the second, when no nodes are left."""
        with contextlib.suppress(
            ProcessLookupError, ChildProcessError
        ):  # it has been killed, and reaped
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)


def be_second(read: int, write: int, harness: socket.socket) -> NoReturn:
    """Remember nodes, in the forked second, until the guardian's end of the pipe closes; then kill
    their members.
    """
    try:
        os.setsid()
        os.close(write)
        harness.close()
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, signal.SIG_IGN)
        nodes: dict[int, Members] = {}
        buffer = b""
        while chunk := os.read(read, CHUNK):
            *lines, buffer = (buffer + chunk).split(b"\n")
            for line in lines:
                leader, since, name, cgroup = line[1:].decode().split(" ", 3)
                nodes.pop(int(leader), None)
                if line[:1] == b"+":
                    nodes[int(leader)] = Members(int(leader), name, since=int(since), cgroup=cgroup)
        for group in nodes:
            kill_group(group)
        for wait_s in members.end_all(nodes.values(), CLOSE_WITHIN_S, cgroups.kill):
            time.sleep(wait_s)
        for cgroup in {os.path.dirname(node.cgroup) for node in nodes.values() if node.cgroup}:  # noqa: PTH120 - as above
            cgroups.remove(cgroup)
        remove_temporary()
    finally:
        os._exit(0)


def remove_temporary() -> None:
    """Remove the folder for temporary files, after all nodes have ended."""
    import shutil  # noqa: PLC0415 - it would cost the start-up

    shutil.rmtree(sys.argv[3], ignore_errors=True)
