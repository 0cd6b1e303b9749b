"""The guardian: the parent of every node. A program of its own, standard library only, one thread.

    python -I -S guardian.py <fd of a socket to the harness> <pid of the harness> <folder for temporary files>

The socket carries JSON lines. The harness asks ``{"id", "do": "start", "node", "argv", "env", "cwd", "log", "stdin"}``
(where ``stdin`` is true a descriptor comes along), ``{"id", "do": "signal", "pid", "signal"}`` and ``{"do": "close"}``.
``{"id", "do": "preload", "argv", "env", "cwd", "log"}`` starts a fork server (``fork_server.py``). A ``start`` that has
``"module"`` and ``"words"`` besides is forked from it as soon as it is ready, or started by its ``argv`` where there is none.
The guardian answers ``{"id", "pid", "t"}`` or ``{"id", "error", "stage"}``, and says by itself ``{"event": "ready"}``,
``{"event": "exited", "node", "pid", "status", "signal", "t"}`` and ``{"event": "closed"}``; ``t`` is monotonic ns.

Who dies, and what becomes of the nodes:

- A node ends: its whole process group is killed, and ``exited`` is sent when nothing of the group is left.
- The harness dies, however: the socket ends (and its pidfd turns readable, should a forked copy of the harness keep
  the socket open). The guardian kills all groups, stopped ones too, and everything else descended from it, removes the
  folder for temporary files, and leaves.
- The guardian dies: the kernel kills each node (PDEATHSIG), and the *second*, a fork of the guardian that reads the
  group ids from a pipe and does nothing else, kills what the nodes had started and removes the folder for temporary files.
- Harness and guardian die at the same instant: likewise.

A program that leaves its process group by itself and loses its parent becomes the guardian's child (subreaper); it is
ended with the run, not with its node.
"""

# ruff: noqa: PTH123, PTH208 - pathlib would double the start-up

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import selectors
import signal
import socket
import sys
import time

TYPE_CHECKING = False  # ``typing`` would cost a tenth of the start-up
if TYPE_CHECKING:
    from typing import Any, NoReturn

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
POLL_S = 0.005
GROUP_GONE_WITHIN_S = 5.0
"""How long ``exited`` is held back for members of the group which the kernel has not buried yet."""
CLOSE_WITHIN_S = 5.0
PRELOADED_WITHIN_S = 10.0
"""How long a program may wait for the fork server to be ready, or to fork it, before it is started afresh."""
MAX_FDS = 16
CHUNK = 1 << 16

DEFAULTED = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ)
"""Signals a node gets back with their default action; an ignored signal would stay ignored over exec."""


def prctl(libc: ctypes.CDLL, option: int, value: int) -> None:
    """Raise OSError where the kernel refuses."""
    if libc.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def kill_group(group: int, number: int = signal.SIGKILL) -> bool:
    """Signal a process group. False: nothing of it is left."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:  # a member became another user's; it exists
        return True
    return True


def kill_one(pid: int) -> None:
    """SIGKILL one of our children, which may be a zombie already, or another user's."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def children() -> list[int]:
    """Pids of this process' own children."""
    me = os.getpid()
    found: list[int] = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", "rb") as file:
                after_name = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        if int(after_name[1]) == me:
            found.append(int(entry))
    return found


class Ending:
    """A node whose leader is reaped and whose group is dying."""

    __slots__ = ("deadline", "event")

    def __init__(self, event: dict[str, Any]) -> None:
        self.event = event
        self.deadline = time.monotonic() + GROUP_GONE_WITHIN_S


class ForkServer:
    """The fork server's process, and the programs that wait for it to be ready."""

    __slots__ = ("deadline", "pid", "ready", "socket", "waiting")

    def __init__(self, pid: int, ours: socket.socket) -> None:
        self.pid = pid
        self.socket = ours
        self.ready = False
        self.deadline = time.monotonic() + PRELOADED_WITHIN_S
        self.waiting: list[tuple[dict[str, Any], int]] = []


