"""Work on every core: forked processes, each doing one task at a time, that end with
this process.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import multiprocessing
import os
import pickle
import signal
import traceback
from collections import deque
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any, Final, TypeVar

from harness.audit.failures import AuditError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

T = TypeVar("T")

PR_SET_PDEATHSIG: Final = 1
PIPE_BYTES: Final = 1 << 20
"""What a process may have said before it is listened to: else it would wait while its last word is
thought about.
"""
ITEM, END, FAILED = "item", "end", "failed"
ENDS_WITHIN_S: Final = 10.0


class Cores:
    """Worker processes, one for each core that this process may use; each does one
    task at a time.
    """

    def __init__(self, count: int | None = None) -> None:
        context = multiprocessing.get_context("fork")
        parent = os.getpid()
        self._workers: list[tuple[BaseProcess, Connection, Connection]] = []
        for _ in range(count or len(os.sched_getaffinity(0))):
            theirs, orders = context.Pipe(duplex=False)
            results, said = context.Pipe(duplex=False)
            with contextlib.suppress(OSError):  # a smaller pipe is a slower one
                fcntl.fcntl(said.fileno(), fcntl.F_SETPIPE_SZ, PIPE_BYTES)
            process = context.Process(target=_serve, args=(theirs, said, parent), daemon=True)
            process.start()
            theirs.close()
            said.close()
            self._workers.append((process, orders, results))

    def __len__(self) -> int:
        return len(self._workers)

    def close(self) -> None:
        """End the processes."""
        for process, orders, results in self._workers:
            process.kill()
            process.join(ENDS_WITHIN_S)
            orders.close()
            results.close()
        self._workers = []

    def done(
        self, work: Callable[..., Iterable[T]], tasks: Sequence[tuple[object, ...]]
    ) -> Iterator[tuple[int, T]]:
        """Yield the items of ``work(*task)`` for each task, with the task's number, in the order of
        the tasks.

        Items of a later task are kept in memory until its turn.

        Raises:
            AuditError: a process has died.
            Exception: whatever ``work`` raises.
        """
        waiting = deque(range(len(tasks)))
        idle = list(range(len(self._workers)))
        busy: dict[Connection, tuple[int, int]] = {}
        kept: dict[int, deque[T]] = {task: deque() for task in waiting}
        ended: set[int] = set()
        for turn in range(len(tasks)):
            while True:
                while idle and waiting:
                    worker, task = idle.pop(), waiting.popleft()
                    self._workers[worker][1].send((work, tasks[task]))
                    busy[self._workers[worker][2]] = (worker, task)
                while kept[turn]:
                    yield turn, kept[turn].popleft()
                if turn in ended:
                    break
                for connection in wait(list(busy)):
                    assert not isinstance(connection, int)  # noqa: S101 - connections are what is waited for
                    worker, task = busy[connection]  # type: ignore[index]
                    word, item = self._heard(worker)
                    if word == FAILED:
                        raise item
                    if word == ITEM:
                        kept[task].append(item)
                        continue
                    ended.add(task)
                    idle.append(worker)
                    del busy[connection]  # type: ignore[arg-type]

    def _heard(self, worker: int) -> tuple[str, Any]:
        process, _, results = self._workers[worker]
        try:
            word, item = results.recv()
        except EOFError:
            process.join(ENDS_WITHIN_S)
            code = process.exitcode
            how = f"signal {-code}" if code is not None and code < 0 else f"code {code}"
            raise AuditError(
                f"a process of the audit died ({how}); if memory was short, use --engine spark"
            ) from None
        return word, item


def _serve(orders: Connection, said: Connection, parent: int) -> None:
    """Do one task after another, until the orders end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends us
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        return
    while True:
        try:
            work, task = orders.recv()
        except EOFError:
            return
        try:
            for item in work(*task):
                said.send((ITEM, item))
            said.send((END, None))
        except Exception as error:  # noqa: BLE001 - the parent raises it
            said.send((FAILED, _sendable(error)))


def _sendable(error: Exception) -> Exception:
    """Return an error as the parent can raise it, with the traceback of this process as a note."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - what this process has just made
    except Exception:  # noqa: BLE001 - classes of libraries fail at this in many ways
        error = RuntimeError(f"{type(error).__name__}: {error}").with_traceback(error.__traceback__)
    error.add_note(
        f"in process {os.getpid()} of the "
        f"audit:\n{''.join(traceback.format_tb(error.__traceback__))}"
    )
    return error
