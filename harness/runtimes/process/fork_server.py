"""The fork server: a program that imports modules once, and then forks the programs that need them.

    python fork_server.py <pid of the guardian> <folder of the nodes' logs> <module>...

It imports the modules, writes ``ready`` to the socket that is its standard input, and then reads
requests from it: a line of JSON ``{"module", "words", "env", "cwd", "log"}`` with two descriptors,
the program's standard input and a pipe for the answer. The answer is ``{"pid"}`` if the program
runs, or ``{"error", "stage"}``. If the pipe ends without an answer, there is no program.

A program is forked twice. So the guardian, which collects orphans, is its parent from its first
line on, and what the guardian knows and does about a node (its exit status and signal, its group,
its death with the guardian's) does not depend on how the node was started. The program has
everything that a new ``python -m module`` has: its own group and session, environment, folder,
descriptors, ``__main__`` and random seed. The server has one thread, because a fork copies only
one. If an import starts a second thread, the server reports that and ends, and programs are started
without it.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import sys
import threading
import time
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from harness.runtimes.process.messages import Answer, Request

PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15
READY = b"ready\n"
POLL_S = 0.0005
ORPHANED_WITHIN_S = 5.0
"""How many seconds the kernel may take to make the guardian the parent of an orphan; it takes less
than a millisecond.
"""
CHUNK = 1 << 16


def serve(guardian: socket.socket, guardian_pid: int) -> Request | None:
    """Fork programs until the guardian is gone. In each program this returns the program's request;
    in the server ``None``.
    """
    buffer = b""
    fds: list[int] = []
    while True:
        data, more, _, _ = socket.recv_fds(guardian, CHUNK, 2)
        if not data:
            return None
        buffer, fds = buffer + data, fds + more
        if not buffer.endswith(b"\n"):
            continue
        message: Request = json.loads(buffer)
        if fork_twice(guardian_pid):
            become(message, *fds)
            return message
        for fd in fds:
            os.close(fd)
        buffer, fds = b"", []


def fork_twice(guardian_pid: int) -> bool:
    """Fork a process that becomes a child of the guardian; return true in that process."""
    if child := os.fork():
        os.waitpid(child, 0)
        return False
    between = os.getpid()
    if os.fork():
        os._exit(0)
    deadline = time.monotonic() + ORPHANED_WITHIN_S
    while (parent := os.getppid()) == between and time.monotonic() < deadline:
        time.sleep(POLL_S)
    libc = ctypes.CDLL(None, use_errno=True)
    if (
        parent != guardian_pid
        or libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        or os.getppid() != guardian_pid
    ):
        os._exit(
            127
        )  # the guardian has died meanwhile, or did not get it: it starts the program afresh then
    return True


def become(message: Request, stdin: int, report: int) -> None:
    """Give this process the program's own environment, folder and descriptors; report success, or
    report why not and end.
    """
    stage = "fork"
    try:
        os.setsid()
        stage = "log"
        log = os.open(message["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for source, target in ((stdin, 0), (log, 1), (log, 2)):
            os.dup2(source, target)
        for fd in (stdin, log):
            os.close(fd)
        if message["cwd"] is not None:
            stage = "cwd"
            os.chdir(message["cwd"])
        os.environ.clear()
        os.environ.update(message["env"])
        ctypes.CDLL(None).prctl(PR_SET_NAME, message["module"].rpartition(".")[2].encode(), 0, 0, 0)
        told: Answer = {"pid": os.getpid()}
    except OSError as error:
        told = {"error": error.strerror, "stage": stage}
    os.write(report, json.dumps(told).encode())
    os.close(report)
    if "error" in told:
        os._exit(127)


def main() -> None:
    """Import the modules and serve. In each forked program, run its module as if it had been
    started directly.
    """
    guardian_pid, modules = int(sys.argv[1]), sys.argv[3:]
    sys.path[0] = str(Path.cwd())
    guardian = socket.socket(fileno=os.dup(0))
    for module in modules:
        importlib.import_module(module)
    if len(os.listdir("/proc/self/task")) > 1:  # noqa: PTH208 - counted, not used
        sys.stderr.write(
            f"fork server: one of {', '.join(modules)} starts a thread when it is imported\n"
        )
        sys.stderr.flush()
        os._exit(1)  # the thread is not waited for
    gc.collect()
    gc.freeze()  # the collector copies no page that programs share
    guardian.sendall(READY)
    message = serve(guardian, guardian_pid)
    guardian.close()
    if message is not None:
        sys.modules.pop(
            message["module"], None
        )  # a program itself runs as ``__main__``, once in its process
        sys.argv = [message["module"], *message["words"]]
        runpy.run_module(message["module"], run_name="__main__", alter_sys=True)
        if threading.active_count() == 1:
            # Python would free all that it shares with the server, page by page: 15 ms
            atexit._run_exitfuncs()  # noqa: SLF001 - nothing else runs them alone
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)


if __name__ == "__main__":
    main()