class Guardian:
    """Spawns, signals and reaps nodes until the harness is gone or asks to close."""

    def __init__(self, harness: socket.socket, harness_pid: int) -> None:
        self.harness = harness
        self.pid = os.getpid()
        self.libc = ctypes.CDLL(None, use_errno=True)
        prctl(self.libc, PR_SET_CHILD_SUBREAPER, 1)
        self.nodes: dict[int, str] = {}
        self.ending: dict[int, Ending] = {}
        self.forks: ForkServer | None = None
        self.preload: dict[str, Any] | None = None
        self.fds: list[int] = []
        self.buffer = b""
        self.leaving = False
        self.selector = selectors.DefaultSelector()
        self.selector.register(harness, selectors.EVENT_READ, self.read_harness)
        self.watch_signals()
        self.start_second()
        self.watch_pid(harness_pid)

    def watch_signals(self) -> None:
        """Turn SIGCHLD and SIGTERM into readable bytes; the terminal's signals are none of ours."""
        read, write = os.pipe()
        os.set_blocking(read, False)
        os.set_blocking(write, False)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, lambda *_: None)
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, signal.SIG_IGN)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        self.wakeup = read
        self.selector.register(read, selectors.EVENT_READ, self.read_signals)

    def watch_pid(self, harness_pid: int) -> None:
        """Leave when the harness' process ends, even if a copy of it holds the socket."""
        try:
            pidfd = os.pidfd_open(harness_pid)
        except OSError:  # an old kernel, or the harness is gone, which the next line sees
            pidfd = -1
        if pidfd >= 0:
            self.selector.register(pidfd, selectors.EVENT_READ, self.leave)
        if os.getppid() != harness_pid:
            self.leave()

    def leave(self) -> None:
        """Make this the last turn of the loop."""
        self.leaving = True

    # --- the second --------------------------------------------------------------------------------------------

    def start_second(self) -> None:
        """Fork the second and tell it all groups there are."""
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            be_second(read, write, self.harness)
        os.close(read)
        self.second, self.second_pipe = pid, write
        for group in (*self.nodes, *self.ending, *((self.forks.pid,) if self.forks else ())):
            self.tell_second(b"+", group)

    def tell_second(self, sign: bytes, group: int) -> None:
        """Add a group to what the second would kill, or take it away. A dead second is replaced when it is reaped."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self.second_pipe, sign + str(group).encode() + b"\n")

    # --- talking to the harness --------------------------------------------------------------------------------

    def send(self, message: dict[str, Any]) -> None:
        """Send one line. A harness that cannot be reached is gone."""
        try:
            self.harness.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            self.leave()

    def read_harness(self) -> None:
        """Take what the harness sent and do it."""
        try:
            data, fds, _, _ = socket.recv_fds(self.harness, CHUNK, MAX_FDS)
        except OSError:
            data, fds = b"", []
        if not data:
            self.leave()
            return
        for fd in fds:
            os.set_inheritable(fd, False)  # noqa: FBT003 - positional only
        self.fds += fds
        *lines, self.buffer = (self.buffer + data).split(b"\n")
        for line in lines:
            self.do(json.loads(line))

    def do(self, message: dict[str, Any]) -> None:
        """Carry out one request."""
        if message["do"] == "start":
            self.start(message)
        elif message["do"] == "preload":
            self.preload = message
            self.start_forks()
            self.send({"id": message["id"]})
        elif message["do"] == "signal":
            self.signal(message)
        else:
            self.leave()

    def signal(self, message: dict[str, Any]) -> None:
        """Signal the group of a node that has not been reaped."""
        pid = message["pid"]
        if pid in self.nodes and kill_group(pid, message["signal"]):
            self.send({"id": message["id"], "pid": pid, "t": time.monotonic_ns()})
        else:
            self.send({"id": message["id"], "error": "it has ended", "stage": "signal"})

    # --- spawning ----------------------------------------------------------------------------------------------

    def start(self, message: dict[str, Any]) -> None:
        """Start a node: from the fork server, as soon as that is ready, or afresh."""
        stdin = self.fds.pop(0) if message["stdin"] else os.open(os.devnull, os.O_RDONLY)
        if "module" in message and self.forks is None and self.preload is not None:  # it was killed
            self.start_forks()
        if "module" in message and self.forks is not None and not self.forks.ready:
            self.forks.waiting.append((message, stdin))
            return
        self.start_now(message, stdin)

    def start_now(self, message: dict[str, Any], stdin: int) -> None:
        """Start a node and answer when its program runs, or why it could not be."""
        told = self.fork_off(message, stdin) if "module" in message else None
        if told is None:
            told = self.spawn(message, stdin)
        os.close(stdin)
        if "pid" in told:
            self.nodes[told["pid"]] = message["node"]
            self.send({"id": message["id"], "pid": told["pid"], "t": time.monotonic_ns()})
        else:
            self.send({"id": message["id"], **told})

    def spawn(self, message: dict[str, Any], stdin: int) -> dict[str, Any]:
        """Fork and exec. Return ``pid`` when the program has been exec'd, else ``error`` and ``stage``."""
        read, write = os.pipe()
        try:
            pid = os.fork()
        except OSError as error:
            for fd in (read, write):
                os.close(fd)
            return {"error": error.strerror, "stage": "fork"}
        if pid == 0:
            self.become(message, stdin, write)
        os.close(write)
        failure = read_all(read)
        if failure:
            os.waitpid(pid, 0)
            self.tell_second(b"-", pid)
            told: dict[str, Any] = json.loads(failure)
            return told
        return {"pid": pid}

    def become(self, message: dict[str, Any], stdin: int, report: int) -> NoReturn:
        """In the forked child: turn into the node, or report why not."""
        stage = "fork"
        try:
            prctl(self.libc, PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != self.pid:  # the guardian died before the line above
                os._exit(127)
            os.setsid()
            self.tell_second(b"+", os.getpid())
            signal.set_wakeup_fd(-1)
            for number in (*DEFAULTED, signal.SIGQUIT):
                signal.signal(number, signal.SIG_DFL)
            stage = "log"
            log = os.open(message["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
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

    # --- the fork server ---------------------------------------------------------------------------------------

    def start_forks(self) -> None:
        """Start the fork server that was asked for. Where it dies before it is ready, there is none."""
        if self.forks is not None or self.preload is None:
            return
        ours, theirs = socket.socketpair()
        with theirs:
            told = self.spawn(self.preload, theirs.fileno())
        if "pid" not in told:
            ours.close()
            self.preload = None
            return
        self.forks = ForkServer(told["pid"], ours)
        self.selector.register(ours, selectors.EVENT_READ, self.read_forks)

    def read_forks(self) -> None:
        """Fork what has waited for the server to be ready; start it afresh where the server has ended instead."""
        forks = self.forks
        if forks is None:
            return
        try:
            forks.ready = bool(forks.socket.recv(CHUNK))
        except OSError:
            forks.ready = False
        if forks.ready:
            self.start_waiting(forks)
        else:
            self.drop_forks()

    def drop_forks(self) -> None:
        """Do without the fork server: end it, and start afresh what waits for it. One that was ready once is started again."""
        forks, self.forks = self.forks, None
        if forks is None:
            return
        kill_group(forks.pid)  # it is reaped with the others
        self.selector.unregister(forks.socket)
        forks.socket.close()
        self.tell_second(b"-", forks.pid)
        if forks.waiting and not self.leaving:
            self.preload = None
            self.start_waiting(forks)

    def start_waiting(self, forks: ForkServer) -> None:
        """Start everything that has waited, in its order."""
        waiting, forks.waiting = forks.waiting, []
        for message, stdin in waiting:
            self.start_now(message, stdin)

    def fork_off(self, message: dict[str, Any], stdin: int) -> dict[str, Any] | None:
        """Let the fork server fork a node. Return what that says, ``None`` where there is no such program now."""
        if self.forks is None or not self.forks.ready:
            return None
        read, write = os.pipe()
        request = {name: message[name] for name in ("module", "words", "env", "cwd", "log")}
        with contextlib.suppress(OSError):  # it has just died: the pipe will tell nothing
            socket.send_fds(self.forks.socket, [json.dumps(request).encode() + b"\n"], [stdin, write])
        os.close(write)
        if not select.select([read], [], [], PRELOADED_WITHIN_S)[0]:
            self.drop_forks()  # then the pipe ends: by its death, or by a program's, or as one that runs
        said = read_all(read)
        told: dict[str, Any] | None = json.loads(said) if said else None
        if told is not None and "pid" in told:
            self.tell_second(b"+", told["pid"])
        return told

    # --- reaping -----------------------------------------------------------------------------------------------

    def read_signals(self) -> None:
        """Reap after SIGCHLD, leave after SIGTERM."""
        try:
            numbers = os.read(self.wakeup, CHUNK)
        except BlockingIOError:
            return
        if signal.SIGTERM in numbers:
            self.leave()
        self.reap()

    def reap(self) -> None:
        """Reap all that have ended. A node's group is killed while its zombie still holds the group's id."""
        while True:
            try:
                seen = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if seen is None:
                return
            pid = seen.si_pid
            now = time.monotonic_ns()
            if pid in self.nodes:
                kill_group(pid)
            os.waitpid(pid, 0)
            if pid == self.second and not self.leaving:
                os.close(self.second_pipe)
                self.start_second()
            elif self.forks is not None and pid == self.forks.pid:
                self.drop_forks()
            elif pid in self.nodes:
                left = seen.si_code == os.CLD_EXITED
                event = {"event": "exited", "node": self.nodes.pop(pid), "pid": pid, "t": now}
                outcome = {"status": seen.si_status if left else None, "signal": None if left else seen.si_status}
                self.ending[pid] = Ending({**event, **outcome})

    def bury(self) -> None:
        """Say ``exited`` for every node of whose group nothing is left."""
        for pid, ending in list(self.ending.items()):
            if not kill_group(pid) or time.monotonic() >= ending.deadline:
                del self.ending[pid]
                self.tell_second(b"-", pid)
                self.send(ending.event)

    # --- the loop ----------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Serve until the harness is gone or asks to close; then end everything."""
        self.send({"event": "ready", "pid": self.pid, "second": self.second})
        while not self.leaving:
            self.turn(POLL_S if self.ending or (self.forks and self.forks.waiting) else None)
        self.selector.unregister(self.harness)
        self.end_everything()
        self.send({"event": "closed"})

    def turn(self, timeout_s: float | None) -> None:
        """Wait for something to happen and handle it."""
        for key, _ in self.selector.select(timeout_s):
            key.data()
        self.bury()
        if self.forks is not None and self.forks.waiting and time.monotonic() >= self.forks.deadline:
            self.drop_forks()

    def end_everything(self) -> None:
        """Kill every descendant until none is left; bounded. The second goes last."""
        deadline = time.monotonic() + CLOSE_WITHIN_S
        while time.monotonic() < deadline:
            for group in (*self.nodes, *self.ending):
                kill_group(group)
            left = [pid for pid in children() if pid != self.second]
            for pid in left:
                kill_one(pid)
            self.reap()
            self.bury()
            if not left and not self.nodes and not self.ending:
                break
            time.sleep(POLL_S)
        os.kill(self.second, signal.SIGKILL)
        os.waitpid(self.second, 0)


def be_second(read: int, write: int, harness: socket.socket) -> NoReturn:
    """In the forked second: remember groups until the guardian's end of the pipe closes, then kill them."""
    try:
        os.setsid()
        os.close(write)
        harness.close()
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, signal.SIG_IGN)
        groups: set[int] = set()
        buffer = b""
        while chunk := os.read(read, CHUNK):
            *lines, buffer = (buffer + chunk).split(b"\n")
            for line in lines:
                (groups.add if line[:1] == b"+" else groups.discard)(int(line[1:]))
        for group in groups:
            kill_group(group)
        remove_temporary()
    finally:
        os._exit(0)


def read_all(fd: int) -> bytes:
    """Read until the end and close."""
    with os.fdopen(fd, "rb") as file:
        return file.read()


def remove_temporary() -> None:
    """Remove the folder for temporary files of the nodes, which have ended."""
    import shutil  # noqa: PLC0415 - it would cost the start-up

    shutil.rmtree(sys.argv[3], ignore_errors=True)


def main() -> None:
    """Serve the harness on the inherited socket."""
    harness = socket.socket(fileno=int(sys.argv[1]))
    harness.set_inheritable(False)
    Guardian(harness, int(sys.argv[2])).run()
    remove_temporary()


if __name__ == "__main__":
    main()
