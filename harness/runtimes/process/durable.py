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
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.model.failures import CellFailure
from harness.model.waiting import WaitTimeoutError, wait_until
from harness.model.writes import CALLS, LOCKS, WRITES, FirstWrites, Point, Side
from harness.runtimes.process.members import VARIABLE, Members, end, look, tracer_of
from harness.runtimes.process.traced import (
    HeldThread,
    ThreadHold,
    Write,
    held_in,
    process_of,
    stands,
    writes_in,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from harness.runtimes.process.node import ProcessNode

STRACE: Final = "strace"
CONNECTS: Final = ("connect", "accept", "accept4")
"""The calls that show which servers a program speaks to, and where it is one itself."""
LONG: Final = "3600s"
"""The delay for strace, longer than any hold."""
TRIED_S: Final = 10.0
ATTACHED_S: Final = 10.0


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
        among: Collection[int] | None = None,
    ) -> None:
        """Start the tracer. ``plain``: log every other write into a file, too. ``among``: trace
        only these of the node's processes.

        Raises:
            TracingError: the tracer cannot follow all processes of the node.
        """
        self._log = log
        self._point = point
        said = log.with_suffix(".said")

        def pids() -> Iterable[int]:
            found = [member.pid for member in node.members()]
            return found if among is None else [pid for pid in found if pid in among]

        with said.open("wb") as words:
            self.tracer = subprocess.Popen(
                attached(pids(), log, point, plain=plain),
                stdin=subprocess.DEVNULL,
                stdout=words,
                stderr=words,
                start_new_session=True,
                env={**os.environ, VARIABLE: node.token},
            )
        try:
            wait_until(
                lambda: self.tracer.poll() is not None or self._has(pids()),
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

    def held(self) -> ThreadHold | None:
        """Return the proof that a thread is held at the point; ``None`` if none is. Call this
        before the kill.
        """
        return held_in(self._log, self._point) if isinstance(self._point, Point) else None

    def standing(self) -> tuple[HeldThread, ...]:
        """Return the threads that are held right before their first durable write."""
        if not isinstance(self._point, FirstWrites):
            return ()
        return tuple(
            HeldThread(write, process_of(write.tid))
            for write in writes_in(self._log)
            if stands(write, Side.BEFORE)
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
        into = WRITES + LOCKS if point.locks else WRITES
        return (CALLS + into if point.files else CALLS), point.files
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
    file = folder / f"{side}.file"
    log = folder / f"{side}.log"
    said = folder / "said"
    point = Point("ftruncate", 1, side)
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
