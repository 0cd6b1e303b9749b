"""One process of a stage, which is crashed alone."""

from __future__ import annotations

import os
import select
import signal
from typing import TYPE_CHECKING

from harness.model.events import NodePhase
from harness.model.waiting import WaitTimeoutError, wait_until
from harness.runtimes.process.processes import stopped
from harness.systems.declared.programs.errors import StageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.systems.declared.programs.process import StageProcesses
    from harness.systems.declared.programs.tracing import StageTracer

GONE_S = 20.0
"""How long (seconds) a killed process may take to be gone. Only an uninterruptible read delays a
SIGKILL.
"""


class OneProcess:
    """One process of a stage that has several. Implements :class:`harness.controls.Target`.

    Its parent belongs to the user's program, and the kernel tells only the parent how it ended. Its
    pid file descriptor shows that it lived when it was killed, and that it was gone afterwards.
    """

    def __init__(
        self,
        processes: StageProcesses,
        tracer: StageTracer,
        pid: int,
        put_out: Callable[[], object] = lambda: None,
    ) -> None:
        """``put_out``: called when it is dead and may be replaced."""
        self.name = processes.name_of(pid)
        self._put_out = put_out
        self.role = processes.command.role
        self._processes = processes
        self._tracer = tracer
        self._pid = pid
        self._leader = processes.alive().pid
        self._number = processes.number_of(pid)

    def kill(self) -> None:
        """Send SIGKILL to this process alone, and wait until it is gone.

        Raises:
            StageError: the process ended before it could be killed.
            WaitTimeoutError: the process is not gone in time.
        """
        try:
            descriptor = os.pidfd_open(self._pid)
        except ProcessLookupError as error:
            raise StageError(
                f"the process {self._pid} of the {self.name} ended before it could be killed"
            ) from error
        try:
            ended, _, _ = select.select([descriptor], [], [], 0)
            if ended:
                raise StageError(
                    f"the process {self._pid} of the {self.name} ended before it could be killed"
                )
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            # a traced process cannot end while its tracer holds it; and the other processes must go
            # on
            self._tracer.end()
            ended, _, _ = select.select([descriptor], [], [], GONE_S)
        finally:
            os.close(descriptor)
        if not ended:
            raise WaitTimeoutError(f"process {self._pid} of the {self.name} to be gone", GONE_S)
        self._say(NodePhase.EXITED, int(signal.SIGKILL))

    def pause(self) -> None:
        """Send SIGSTOP; return when the kernel shows every thread of the process stopped."""
        os.kill(self._pid, signal.SIGSTOP)
        wait_until(
            lambda: stopped(self._pid),
            within_s=GONE_S,
            because=f"process {self._pid} to stand still",
        )
        self._say(NodePhase.PAUSED)

    def resume(self) -> None:
        """Send SIGCONT."""
        os.kill(self._pid, signal.SIGCONT)
        self._say(NodePhase.RESUMED)

    def restart(self) -> None:
        """Put its dead member out of its group. Its parent, or the stage's restart, replaces it."""
        self._put_out()

    def _say(self, phase: NodePhase, signal: int | None = None) -> None:
        self._processes.say(
            phase, pid=self._pid, of=self._leader, member=self._number or None, signal=signal
        )
