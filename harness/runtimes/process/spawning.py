"""Fork a process and turn it into a program, for the guardian. Standard library only."""

from __future__ import annotations

import ctypes
import json
import os
import signal

TYPE_CHECKING = False  # ``typing`` would cost a tenth of the start-up
if TYPE_CHECKING:
    from typing import NoReturn

    from harness.runtimes.process import cgroups, members
    from harness.runtimes.process.members import Members
    from harness.runtimes.process.messages import Answer, Request
    from harness.runtimes.process.second import Second
else:
    import cgroups
    import members
    from members import Members

LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
DEFAULTED = (
    signal.SIGCHLD,
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGPIPE,
    signal.SIGXFSZ,
)
"""Signals whose default action is restored in a node, because an ignored signal stays ignored over
exec.
"""


def prctl(option: int, value: int) -> None:
    """Call ``prctl``.

    Raises:
        OSError: the kernel refuses.
    """
    if LIBC.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def spawn(message: Request, stdin: int, second: Second, cgroup: str = "") -> Answer:
    """Fork and exec. Return ``pid`` when the program runs, else ``error`` and ``stage``."""
    guardian = os.getpid()
    read, write = os.pipe()
    try:
        pid = os.fork()
    except OSError as error:
        for fd in (read, write):
            os.close(fd)
        return {"error": error.strerror, "stage": "fork"}
    if pid == 0:
        become(message, stdin, write, guardian, second, cgroup)
    os.close(write)
    failure = read_all(read)
    if failure:
        os.waitpid(pid, 0)
        second.tell(b"-", Members(pid))
        told: Answer = json.loads(failure)
        return told
    return {"pid": pid}


def become(  # noqa: PLR0917 - what a child takes over, in its order
    message: Request, stdin: int, report: int, guardian: int, second: Second, cgroup: str
) -> NoReturn:
    """Turn the forked child into the node's program, or report why that failed."""
    stage = "fork"
    try:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != guardian:  # the guardian died before the line above
            os._exit(127)
        os.setsid()
        if cgroup:
            cgroups.enter(cgroup)
        second.tell(
            b"+", Members(os.getpid(), message["env"].get(members.VARIABLE, ""), cgroup=cgroup)
        )
        signal.set_wakeup_fd(-1)
        for number in (*DEFAULTED, signal.SIGQUIT):
            signal.signal(number, signal.SIG_DFL)
        stage = "log"
        log = os.open(message["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for source, target in ((stdin, 0), (log, 1), (log, 2)):
            os.dup2(source, target)
        if message["cwd"] is not None:
            stage = "cwd"
            os.chdir(message["cwd"])
        stage = "exec"
        os.execvpe(message["argv"][0], message["argv"], message["env"])  # noqa: S606 - what nodes are
    except OSError as error:
        os.write(report, json.dumps({"error": error.strerror, "stage": stage}).encode())
    except BaseException as error:  # noqa: BLE001 - nothing may return into the guardian's loop
        os.write(report, json.dumps({"error": repr(error)[:1000], "stage": stage}).encode())
    finally:
        os._exit(127)


def read_all(fd: int) -> bytes:
    """Read until the end and close."""
    with os.fdopen(fd, "rb") as file:
        return file.read()
