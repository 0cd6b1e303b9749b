"""Durable writes: hold a stage at its n-th durable write by ``strace``, so that the harness can
kill it as a whole there.

After a crash, a program has recorded what its files hold, and that changes only at calls to the
kernel such as fsync, rename and unlink. So these calls are the exact places to kill a program that
has no failpoints and whose database the wire does not see. ``strace`` holds the thread that makes
the call, right :attr:`Side.BEFORE` or right :attr:`Side.AFTER` the kernel does it, until the
harness has killed all members of the node. The program itself is not changed.

How strace behaves (6.1, on Linux 6.18); :func:`why_no_tracing` tries the needed parts again on each
machine:

- ``inject=CALL:signal=SIGKILL`` kills only one of several processes. So strace does not kill:
  ``delay_enter`` and ``delay_exit`` hold the thread.
- ``when=N`` counts for each thread *and* call: N is the N-th fdatasync of a thread since it is
  traced. A forked process counts from 1 again. :attr:`Write.occurrence` is this number.
- A program is traced after it has started. (A program started by strace could be stopped only at
  these calls, by ``--seccomp-bpf``, instead of at all calls. But then it cannot use ``sudo``, and
  its writes during the start are counted.)
- When a tracer dies, its threads go on, and a call that was held before its execution is executed.
  So the traced processes are killed first (:func:`harness.runtimes.process.members.end`).
- A traced program cannot trace others.
- ``-P FILE`` leaves out calls about other files, and does not count them. So a write into a file is
  distinguished from a write into a socket.

Other threads and processes of the node go on for some milliseconds, until the harness has seen the
hold. Writes without such calls (io_uring, a mapped file without msync) are not seen.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.model.failures import CellFailure
from harness.model.waiting import WaitTimeoutError, wait_until
from harness.model.writes import CALLS, WRITES, FirstWrites, Point, Side
from harness.runtimes.process.members import VARIABLE, Members, end, look, read, tracer_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from harness.runtimes.process.node import ProcessNode

STRACE: Final = "strace"
CONNECTS: Final = ("connect", "accept", "accept4")
"""The calls that show which servers a program speaks to, and where it is one itself."""
LONG: Final = "3600s"
"""The delay for strace, longer than any hold."""
TRIED_S: Final = 10.0
ATTACHED_S: Final = 10.0
_LINE: Final = re.compile(r"(?P<tid>\d+) +(?P<at>\d+\.\d+) (?P<rest>.*)")
_CALL: Final = re.compile(r"(?P<call>\w+)\((?P<words>.*)")
_RESUMED: Final = re.compile(r"<\.\.\. \w+ resumed>(?P<rest>.*)")
_RESULT: Final = re.compile(r".*\) += (?P<result>\?|-?\d+)(?P<more>.*)")
_FILE: Final = re.compile(r'<(?P<open>/(?:[^<>\\]|\\.)*)>|"(?P<named>(?:[^"\\]|\\.)*)"')
_INTO: Final = re.compile(r"\d+</(?!dev/|proc/|sys/)")
"""The descriptor of a file, as a call's first argument."""
_DELAYED: Final = "(DELAYED)"
_TRACED: Final = "t"
"""The state of a thread that its tracer holds."""


@dataclass(frozen=True, slots=True)
class Write:
    """One durable write, as the tracer saw it begin.

    ``number`` counts all writes of the node from 1; ``occurrence`` counts those of the same thread
    and call. ``files``: the files that it names, with whole paths for descriptors. ``at_ns``: wall
    time. ``result``: the kernel's result; ``?`` if the thread ended during the call, ``None`` if
    the call has not ended. ``delayed``: whether the thread was held after it.
    """

    number: int
    tid: int
    call: str
    occurrence: int
    files: tuple[str, ...]
    at_ns: int
    result: str | None
    delayed: bool

    def __str__(self) -> str:
        return f"{self.call} {self.occurrence} ({' to '.join(self.files)})"


@dataclass(frozen=True, slots=True)
class HeldThread:
    """A thread that is held right before a write, and its process."""

    write: Write
    pid: int


