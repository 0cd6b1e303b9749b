"""The guardian: the parent of every node, and of whatever loses its parent below one. Standard library only, one thread.

    python -I -S guardian.py <fd of a socket to the harness> <pid of the harness> <folder for temporary files>

The socket carries JSON lines. The harness asks ``{"id", "do": "start", "node", "argv", "env", "cwd", "log", "stdin"}``
(where ``stdin`` is true a descriptor comes along; ``foreign``: the program is somebody else's, and may hide what it starts;
``cgroup``: it is to have a cgroup of its own, if it can),
``{"id", "do": "signal", "pid", "signal"}`` for a node's group, ``{"id", "do": "kill" | "pause" | "resume" | "members", "pid"}``
for all of a node's members (``members.py``), and ``{"do": "close"}``.
``{"id", "do": "preload", "argv", "env", "cwd", "log"}`` starts a fork server (``fork_server.py``). A ``start`` that has
``"module"`` and ``"words"`` besides is forked from it as soon as it is ready, or started by its ``argv`` where there is none.
The guardian answers ``{"id", "pid"}`` (and ``members``) or ``{"id", "error", "stage"}``, and says by itself
``{"event": "ready"}``, ``{"event": "exited", "node", "pid", "status", "signal", "members", "left", "t"}`` and ``{"event":
"closed"}``; ``t`` is monotonic ns. ``members`` were killed with the node; ``left`` could not be, or are nobody knows whose.

Who dies, and what becomes of the nodes:

- A node ends, or is to be killed: all its members are stopped, killed and awaited, and ``exited`` is sent when nothing of it
  is left. Its own process stays a zombie until then, so that nobody else can get the id of its group.
- The harness dies, however: the socket ends (and its pidfd turns readable, should a forked copy of the harness keep
  the socket open). The guardian kills everything that descends from it, stopped or not, removes the folder for temporary
  files, and leaves. A process that loses its parent becomes the guardian's child (subreaper): there is no way out of that.
- The guardian dies: the kernel kills each node (PDEATHSIG), and the *second*, a fork of the guardian that is told of each
  node through a pipe and does nothing else, kills the members of them all and removes the folder for temporary files.
- Harness and guardian die at the same instant: likewise.

A child of the guardian's that is no node's member, having thrown away the node's token, too, is a *stray*. It is taken for a
foreign node's where there is only one that it can come from, and ends with it, else with the run.
"""

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
    from collections.abc import Generator, Mapping
    from typing import Any, NoReturn

    from harness.runtimes.process import cgroups, members
    from harness.runtimes.process.members import Members, Process
else:
    sys.path.insert(0, os.path.dirname(__file__))  # noqa: PTH120 - pathlib would double the start-up
    import cgroups
    import members
    from members import Members

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
POLL_S = 0.005
GONE_WITHIN_S = 15.0
"""How long ``exited`` is held back for members which the kernel has not buried yet."""
STILL_WITHIN_S = 15.0
"""How long all members may take to be paused, or to go on."""
CLOSE_WITHIN_S = 15.0
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


