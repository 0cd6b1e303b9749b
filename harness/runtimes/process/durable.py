"""Durable writes: a stage is held at the n-th of them, by the kernel's tracer, and then killed as a whole.

What a program has recorded is what its files hold after a crash, and that changes only where it asks the kernel for it: at an
fsync, a rename, an unlink. These calls are the exact places at which a program can die that has no failpoint, and whose
database no wire sees. ``strace`` holds the thread that makes the call, right :attr:`Side.BEFORE` the kernel does it or right
:attr:`Side.AFTER`, for as long as it takes the harness to kill all members of the node. Nothing of the program is changed.

What strace does (6.1, on Linux 6.18), of which :func:`why_no_tracing` tries again, on each machine, what is needed:

- ``inject=CALL:signal=SIGKILL`` kills one process of several. So nobody is killed by strace: ``delay_enter`` and
  ``delay_exit`` hold the thread.
- ``when=N`` counts by thread *and* call: N is the N-th fdatasync of a thread since it is traced, whatever else it calls, and a
  process that was forked counts anew. :attr:`Write.occurrence` is this number.
- A program is traced when it runs already, and from then on. (One that is started by strace could be stopped at these calls
  alone, ``--seccomp-bpf``, and not at every one; but that takes ``sudo`` from it, and what it wrote while it started counts.)
- A tracer that dies lets go of whom it traces, and what it held in front of a call would be done. So whom it traces is killed
  first (:func:`harness.runtimes.process.members.end`).
- A program that is traced cannot be traced by its own.

- ``-P FILE`` leaves out the calls that are about another file, and they are not counted either: so a write into a file is told
  from one into a socket.

Other threads and processes of the node go on until the harness has seen that one is held, some milliseconds. Writes that are
no such calls (io_uring, a mapped file without msync) are not seen.
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
from harness.model.writes import CALLS, WRITES, Point, Side
from harness.runtimes.process.members import VARIABLE, Members, end, look, read, tracer_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from harness.runtimes.process.node import ProcessNode

STRACE: Final = "strace"
LONG: Final = "3600s"
"""Longer than anybody is held."""
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

    ``number`` counts all of the node from 1, ``occurrence`` those of its thread that are the same call. ``files``: what it names;
    a descriptor's by its whole path. ``at_ns``: wall time. ``result``: what the kernel said; ``?`` where the thread ended in it,
    None where it still is in it. ``delayed``: it was held behind it.
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
class Held:
    """The proof that a point was hit: the write, in which process, and how many of each call had begun before, by all threads."""

    point: Point
    write: Write
    pid: int
    made: Mapping[str, int]

    def told(self) -> dict[str, object]:
        """Return it as it is written into a history (kind ``durable``)."""
        write = self.write
        return {
            "side": str(self.point.side), "call": write.call, "occurrence": write.occurrence, "number": write.number,
            "files": list(write.files), "thread": write.tid, "pid": self.pid, "result": write.result, "made": dict(self.made),
            "at": write.at_ns,
        }  # fmt: skip


class TracingError(CellFailure):
    """A node that runs could not be traced as a whole; one line."""


# --- running it ------------------------------------------------------------------------------------------------------


def attached(pids: Iterable[int], log: Path, point: Point | None = None, *, plain: bool = False) -> tuple[str, ...]:
    """Return a tracer's command that logs the durable writes of running processes, and holds one at a point if given.

    ``plain``: and every other write into a file. It stops them at every call of theirs, of whatever kind.
    """
    return (STRACE, *_options(log, point, plain=plain), *(word for pid in pids for word in ("-p", str(pid))))


class Tracing:
    """The tracing of a node that runs, with all its members: its tracer becomes a member of it, and dies with it.

    It holds one thread at a point, if there is one. Raises TracingError where not all of them can be traced.
    """

    def __init__(self, node: ProcessNode, log: Path, point: Point | None = None, *, plain: bool = False) -> None:
        """``plain``: write down every other write into a file, too.

        Raises:
            TracingError: the tracer cannot follow all processes of the node.
        """
        self._log = log
        self._point = point
        said = log.with_suffix(".said")
        with said.open("wb") as words:
            self.tracer = subprocess.Popen(
                attached((member.pid for member in node.members()), log, point, plain=plain), stdin=subprocess.DEVNULL,
                stdout=words, stderr=words, start_new_session=True, env={**os.environ, VARIABLE: node.token},
            )  # fmt: skip
        try:
            wait_until(lambda: self.tracer.poll() is not None or self._has(member.pid for member in node.members()),
                       within_s=ATTACHED_S, because=f"node {node.name} to be traced")  # fmt: skip
        except WaitTimeoutError:
            self.end()
        if self.tracer.poll() is not None:
            raise TracingError(f"node {node.name} could not be traced with all that belongs to it: {_last(said)}")

    def _has(self, pids: Iterable[int]) -> bool:
        return _traces(self.tracer.pid, pids)

    def writes(self) -> tuple[Write, ...]:
        """Return the durable writes so far."""
        return writes_in(self._log)

    def held(self) -> Held | None:
        """Return the proof that somebody stands at the point, if that is so; it is to be asked for before the kill."""
        return None if self._point is None else held_in(self._log, self._point)

    def end(self) -> None:
        """Let go of who is traced, or held, and lives."""
        self.tracer.kill()
        self.tracer.wait()


def _traces(tracer: int, pids: Iterable[int]) -> bool:
    """Whether a process traces every thread of others; who has ended meanwhile has none."""
    return all(tracer_of(thread) == tracer for pid in pids if pid != tracer for thread in _threads(pid))


def _threads(pid: int) -> list[int]:
    try:
        return [int(task.name) for task in Path(f"/proc/{pid}/task").iterdir()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def _options(log: Path, point: Point | None, *, plain: bool) -> tuple[str, ...]:
    into = point is not None and point.call in WRITES
    calls = WRITES if into else CALLS + WRITES if plain else CALLS
    trace = ",".join(f"?{call}" for call in calls)  # not every machine has every call
    only = (word for file in (point.files if point is not None and into else ()) for word in ("-P", file))
    hold: tuple[str, ...] = ()
    if point is not None:
        place = "enter" if point.side is Side.BEFORE else "exit"
        hold = ("-e", f"inject={point.call}:delay_{place}={LONG}:when={point.occurrence}")
    return (
        "-f",
        "-y",
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


# --- whether it can be done ------------------------------------------------------------------------------------------


@functools.cache
def why_no_tracing() -> str | None:
    """Say why no durable write can be held on this machine, or ``None``: a program was held before one, and behind one.

    It is tried once; nothing of it is left.
    """
    if shutil.which(STRACE) is None:
        return f"{STRACE} is not on the PATH (Debian: apt-get install strace)"
    with tempfile.TemporaryDirectory(prefix="lostack-") as folder:
        return next((reason for side in Side if (reason := _try(Path(folder), side))), None)


_TRIAL: Final = "import os, sys; file = os.open(sys.argv[1], os.O_RDWR); sys.stdin.read(); os.ftruncate(file, 0)"


def _try(folder: Path, side: Side) -> str | None:
    """Hold a program that truncates a file; say why that was in vain, or ``None``."""
    file, log, said, point = folder / f"{side}.file", folder / f"{side}.log", folder / "said", Point("ftruncate", 1, side)
    file.write_text("x")
    command = (sys.executable, "-I", "-S", "-c", _TRIAL, str(file))
    token = secrets.token_hex(8)
    environment = {**os.environ, VARIABLE: token}
    with said.open("wb") as words, contextlib.ExitStack() as started:

        def start(command: tuple[str, ...]) -> subprocess.Popen[bytes]:
            return started.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=words, stderr=words,
                                                          start_new_session=True, env=environment))  # fmt: skip

        program = start(command)
        belonging = Members(program.pid, token)
        try:
            tracer = start(attached([program.pid], log, point))
            wait_until(lambda: _traces(tracer.pid, [program.pid]) or tracer.poll() is not None, within_s=TRIED_S, because="it")
            if program.stdin is not None:
                program.stdin.close()
            wait_until(lambda: held_in(log, point) or program.poll() is not None, within_s=TRIED_S, because="it to be held")
            held = held_in(log, point) is not None and file.stat().st_size == (1 if side is Side.BEFORE else 0)
        except WaitTimeoutError:
            held = False
        finally:
            for wait_s in end(lambda: belonging.find(look()), TRIED_S):
                time.sleep(wait_s)
    if held:
        return None
    return f"{STRACE} holds no program {side} a durable write here (it takes the right to trace what runs): {_last(said)}"


def _last(said: Path) -> str:
    """Return the last line of what a tracer said."""
    return (said.read_text(errors="replace").strip().splitlines() or ["it said nothing"])[-1]


# --- reading what it wrote -------------------------------------------------------------------------------------------


def held_in(log: Path, point: Point) -> Held | None:
    """Return who is held at a point; None where the point was not hit.

    Who is held in front of a call has begun it, has no result, and is stopped by its tracer, or has died of that. Who is held
    behind it has strace's word.
    """
    found = writes_in(log)
    for number, write in enumerate(found):
        if (write.call, write.occurrence) == (point.call, point.occurrence) and _stands(write, point.side):
            return Held(point, write, _process_of(write.tid), Counter(each.call for each in found[:number]))
    return None


def _stands(write: Write, side: Side) -> bool:
    if side is Side.AFTER:
        return write.delayed
    return write.result == "?" or (write.result is None and _state(write.tid) in (_TRACED, ""))


def _process_of(tid: int) -> int:
    """Return the process of a thread; 0 where it is gone."""
    lines = read(f"/proc/{tid}/status").splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith(b"Tgid:")), 0)


def _state(tid: int) -> str:
    """Return the state of a thread; empty where it is gone."""
    stat = read(f"/proc/{tid}/stat")
    return chr(stat[stat.rfind(b")") + 2]) if stat else ""


def files_since(writes: Iterable[Write], since_ns: int, aside: Collection[str] = ()) -> tuple[str, ...]:
    """Return the files that were written into more than once since a time (wall), but for those that are left ``aside``.

    One that is written once, as one of each record's own, will not be there in another run.
    """
    into = Counter(write.files[0] for write in writes if write.call in WRITES and write.at_ns >= since_ns)
    return tuple(sorted(file for file, count in into.items() if count > 1 and file not in aside))


def made_since(writes: Iterable[Write], since_ns: int, files: Collection[str] = ()) -> dict[str, list[int]]:
    """Return how often each thread has made each call since a time (wall), the busiest thread first.

    Of writes that are no durable ones those into these ``files``.
    """
    late = (write for write in writes if write.at_ns >= since_ns)
    counts = Counter((write.call, write.tid) for write in late if write.call not in WRITES or write.files[0] in files)
    return {call: sorted((count for (each, _), count in counts.items() if each == call), reverse=True) for call, _ in counts}


def writes_in(log: Path) -> tuple[Write, ...]:
    """Return all durable writes of a log in the order in which they began; of one that is being written, what is there."""
    return tuple(_counted(_calls(read(str(log)).decode("utf-8", "replace").split("\n"))))


@dataclass(slots=True)
class _Call:
    tid: int
    at: str
    call: str
    words: str
    """Its arguments, and its result as soon as it is there."""


def _calls(lines: Iterable[str]) -> list[_Call]:
    """Return the durable writes; of a thread that another one has interrupted, the two halves of a line together."""
    begun: list[_Call] = []
    latest: dict[str, _Call] = {}
    for told in filter(None, map(_LINE.fullmatch, lines)):
        tid, rest = told["tid"], told["rest"]
        if (resumed := _RESUMED.fullmatch(rest)) and tid in latest:
            latest[tid].words += resumed["rest"]
        elif (found := _CALL.fullmatch(rest)) and (found["call"] in CALLS or _is_into(found["call"], found["words"])):
            latest[tid] = _Call(int(tid), told["at"], found["call"], found["words"].removesuffix(" <unfinished ...>"))
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
            number=number, tid=each.tid, call=each.call, occurrence=made[each.tid, each.call],
            files=tuple(found["open"] or found["named"] for found in _FILE.finditer(each.words) if found[0] != '""'),
            at_ns=int(each.at.replace(".", "")) * 1000, result=ended["result"] if ended else None,
            delayed=ended is not None and _DELAYED in ended["more"],
        )  # fmt: skip