@dataclass(frozen=True, slots=True)
class Held:
    """The proof that a point was hit: the write, its process, and how many calls of each kind all
    threads had begun before.
    """

    point: Point
    write: Write
    pid: int
    made: Mapping[str, int]

    def told(self) -> dict[str, object]:
        """Return the fields of its history event (kind ``durable``)."""
        write = self.write
        return {
            "side": str(self.point.side),
            "call": write.call,
            "occurrence": write.occurrence,
            "number": write.number,
            "files": list(write.files),
            "thread": write.tid,
            "pid": self.pid,
            "result": write.result,
            "made": dict(self.made),
            "at": write.at_ns,
        }


class TracingError(CellFailure):
    """A running node could not be traced with all its processes. The message is one line."""


# --- running it -----------------------------------------------------------------------------------


def attached(
    pids: Iterable[int], log: Path, point: Point | FirstWrites | None = None, *, plain: bool = False
) -> tuple[str, ...]:
    """Return a tracer's command that logs the durable writes of running processes and, if given,
    holds one at ``point``, or each thread at its first.

    ``plain``: log every other write into a file, too, and which servers they connect to
    (:mod:`harness.runtimes.process.peers`). Tracing stops the processes shortly at each of their
    calls.
    """
    return (
        STRACE,
        *_options(log, point, plain=plain),
        *(word for pid in pids for word in ("-p", str(pid))),
    )


class Tracing:
    """Traces a running node with all its members. The tracer becomes a member of the node, and dies
    with it.

    If a point is given, one thread is held there; with :class:`~harness.model.writes.FirstWrites`
    each thread is. Raises TracingError if not all members can be traced.
    """

    def __init__(
        self,
        node: ProcessNode,
        log: Path,
        point: Point | FirstWrites | None = None,
        *,
        plain: bool = False,
    ) -> None:
        """Start the tracer. ``plain``: log every other write into a file, too.

        Raises:
            TracingError: the tracer cannot follow all processes of the node.
        """
        self._log = log
        self._point = point
        said = log.with_suffix(".said")
        with said.open("wb") as words:
            self.tracer = subprocess.Popen(
                attached((member.pid for member in node.members()), log, point, plain=plain),
                stdin=subprocess.DEVNULL,
                stdout=words,
                stderr=words,
                start_new_session=True,
                env={**os.environ, VARIABLE: node.token},
            )
        try:
            wait_until(
                lambda: (
                    self.tracer.poll() is not None
                    or self._has(member.pid for member in node.members())
                ),
                within_s=ATTACHED_S,
                because=f"node {node.name} to be traced",
            )
        except WaitTimeoutError:
            self.end()
        if self.tracer.poll() is not None:
            raise TracingError(
                f"node {node.name} could not be traced with all its processes: {_last(said)}"
            )

    def _has(self, pids: Iterable[int]) -> bool:
        return _traces(self.tracer.pid, pids)

    def writes(self) -> tuple[Write, ...]:
        """Return the durable writes so far."""
        return writes_in(self._log)

    def held(self) -> Held | None:
        """Return the proof that a thread is held at the point; ``None`` if none is. Call this
        before the kill.
        """
        return held_in(self._log, self._point) if isinstance(self._point, Point) else None

    def standing(self) -> tuple[HeldThread, ...]:
        """Return the threads that are held right before their first durable write."""
        if not isinstance(self._point, FirstWrites):
            return ()
        return tuple(
            HeldThread(write, _process_of(write.tid))
            for write in writes_in(self._log)
            if _stands(write, Side.BEFORE)
        )

    def end(self) -> None:
        """Stop tracing, and release living processes that are held."""
        self.tracer.kill()
        self.tracer.wait()


def _traces(tracer: int, pids: Iterable[int]) -> bool:
    """Return whether a process traces every thread of other processes. An ended process has no
    threads.
    """
    return all(
        tracer_of(thread) == tracer for pid in pids if pid != tracer for thread in _threads(pid)
    )


