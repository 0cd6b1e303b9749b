"""Find the processes that belong to a node, and stop or end all of them. Standard library only, for
the guardian.

A program may leave its process group (``set -m``), its session (``setsid``) and its parent (a
daemon forks twice). So a node's members are the process that it was started as, its *leader*, and
every living process that

- is in the leader's process ``group`` or ``session``,
- has the node's ``token`` in its environment, which processes inherit unless they remove it,
- is in the node's ``cgroup``, if it has its own,
- was a member when it was ``seen`` before (with the same process id and start time),
- is a ``descendant`` of a member, or in the ``session`` of a member (that session is the node's
  own: its leader began one).

A process that is older than the leader is not a member.

To stop the members, each one found gets SIGSTOP. When all are stopped, the search is repeated until
it finds no new ones, because a stopped process starts no others. To end them, they are stopped,
killed and awaited, and the search is repeated.
"""

# ruff: noqa: PTH208 - pathlib would double the guardian's start-up

from __future__ import annotations

import contextlib
import os
import select
import signal
import time

TYPE_CHECKING = False  # ``typing`` would cost a tenth of the guardian's start-up
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterable, Mapping

VARIABLE = "LOSTACK_NODE"
"""The environment variable with the token of one life of one node."""
STOPPED = frozenset("TtZX")
"""States of a thread that does not run: stopped, traced, zombie, dead."""
DEAD = frozenset("ZX")
LOOK_S = 0.001
CHUNK = 1 << 16
GONE_POLL_S = 0.005
STOPPED_WITHIN_S = 2.0
"""How many seconds members may take to be stopped before they are killed all the same."""
VFORKED_S = 0.1
"""After so many seconds, a thread that waits in the kernel with a pending stop counts as stopped (a
parent in vfork).
"""
ENOUGH = 2
"""How many searches in a row must find no member."""
UNSURE_S = 1.0
"""For how many seconds an orphan may be inside an exec, during which its environment cannot be
read.
"""
MOST_WORDS = 200
"""How many characters of a command are shown."""


class Process:
    """One line of the kernel's table of processes. ``start`` is in clock ticks since the machine
    was started.
    """

    __slots__ = ("group", "parent", "pid", "session", "start", "state", "threads", "unread")

    def __init__(self, pid: int, stat: bytes) -> None:
        fields = stat[stat.rfind(b")") + 2 :].split()
        self.pid = pid
        self.state = chr(fields[0][0])
        self.parent, self.group, self.session = int(fields[1]), int(fields[2]), int(fields[3])
        self.threads, self.start = int(fields[17]), int(fields[19])
        self.unread = fields[48] == b"0"
        """Whether its environment cannot be read, because it is inside an exec or access is
        refused.
        """

    @property
    def alive(self) -> bool:
        """Whether any of its threads lives; its first thread may have ended before the others."""
        return self.state not in DEAD or self.threads > 1


class Member:
    """A process that belongs to a node, and why: group, session, token, cgroup, seen, descendant,
    orphan; or its leader.
    """

    __slots__ = ("command", "how", "pid", "start")

    def __init__(self, pid: int, start: int, how: str) -> None:
        self.pid = pid
        self.start = start
        self.how = how
        self.command = command_of(pid)

    def told(self) -> tuple[int, str, str]:
        """Return its fields for a message to the harness."""
        return self.pid, self.how, self.command


class Members:
    """The members of one life of a node."""

    def __init__(
        self, leader: int, token: str = "", *, since: int | None = None, cgroup: str = ""
    ) -> None:
        """Begin with the leader. ``since``: its start time; if it is not given, the leader must be
        alive.
        """
        self.leader = leader
        self.name = token
        self.token = f"\0{VARIABLE}={token}\0".encode() if token else b""
        self.cgroup = cgroup
        self.seen: dict[int, Member] = {}
        """All processes that were ever members."""
        if since is None:
            process = stat_of(leader)
            since = process.start if process is not None else 0
        self.since = since

    def find(self, table: Mapping[int, Process], orphans: Collection[int] = ()) -> list[Member]:
        """Return the living members, parents before their children. ``orphans``: other processes
        known to be members.
        """
        inside = set(cgroup_members(self.cgroup)) if self.cgroup else set()
        young = [process for process in table.values() if process.start >= self.since]
        heir = table.get(self.leader)
        if (
            heir is not None and heir.start != self.since
        ):  # somebody else has its id by now: there is no such group any more
            young = [
                process
                for process in young
                if self.leader not in (process.pid, process.group, process.session)
            ]
        ours = {process.pid: how for process in young if (how := self._why(process, inside))}
        _close(ours, young, table)
        for process in young:
            if process.pid not in ours and self.token and self.token in environment_of(process.pid):
                ours[process.pid] = "token"
        ours |= {pid: "orphan" for pid in orphans if pid in table and pid not in ours}
        _close(ours, young, table)
        living = [pid for pid in ours if table[pid].alive]
        return [
            self._note(table[pid], ours[pid])
            for pid in sorted(living, key=lambda pid: _depth(pid, table, ours))
        ]

    def _why(self, process: Process, inside: Collection[int]) -> str:
        """Return why a process is a member, as far as the process table shows; empty if it does not
        show that.
        """
        if self.leader in (process.pid, process.group, process.session):
            return (
                "leader"
                if process.pid == self.leader
                else "group"
                if process.group == self.leader
                else "session"
            )
        before = self.seen.get(process.pid)
        if before is not None and before.start == process.start:
            return before.how
        return "cgroup" if process.pid in inside else ""

    def _note(self, process: Process, how: str) -> Member:
        before = self.seen.get(process.pid)
        if before is None or before.start != process.start:
            self.seen[process.pid] = before = Member(process.pid, process.start, how)
        return before


