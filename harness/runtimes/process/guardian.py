"""The guardian: the parent of every node, and of each orphaned process below one. Standard library
only, one thread.

    python -I -S guardian.py <fd of a socket to the harness> <pid of the harness> <folder for
        temporary files>

The socket carries JSON lines. The harness asks ``{"id", "do": "start", "node", "argv", "env",
"cwd", "log", "stdin"}`` (if ``stdin`` is true, a descriptor comes with it; ``foreign``: the program
is the user's own, and may detach what it starts; ``cgroup``: it gets its own cgroup, if possible),
``{"id", "do": "signal", "pid", "signal"}`` for a node's group, ``{"id", "do": "kill" | "pause" |
"resume" | "members", "pid"}`` for all of a node's members (``members.py``), and ``{"do":
"close"}``. ``{"id", "do": "preload", "argv", "env", "cwd", "log"}`` starts a fork server
(``fork_server.py``). A ``start`` that also has ``"module"`` and ``"words"`` is forked by it as soon
as it is ready, or started by its ``argv`` if there is no server. The guardian answers ``{"id",
"pid"}`` (and ``members``) or ``{"id", "error", "stage"}``, and says by itself ``{"event":
"ready"}``, ``{"event": "exited", "node", "pid", "status", "signal", "members", "left", "t"}`` and
``{"event": "closed"}``; ``t`` is monotonic ns. ``members`` died with the node; ``left`` could not
be killed, or belong to an unknown node.

What happens to the nodes when something dies:

- A node ends, or must be killed: all its members are stopped, killed and awaited, and ``exited`` is
  sent when nothing of it is left. Its own process stays a zombie until then, so that no other
  process can get the id of its group.
- The harness dies in any way: the socket ends (and its pidfd becomes readable, in case a forked
  copy of the harness keeps the socket open). The guardian kills all its descendants, stopped or
  not, removes the folder for temporary files, and ends. No process can escape: an orphan becomes
  the guardian's child (subreaper).
- The guardian dies: the kernel kills each node (PDEATHSIG), and the *second*, a fork of the
  guardian that is told of each node through a pipe and does nothing else, kills the members of them
  all and removes the folder for temporary files.
- Harness and guardian die at the same instant: likewise.
- Guardian and second die at the same instant: the kernel kills each node, and the harness kills
  their members, as far as it finds them: an orphan that has left its group, its session and the
  node's token is found by its cgroup alone.
- All three die at the same instant: the kernel kills each node. What a node has detached lives
  on; if it is in a cgroup, the next guardian kills it.

A child of the guardian that belongs to no node, because it has even removed the node's token, is a
*stray*. If only one foreign node can have started it, it counts as that node's and ends with it;
otherwise it ends with the run.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import sys
import time

TYPE_CHECKING = False  # ``typing`` would cost a tenth of the start-up
if TYPE_CHECKING:
    from harness.runtimes.process import cgroups, members
    from harness.runtimes.process.forks import Forks
    from harness.runtimes.process.lives import Life, ProcessLives
    from harness.runtimes.process.members import Members, kill_group
    from harness.runtimes.process.messages import Answer, Request
    from harness.runtimes.process.second import Second, remove_temporary
    from harness.runtimes.process.spawning import PR_SET_CHILD_SUBREAPER, prctl, spawn
else:
    sys.path.insert(0, os.path.dirname(__file__))  # noqa: PTH120 - pathlib would double the start-up
    import cgroups
    import members
    from forks import Forks
    from lives import Life, ProcessLives
    from members import Members, kill_group
    from second import Second, remove_temporary
    from spawning import PR_SET_CHILD_SUBREAPER, prctl, spawn

POLL_S = 0.005
CLOSE_WITHIN_S = 15.0
MAX_FDS = 16
CHUNK = 1 << 16


class Guardian:
    """Spawns, signals and reaps nodes until the harness is gone or asks to close."""

    def __init__(self, harness: socket.socket, harness_pid: int) -> None:
        self.harness = harness
        self.pid = os.getpid()
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        self.cgroups: str | None = None
        """The parent of the nodes' cgroups; empty if there can be none, ``None`` if that has not
        been tried.
        """
        self.number = 0
        self.fds: list[int] = []
        self.buffer = b""
        self.leaving = False
        self.selector = selectors.DefaultSelector()
        self.selector.register(harness, selectors.EVENT_READ, self.read_harness)
        self.watch_signals()
        self.second = Second(harness)
        self.forks = Forks(self.selector, self.second, self.start_now)
        self.lives = ProcessLives(self.second, self.forks, self.send)
        self.watch_pid(harness_pid)

    def watch_signals(self) -> None:
        """Turn SIGCHLD and SIGTERM into readable bytes, and ignore the terminal's signals."""
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
        """End when the harness's process ends, even if a copy of it holds the socket."""
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
        self.leaving = self.forks.leaving = True

    # --- talking to the harness -------------------------------------------------------------------

    def send(self, message: Answer) -> None:
        """Send one line to the harness. If it cannot be reached, it is taken for dead."""
        try:
            self.harness.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            self.leave()

    def read_harness(self) -> None:
        """Read the harness's requests and carry them out."""
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

    def do(self, message: Request) -> None:
        """Carry out one request."""
        if message["do"] == "start":
            self.start(message)
        elif message["do"] == "preload":
            self.forks.expect(message)
            self.send({"id": message["id"]})
        elif message["do"] == "close":
            self.leave()
        elif (life := self.lives.all.get(message["pid"])) is None or (
            life.ending and message["do"] != "members"
        ):
            self.send({"id": message["id"], "error": "it has ended", "stage": "signal"})
        else:
            self.treat(life, message)

    def treat(self, life: Life, message: Request) -> None:
        """Carry out a request for a node that has not ended."""
        match message["do"]:
            case "signal":
                kill_group(life.pid, message["signal"])
                self.send({"id": message["id"], "pid": life.pid})
            case "members":
                found = self.lives.members_of(life)
                self.send({"id": message["id"], "members": [one.told() for one in found]})
            case "kill":
                life.asked = True
                self.lives.begin(life, self.lives.end(life, message["id"]))
            case "pause":
                self.lives.begin(life, self.lives.pause(life, message["id"]))
            case "resume":
                self.lives.begin(life, self.lives.resume(life, message["id"]))

    # --- spawning ---------------------------------------------------------------------------------

    def start(self, message: Request) -> None:
        """Start a node: by the fork server as soon as that is ready, or directly."""
        stdin = self.fds.pop(0) if message["stdin"] else os.open(os.devnull, os.O_RDONLY)
        if "module" not in message or not self.forks.keep(message, stdin):
            self.start_now(message, stdin)

    def start_now(self, message: Request, stdin: int) -> None:
        """Start a node, and answer when its program runs or could not be started."""
        told = self.forks.fork(message, stdin) if "module" in message else None
        cgroup = ""
        if told is None:
            cgroup = self.make_cgroup() if message["cgroup"] else ""
            told = spawn(message, stdin, self.second, cgroup)
        os.close(stdin)
        if "pid" in told:
            node = Members(told["pid"], message["env"].get(members.VARIABLE, ""), cgroup=cgroup)
            self.lives.all[node.leader] = Life(message["node"], node, foreign=message["foreign"])
            self.second.tell(b"+", node)
            told = {"pid": told["pid"], "since": node.since, "cgroup": node.cgroup}
            self.send({"id": message["id"], **told})
        else:
            self.send({"id": message["id"], **told})

    def make_cgroup(self) -> str:
        """Make a node's cgroup; return its path, or an empty text if it cannot be made."""
        if self.cgroups is None:
            self.cgroups = cgroups.make_parent()
        self.number += 1
        return cgroups.make(self.cgroups, str(self.number)) if self.cgroups else ""

    # --- reaping ----------------------------------------------------------------------------------

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
        """Reap all ended children except nodes. These stay zombies, to keep their group's id, until
        all members are killed. The kernel shows such a one again and again: behind it those that
        are known are asked for, and others are reaped when it is gone.
        """
        while (seen := ended(os.P_ALL, 0)) is not None:
            self.bury(seen.si_pid)
            if seen.si_pid in self.lives.all:
                known = (*self.lives.all, self.second.pid, self.forks.pid)
                for pid in filter(None, known):
                    if pid != seen.si_pid and ended(os.P_PID, pid) is not None:
                        self.bury(pid)
                return

    def bury(self, pid: int) -> None:
        """Handle the end of a child."""
        life = self.lives.all.get(pid)
        if life is not None:
            if life.dead_at is None:
                life.dead_at = time.monotonic_ns()
                if not life.asked:
                    self.lives.begin(life, self.lives.end(life))
            return
        os.waitpid(pid, 0)
        if pid == self.second.pid and not self.leaving:
            groups = [life.members for life in self.lives.all.values()]
            self.second.replace([*groups, Members(self.forks.pid)] if self.forks.pid else groups)
        elif pid == self.forks.pid:
            self.forks.drop()

    # --- the loop ---------------------------------------------------------------------------------

    def run(self) -> None:
        """Serve until the harness is gone or asks to close; then end everything."""
        self.send({"event": "ready", "pid": self.pid, "second": self.second.pid})
        while not self.leaving:
            self.turn()
        self.selector.unregister(self.harness)
        self.end_everything()
        self.send({"event": "closed"})

    def turn(self) -> None:
        """Do the next step of every job, wait for an event, and handle it."""
        lived = len(self.lives.all)
        steps = self.lives.steps()
        if len(self.lives.all) < lived:
            self.reap()
        if self.forks.awaited:
            steps.append(POLL_S)
        for key, _ in self.selector.select(min(steps, default=None)):
            key.data()
        self.forks.drop_late()

    def end_everything(self) -> None:
        """Kill every descendant until none is left; bounded. The second goes last."""
        deadline = time.monotonic() + CLOSE_WITHIN_S
        for life in list(self.lives.all.values()):
            if not life.ending:
                life.asked = True
                self.lives.begin(life, self.lives.end(life))
        while self.lives.all and time.monotonic() < deadline:
            steps = self.lives.steps()
            self.reap()
            time.sleep(min(steps, default=0))
        everything = members.end(self.descendants, max(deadline - time.monotonic(), POLL_S))
        for wait_s in everything:
            self.reap()
            time.sleep(wait_s)
        self.reap()
        if self.cgroups:
            cgroups.remove(self.cgroups)
        self.second.end()

    def descendants(self) -> list[members.Member]:
        """Return all living descendants of this process, except the second."""
        table = members.look()
        below = Members(self.pid).find(table)
        return [one for one in below if one.pid not in (self.pid, self.second.pid)]


def ended(kind: int, pid: int) -> os.waitid_result | None:
    """Return the end of a child, which stays a zombie; ``None`` if none has ended."""
    try:
        return os.waitid(kind, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None


def main() -> None:
    """Serve the harness on the inherited socket."""
    harness = socket.socket(fileno=int(sys.argv[1]))
    harness.set_inheritable(False)
    Guardian(harness, int(sys.argv[2])).run()
    remove_temporary()


if __name__ == "__main__":
    main()