def _threads(pid: int) -> list[int]:
    try:
        return [int(task.name) for task in Path(f"/proc/{pid}/task").iterdir()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def _options(log: Path, point: Point | FirstWrites | None, *, plain: bool) -> tuple[str, ...]:
    calls, files = _meant(point, plain=plain)
    trace = ",".join(f"?{call}" for call in calls)  # not every machine has every call
    only = (word for file in files for word in ("-P", file))
    hold: tuple[str, ...] = ()
    if isinstance(point, FirstWrites):  # held at its first, a thread never comes to a second
        hold = ("-e", f"inject={trace}:delay_enter={LONG}")
    elif point is not None:
        place = "enter" if point.side is Side.BEFORE else "exit"
        hold = ("-e", f"inject={point.call}:delay_{place}={LONG}:when={point.occurrence}")
    return (
        "-f",
        "-yy" if plain else "-y",
        "-ttt",
        "-qq",
        "-a",
        "1",
        "-s",
        "0",
        "--signal=none",
        "-o",
        str(log),
        *only,
        "-e",
        f"trace={trace}",
        *hold,
    )


def _meant(
    point: Point | FirstWrites | None, *, plain: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the calls that are traced, and the files to which these are limited (none: any)."""
    if isinstance(point, FirstWrites):
        return (CALLS + WRITES if point.files else CALLS), point.files
    if point is not None and point.call in WRITES:
        return WRITES, point.files
    return (CALLS + WRITES + CONNECTS if plain else CALLS), ()


# --- whether it can be done -----------------------------------------------------------------------


@functools.cache
def why_no_tracing() -> str | None:
    """Say why no durable write can be held on this machine; return ``None`` if a test program was
    held before and after one.

    The test runs once, and leaves nothing behind.
    """
    if shutil.which(STRACE) is None:
        return f"{STRACE} is not on the PATH (Debian: apt-get install strace)"
    with tempfile.TemporaryDirectory(prefix="lostack-") as folder:
        return next((reason for side in Side if (reason := _try(Path(folder), side))), None)


_TRIAL: Final = (
    "import os, sys; file = os.open(sys.argv[1], os.O_RDWR); sys.stdin.read(); "
    "os.ftruncate(file, 0)"
)


def _try(folder: Path, side: Side) -> str | None:
    """Hold a test program that truncates a file; say why that failed, or return ``None``."""
    file, log, said, point = (
        folder / f"{side}.file",
        folder / f"{side}.log",
        folder / "said",
        Point("ftruncate", 1, side),
    )
    file.write_text("x")
    command = (sys.executable, "-I", "-S", "-c", _TRIAL, str(file))
    token = secrets.token_hex(8)
    environment = {**os.environ, VARIABLE: token}
    with said.open("wb") as words, contextlib.ExitStack() as started:

        def start(command: tuple[str, ...]) -> subprocess.Popen[bytes]:
            return started.enter_context(
                subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=words,
                    stderr=words,
                    start_new_session=True,
                    env=environment,
                )
            )

        program = start(command)
        belonging = Members(program.pid, token)
        try:
            tracer = start(attached([program.pid], log, point))
            wait_until(
                lambda: _traces(tracer.pid, [program.pid]) or tracer.poll() is not None,
                within_s=TRIED_S,
                because="it",
            )
            if program.stdin is not None:
                program.stdin.close()
            wait_until(
                lambda: held_in(log, point) or program.poll() is not None,
                within_s=TRIED_S,
                because="it to be held",
            )
            held = held_in(log, point) is not None and file.stat().st_size == (
                1 if side is Side.BEFORE else 0
            )
        except WaitTimeoutError:
            held = False
        finally:
            for wait_s in end(lambda: belonging.find(look()), TRIED_S):
                time.sleep(wait_s)
    if held:
        return None
    return (
        f"{STRACE} cannot hold a program {side} a durable write (it needs the right to trace "
        f"running programs): {_last(said)}"
    )


def _last(said: Path) -> str:
    """Return the last line that a tracer printed."""
    return (said.read_text(errors="replace").strip().splitlines() or ["it printed nothing"])[-1]


# --- reading what it wrote ------------------------------------------------------------------------


def held_in(log: Path, point: Point) -> Held | None:
    """Return the proof that a thread is held at a point; ``None`` if the point was not hit.

    A thread that is held before a call has begun it, has no result, and is stopped by its tracer,
    or has died there. A thread that is held after a call is marked as delayed in strace's log.
    """
    found = writes_in(log)
    for number, write in enumerate(found):
        if (write.call, write.occurrence) == (point.call, point.occurrence) and _stands(
            write, point.side
        ):
            return Held(
                point, write, _process_of(write.tid), Counter(each.call for each in found[:number])
            )
    return None


def _stands(write: Write, side: Side) -> bool:
    if side is Side.AFTER:
        return write.delayed
    return write.result == "?" or (write.result is None and _state(write.tid) in (_TRACED, ""))


def _process_of(tid: int) -> int:
    """Return the process of a thread; 0 if the thread is gone."""
    lines = read(f"/proc/{tid}/status").splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith(b"Tgid:")), 0)


def _state(tid: int) -> str:
    """Return the state of a thread; empty if it is gone."""
    stat = read(f"/proc/{tid}/stat")
    return chr(stat[stat.rfind(b")") + 2]) if stat else ""


def files_since(
    writes: Iterable[Write], since_ns: int, aside: Collection[str] = ()
) -> tuple[str, ...]:
    """Return the files that were written more than once since a wall time, except those in
    ``aside``.

    A file that is written once, such as one for each record, will have another name in another run.
    """
    into = Counter(
        write.files[0] for write in writes if write.call in WRITES and write.at_ns >= since_ns
    )
    return tuple(sorted(file for file, count in into.items() if count > 1 and file not in aside))


def made_since(
    writes: Iterable[Write], since_ns: int, files: Collection[str] = ()
) -> dict[str, list[int]]:
    """Return how often each thread has made each call since a wall time, the busiest thread first.

    Plain writes are counted only if they go into ``files``.
    """
    late = (write for write in writes if write.at_ns >= since_ns)
    counts = Counter(
        (write.call, write.tid)
        for write in late
        if write.call not in WRITES or write.files[0] in files
    )
    return {
        call: sorted((count for (each, _), count in counts.items() if each == call), reverse=True)
        for call, _ in counts
    }


def writes_in(log: Path) -> tuple[Write, ...]:
    """Return all durable writes in a log, in the order in which they began. The log may still be
    growing.
    """
    return tuple(_counted(_calls(read(str(log)).decode("utf-8", "replace").split("\n"))))


@dataclass(slots=True)
class _Call:
    tid: int
    at: str
    call: str
    words: str
    """Its arguments, and its result as soon as it is there."""


def _calls(lines: Iterable[str]) -> list[_Call]:
    """Return the durable writes; of a thread that another one has interrupted, the two halves of a
    line together.
    """
    begun: list[_Call] = []
    latest: dict[str, _Call] = {}
    for told in filter(None, map(_LINE.fullmatch, lines)):
        tid, rest = told["tid"], told["rest"]
        if (resumed := _RESUMED.fullmatch(rest)) and tid in latest:
            latest[tid].words += resumed["rest"]
        elif (found := _CALL.fullmatch(rest)) and (
            found["call"] in CALLS or _is_into(found["call"], found["words"])
        ):
            latest[tid] = _Call(
                int(tid),
                told["at"],
                found["call"],
                found["words"].removesuffix(" <unfinished ...>"),
            )
            begun.append(latest[tid])
    return begun


def _is_into(call: str, words: str) -> bool:
    """Whether it is a write into a file: the same call writes into sockets, pipes and devices."""
    return call in WRITES and _INTO.match(words) is not None


def _counted(calls: Iterable[_Call]) -> Iterator[Write]:
    made: Counter[tuple[int, str]] = Counter()
    for number, each in enumerate(calls, start=1):
        made[each.tid, each.call] += 1
        ended = _RESULT.fullmatch(each.words)
        yield Write(
            number=number,
            tid=each.tid,
            call=each.call,
            occurrence=made[each.tid, each.call],
            files=tuple(
                found["open"] or found["named"]
                for found in _FILE.finditer(each.words)
                if found[0] != '""'
            ),
            at_ns=int(each.at.replace(".", "")) * 1000,
            result=ended["result"] if ended else None,
            delayed=ended is not None and _DELAYED in ended["more"],
        )