def _close(ours: dict[int, str], young: Iterable[Process], table: Mapping[int, Process]) -> None:
    """Add the descendants of members, and the processes in their sessions, which members began."""
    grown = -1
    while grown != len(ours):
        grown = len(ours)
        sessions = {table[pid].session for pid in ours} - {os.getsid(0), 0}
        for process in young:
            if process.pid not in ours and process.parent in ours:
                ours[process.pid] = "descendant"
            elif process.pid not in ours and process.session in sessions:
                ours[process.pid] = "session"


def _depth(pid: int, table: Mapping[int, Process], among: Collection[int]) -> int:
    """Return how many consecutive ancestors of a process are among these."""
    depth = 0
    while (pid := table[pid].parent) in among:
        depth += 1
    return depth


# --- stopping and ending --------------------------------------------------------------------------


def hold(find: Callable[[], list[Member]], within_s: float) -> Generator[float, None, list[Member]]:
    """Stop all members, and search again until none is new and all are stopped. Return them.

    Yields how many seconds to wait before it continues. Parents are stopped before children in
    another group, or they would see the children stop; and tracers last, because a stop reaches all
    threads of a traced process only by its tracer.

    Raises:
        TimeoutError: processes went on moving for ``within_s`` seconds; the message names them.
    """
    deadline = time.monotonic() + within_s
    since: dict[tuple[int, int], float] = {}

    def still(one: Member) -> bool:
        told = since.get((one.pid, one.start))
        return told is not None and stands(one.pid, waiting=time.monotonic() >= told + VFORKED_S)

    while True:
        found = _tracers_last(find())
        moving = [one for one in found if not still(one)]
        if not moving:
            return found
        for one in moving:
            send(one, signal.SIGSTOP)
            since.setdefault((one.pid, one.start), time.monotonic())
            while not still(one):
                if time.monotonic() >= deadline:
                    raise TimeoutError(*(each for each in found if not still(each)))
                yield LOOK_S


def _tracers_last(found: Collection[Member]) -> list[Member]:
    tracers = {tracer_of(one.pid) for one in found}
    return sorted(found, key=lambda one: one.pid in tracers)


def release(members: Iterable[Member]) -> None:
    """Resume members, children before their parents."""
    for one in reversed(list(members)):
        send(one, signal.SIGCONT)


def end(
    find: Callable[[], list[Member]],
    within_s: float,
    killed: Callable[[list[Member]], object] = lambda _: None,
) -> Generator[float, None, list[Member]]:
    """Stop and kill all members until none is found. Return those that are left after ``within_s``.

    One search is not enough: it can miss a process that forks and ends meanwhile, and the child.
    Yields how many seconds to wait before it continues. ``killed`` is called with the members that
    have just been sent SIGKILL.
    """
    deadline = time.monotonic() + within_s
    empty = 0
    while empty < ENOUGH:
        try:
            found = yield from hold(find, STOPPED_WITHIN_S)
        except TimeoutError:  # not all have stopped in time: kill what is found
            found = find()
        empty = 0 if found else empty + 1
        if found and time.monotonic() >= deadline:
            return found
        # a tracer that dies lets go of whom it holds
        watched = [(one, send(one, signal.SIGKILL, watch=True)) for one in _tracers_last(found)]
        killed(found)
        try:
            while (
                not all(gone(one, descriptor) for one, descriptor in watched)
                and time.monotonic() < deadline
            ):
                yield GONE_POLL_S
        finally:
            for _, descriptor in watched:
                if descriptor is not None:
                    os.close(descriptor)
    return []