class Life:
    """One life of a node, from its start to ``exited``."""

    __slots__ = ("asked", "dead_at", "foreign", "job", "members", "name", "pid")

    def __init__(self, name: str, members: Members, *, foreign: bool) -> None:
        self.name = name
        self.members = members
        self.pid = members.leader
        self.foreign = foreign
        self.job: Generator[float, None, object] | None = None
        """What is being done to it, a step each turn of the loop."""
        self.asked = False
        """Whether it is to be killed."""
        self.dead_at: int | None = None
        """When its own process was seen to have ended (monotonic ns)."""

    @property
    def ending(self) -> bool:
        """Whether its end has begun, by itself or because that was asked for."""
        return self.asked or self.dead_at is not None


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
        self.lives: dict[int, Life] = {}
        self.forks: ForkServer | None = None
        self.preload: dict[str, Any] | None = None
        self.cgroups: str | None = None
        """What holds the cgroups of nodes; empty where there can be none, None where nobody has asked yet."""
        self.number = 0
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
        for life in self.lives.values():
            self.tell_second(b"+", life.members)
        if self.forks:
            self.tell_second(b"+", Members(self.forks.pid))

    def tell_second(self, sign: bytes, node: Members) -> None:
        """Add a node to what the second would kill, or take it away. A dead second is replaced when it is reaped."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self.second_pipe, sign + f"{node.leader} {node.since} {node.name} {node.cgroup}\n".encode())

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
        elif message["do"] == "close":
            self.leave()
        elif (life := self.lives.get(message["pid"])) is None or (life.ending and message["do"] != "members"):
            self.send({"id": message["id"], "error": "it has ended", "stage": "signal"})
        else:
            self.treat(life, message)

    def treat(self, life: Life, message: dict[str, Any]) -> None:
        """Do what is asked to a node that has not ended."""
        match message["do"]:
            case "signal":
                kill_group(life.pid, message["signal"])
                self.send({"id": message["id"], "pid": life.pid})
            case "members":
                found = self.members_of(life)
                self.send({"id": message["id"], "members": [one.told() for one in found]})
            case "kill":
                life.asked = True
                self.begin(life, self.end(life, message["id"]))
            case "pause":
                self.begin(life, self.pause(life, message["id"]))
            case "resume":
                self.begin(life, self.resume(life, message["id"]))

    # --- what is done to all members, a step at a time -----------------------------------------------------------

    def begin(self, life: Life, job: Generator[float, None, object]) -> None:
        """Begin to do something to a node, in the place of what is being done to it."""
        if life.job is not None:
            life.job.close()
        life.job = job
        self.step(life)

    def step(self, life: Life) -> float | None:
        """Do the next step of what is being done to a node; return how long to wait for the one after, if there is one."""
        if life.job is None:
            return None
        try:
            return next(life.job)
        except StopIteration:
            life.job = None
            return None

    def pause(self, life: Life, asked: int) -> Generator[float, None, None]:
        """Stop all members, and answer."""
        answer: dict[str, Any] = {"error": "it has ended", "stage": "signal"}
        try:
            found = yield from members.hold(lambda: self.members_of(life), STILL_WITHIN_S)
            answer = {"pid": life.pid, "members": [one.told() for one in found]}
        except TimeoutError as error:
            answer = {"error": f"{len(error.args)} of its processes did not stand still", "stage": "still"}
        finally:
            self.send({"id": asked, **answer})

    def resume(self, life: Life, asked: int) -> Generator[float, None, None]:
        """Let all members go on, and answer when none is stopped."""
        answer: dict[str, Any] = {"error": "it has ended", "stage": "signal"}
        deadline = time.monotonic() + STILL_WITHIN_S
        try:
            found = self.members_of(life)
            members.release(found)
            # who ends of it has gone on: then this is the answer
            answer = {"pid": life.pid, "members": [one.told() for one in found]}
            while (still := [one for one in found if "T" in members.thread_states(one.pid)]) and time.monotonic() < deadline:
                yield members.LOOK_S
            if still:
                answer = {"error": f"{len(still)} of its processes did not go on", "stage": "still"}
        finally:
            self.send({"id": asked, **answer})

    def end(self, life: Life, asked: int | None = None) -> Generator[float, None, None]:
        """Kill all members, wait until nothing is left, reap the node's own process, and say ``exited``."""
        killed: dict[int, members.Member] = {}

        def note(found: list[members.Member]) -> None:
            nonlocal asked
            kill_group(life.pid)
            if life.members.cgroup:
                cgroups.kill(life.members.cgroup)
            killed.update((one.pid, one) for one in found if one.pid != life.pid)
            if asked is not None:
                self.send({"id": asked, "pid": life.pid})
                asked = None

        sure_by = time.monotonic() + members.UNSURE_S
        while life.dead_at is not None and self.unsure(life) and time.monotonic() < sure_by:
            yield members.LOOK_S
        left = yield from members.end(lambda: self.members_of(life), GONE_WITHIN_S, note)
        note([])
        while (seen := os.waitid(os.P_PID, life.pid, os.WEXITED | os.WNOHANG)) is None:
            yield POLL_S  # nothing else ends: it sits in the kernel
        del self.lives[life.pid]
        self.tell_second(b"-", life.members)
        if life.members.cgroup:
            cgroups.remove(life.members.cgroup)
        if life.foreign and life.asked:
            strays = self.strays(members.look())
            left += [members.Member(one.pid, one.start, "stray") for one in strays if one.start >= life.members.since]
        by_itself = seen.si_code == os.CLD_EXITED
        self.send({
            "event": "exited", "node": life.name, "pid": life.pid, "t": life.dead_at or time.monotonic_ns(),
            "status": seen.si_status if by_itself else None, "signal": None if by_itself else seen.si_status,
            "members": [one.told() for one in killed.values()], "left": [one.told() for one in left if one.pid != life.pid],
        })  # fmt: skip

    def members_of(self, life: Life) -> list[members.Member]:
        """Look who belongs to a node."""
        table = members.look()
        return life.members.find(table, self.strays_of(life, table) if life.foreign else ())

    def strays(self, table: Mapping[int, Process]) -> list[Process]:
        """Return our children who are no node's members."""
        known = {self.second, self.forks.pid if self.forks else 0, *self.lives}
        orphans = [each for each in table.values() if each.parent == self.pid and each.pid not in known and each.alive]
        if not orphans:
            return []
        claimed = {one.pid for life in self.lives.values() for one in life.members.find(table)}
        return [each for each in orphans if each.pid not in claimed]

    def strays_of(self, life: Life, table: Mapping[int, Process]) -> set[int]:
        """Return those who can come from this node only: no other foreign one was there when they were started."""
        others = [each.members.since for each in self.lives.values() if each.foreign and each is not life]
        return {each.pid for each in self.strays(table) if all(since > each.start for since in others)}

    def unsure(self, life: Life) -> bool:
        """Whether there is an orphan that may be a member, and nobody can say before it has its environment."""
        return any(each.unread and each.start >= life.members.since for each in self.strays(members.look()))

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
            message["cgroup"] = self.make_cgroup() if message["cgroup"] else ""
            told = self.spawn(message, stdin)
        os.close(stdin)
        if "pid" in told:
            node = Members(told["pid"], message["env"].get(members.VARIABLE, ""), cgroup=message["cgroup"] or "")
            self.lives[node.leader] = Life(message["node"], node, foreign=message["foreign"])
            self.tell_second(b"+", node)
            self.send({"id": message["id"], "pid": told["pid"], "since": node.since})
        else:
            self.send({"id": message["id"], **told})

    def make_cgroup(self) -> str:
        """Make a cgroup for a node; return where it is, or nothing where there can be none."""
        if self.cgroups is None:
            self.cgroups = cgroups.make_parent()
        self.number += 1
        return cgroups.make(self.cgroups, str(self.number)) if self.cgroups else ""

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
            self.tell_second(b"-", Members(pid))
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
            cgroup = message.get("cgroup") or ""
            if cgroup:
                cgroups.enter(cgroup)
            self.tell_second(b"+", Members(os.getpid(), message["env"].get(members.VARIABLE, ""), cgroup=cgroup))
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
        self.tell_second(b"-", Members(forks.pid))
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
        """Reap all that have ended, but for nodes: they stay zombies, which hold the id of their group, until all is killed."""
        held = False
        while not held:
            try:
                seen = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if seen is None:
                return
            held = seen.si_pid in self.lives
            self.bury(seen.si_pid)
        for process in members.look().values():  # the kernel would show the one that is held again and again
            if process.parent == self.pid and not process.alive:
                self.bury(process.pid)

    def bury(self, pid: int) -> None:
        """Do what follows from the end of a child."""
        life = self.lives.get(pid)
        if life is not None:
            if life.dead_at is None:
                life.dead_at = time.monotonic_ns()
                if not life.asked:
                    self.begin(life, self.end(life))
            return
        os.waitpid(pid, 0)
        if pid == self.second and not self.leaving:
            os.close(self.second_pipe)
            self.start_second()
        elif self.forks is not None and pid == self.forks.pid:
            self.drop_forks()

    # --- the loop ----------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Serve until the harness is gone or asks to close; then end everything."""
        self.send({"event": "ready", "pid": self.pid, "second": self.second})
        while not self.leaving:
            self.turn()
        self.selector.unregister(self.harness)
        self.end_everything()
        self.send({"event": "closed"})

    def turn(self) -> None:
        """Do the next step of all that is being done, wait for something to happen, and handle it."""
        steps = [wait_s for life in list(self.lives.values()) if (wait_s := self.step(life)) is not None]
        if self.forks and self.forks.waiting:
            steps.append(POLL_S)
        for key, _ in self.selector.select(min(steps, default=None)):
            key.data()
        if self.forks is not None and self.forks.waiting and time.monotonic() >= self.forks.deadline:
            self.drop_forks()

    def end_everything(self) -> None:
        """Kill every descendant until none is left; bounded. The second goes last."""
        deadline = time.monotonic() + CLOSE_WITHIN_S
        for life in list(self.lives.values()):
            if not life.ending:
                life.asked = True
                self.begin(life, self.end(life))
        while self.lives and time.monotonic() < deadline:
            steps = [wait_s for life in list(self.lives.values()) if (wait_s := self.step(life)) is not None]
            self.reap()
            time.sleep(min(steps, default=0))
        everything = members.end(self.descendants, max(deadline - time.monotonic(), POLL_S))
        for wait_s in everything:
            self.reap()
            time.sleep(wait_s)
        self.reap()
        if self.cgroups:
            cgroups.remove(self.cgroups)
        with contextlib.suppress(ProcessLookupError, ChildProcessError):  # it has been killed, and reaped
            os.kill(self.second, signal.SIGKILL)
            os.waitpid(self.second, 0)

    def descendants(self) -> list[members.Member]:
        """Everything that lives and descends from this process, but for the second."""
        table = members.look()
        below = Members(self.pid).find(table)
        return [one for one in below if one.pid not in (self.pid, self.second)]


def be_second(read: int, write: int, harness: socket.socket) -> NoReturn:
    """In the forked second: remember nodes until the guardian's end of the pipe closes, then kill their members."""
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
        for group, node in nodes.items():
            kill_group(group)
            if node.cgroup:
                cgroups.kill(node.cgroup)

        def found() -> list[members.Member]:
            table = members.look()
            return [one for node in nodes.values() for one in node.find(table)]

        for wait_s in members.end(found, CLOSE_WITHIN_S):
            time.sleep(wait_s)
        for cgroup in {os.path.dirname(node.cgroup) for node in nodes.values() if node.cgroup}:  # noqa: PTH120 - as above
            cgroups.remove(cgroup)
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