def end_all(
    lives: Collection[Members], within_s: float, kill_cgroup: Callable[[str], object]
) -> Generator[float, None, list[Member]]:
    """Stop and kill the members of lives whose guardian is gone; see :func:`end`."""
    for life in lives:
        if life.cgroup:
            kill_cgroup(life.cgroup)

    def found() -> list[Member]:
        table = look()
        return [one for life in lives for one in life.find(table)]

    return (yield from end(found, within_s))


def kill_group(group: int, number: int = signal.SIGKILL) -> bool:
    """Signal a process group. Return false if nothing of it is left."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:  # a member became another user's; it exists
        return True
    return True


def send(one: Member, number: int, *, watch: bool = False) -> int | None:
    """Signal a process, but never a later one with the same id. ``watch``: return a descriptor of
    it, if possible.
    """
    descriptor: int | None = None
    try:
        descriptor = os.pidfd_open(one.pid)
    except ProcessLookupError:
        return None
    except OSError:  # an old kernel, or too many open files
        pass
    kept = False
    try:
        if there(one):
            with contextlib.suppress(
                ProcessLookupError, PermissionError
            ):  # it became another user's: the next search finds it
                if descriptor is None:
                    os.kill(one.pid, number)
                else:
                    signal.pidfd_send_signal(descriptor, number)
            kept = watch
    finally:
        if descriptor is not None and not kept:
            os.close(descriptor)
    return descriptor if kept else None


def gone(one: Member, descriptor: int | None) -> bool:
    """Return whether a process has ended with all its threads."""
    if descriptor is None:
        return not there(one)
    ended = select.poll()
    ended.register(descriptor, select.POLLIN)
    return bool(ended.poll(0))


def there(one: Member) -> bool:
    """Return whether a process is alive and still the same."""
    process = stat_of(one.pid)
    return process is not None and process.start == one.start and process.alive


# --- what the kernel says -------------------------------------------------------------------------


def look() -> dict[int, Process]:
    """Return the table of processes."""
    found = (stat_of(int(entry)) for entry in os.listdir("/proc") if entry.isdigit())
    return {process.pid: process for process in found if process is not None}


def stat_of(pid: int) -> Process | None:
    """Return one process of the table; ``None`` if it is gone."""
    data = read(f"/proc/{pid}/stat")
    return Process(pid, data) if data else None


def environment_of(pid: int) -> bytes:
    """Return the environment that a process was started with, each variable between NUL bytes;
    empty if access is refused.
    """
    return b"\0" + read(f"/proc/{pid}/environ") + b"\0"


def command_of(pid: int) -> str:
    """Return a process's command line, or at least its name; empty if it is gone."""
    words = read(f"/proc/{pid}/cmdline").replace(b"\0", b" ") or read(f"/proc/{pid}/comm")
    return words.decode("utf-8", "replace").strip()[:MOST_WORDS]


def thread_states(pid: int) -> list[str]:
    """Return the state letter of every thread of a process; empty if it is gone."""
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    stats = (read(f"/proc/{pid}/task/{task}/stat") for task in tasks)
    return [chr(stat[stat.rfind(b")") + 2]) for stat in stats if stat]


def stands(pid: int, *, waiting: bool = False) -> bool:
    """Return whether every thread of a process is stopped or gone. ``waiting``: a thread with a
    pending stop counts as well.
    """
    states = thread_states(pid)
    if all(state in STOPPED for state in states):
        return True
    return (
        waiting
        and all(state in STOPPED or state == "D" for state in states)
        and ("T" in states or _stop_pending(pid))
    )


def _stop_pending(pid: int) -> bool:
    masks = (
        line.split()[1]
        for line in read(f"/proc/{pid}/status").splitlines()
        if line.startswith((b"SigPnd:", b"ShdPnd:"))
    )
    return any(int(mask, 16) >> (signal.SIGSTOP - 1) & 1 for mask in masks)


def tracer_of(pid: int) -> int:
    """Return the process id of a process's tracer; 0 if it is not traced."""
    lines = read(f"/proc/{pid}/status").splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith(b"TracerPid:")), 0)


def cgroup_members(cgroup: str) -> list[int]:
    """Return the processes of a cgroup and of those below it."""
    return [
        int(pid)
        for folder, _, _ in os.walk(cgroup)
        for pid in read(f"{folder}/cgroup.procs").split()
    ]


def read(path: str) -> bytes:
    """Return the content of a kernel file; empty if it is gone or cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY)  # two thirds of what a file object costs
    except OSError:
        return b""
    parts = []
    try:
        while part := os.read(fd, CHUNK):
            parts.append(part)
    except OSError:
        return b""
    finally:
        os.close(fd)
    return b"".join(parts)
