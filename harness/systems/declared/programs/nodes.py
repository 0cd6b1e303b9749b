"""The life of a stage of a declared pipeline: started, ready, ended, started again."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.model.events import NodePhase
from harness.model.waiting import WaitTimeoutError, wait_until
from harness.run.nodes import GRACE_S, LIVES
from harness.runtimes.process.members import tracer_of
from harness.systems.declared.programs.errors import StageError
from harness.systems.declared.programs.one_process import GONE_S, OneProcess
from harness.systems.declared.programs.process import StageProcesses, told
from harness.systems.declared.programs.readiness import Readiness
from harness.systems.declared.programs.tracing import StageTracer

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.model.history import HistoryWriter
    from harness.model.scenario import Role
    from harness.runtimes.interface import Exit, Runtime
    from harness.systems.declared.programs.command import StageCommand
    from harness.systems.declared.programs.hints import Hints


class CommandNode:
    """One stage or service, over all its incarnations. Implements :class:`harness.controls.Target`.

    ``command`` is how it is started, ``processes`` are those of the present incarnation,
    ``readiness`` tells whether they are ready, ``tracer`` logs their durable writes.
    """

    def __init__(
        self,
        command: StageCommand,
        runtime: Runtime,
        history: HistoryWriter,
        cell_key: str,
        *,
        fetches: Callable[[int], bool],
        hints: Hints | None = None,
        buried: Callable[[], object] = lambda: None,
        is_open: Callable[[], bool] = lambda: True,
        held_up_s: Callable[[], float] = lambda: 0.0,
        put_out: Callable[[int], object] = lambda _: None,
    ) -> None:
        """``fetches``: says whether the wire saw the stage fetch since a time (monotonic ns);
        ``buried``: called after the stage has died and before it is started again; ``is_open``:
        says whether the port of a service without a ``ready`` pattern is open; ``held_up_s``: says
        how long what its dead processes left behind may hold up the next one (seconds);
        ``put_out``: called with the id of one process that was killed alone.
        """
        self.command = command
        self.runtime = runtime
        self.cell_key = cell_key
        self.processes = StageProcesses(command, history)
        self.tracer = StageTracer(self.processes)
        self.ready_at = 0
        """When this incarnation was ready (monotonic ns); 0: not waited for yet."""
        self.readiness = Readiness(self.processes, fetches=fetches, is_open=is_open, hints=hints)
        self._buried = buried
        self.held_up_s = held_up_s
        self._put_out = put_out
        self._life = _Life()

    @property
    def role(self) -> Role:
        """Its role in histories."""
        return self.command.role

    @property
    def name(self) -> str:
        """Its name, which no other stage of the run has."""
        return self.command.name

    def start(self, *, supervised: bool = False) -> None:
        """Start the next incarnation without waiting for it. ``supervised``: the previous one ended
        by itself.
        """
        spec = self.command.spec(self.cell_key)
        since, self.ready_at = time.monotonic_ns(), 0
        self.processes.start(self.runtime, spec, supervised=supervised)
        self._life = _Life(since)

    def await_ready(self) -> None:
        """Wait until the stage is ready.

        Raises:
            StageError: the stage ended before it was ready, or is not ready in time.
        """
        stage, ready = self.command.stage, self.readiness
        within_s = stage.ready_within_s + self.held_up_s()
        try:
            wait_until(
                lambda: self.ended() or ready.is_ready(self.since) or ready.is_unread(),
                within_s=within_s,
                because=f"the {self.name} to be ready",
            )
        except WaitTimeoutError as error:
            raise self.error(f"was not ready within {within_s:g} s: {ready.wanted}") from error
        self.check_read()
        end = self.ended()
        if end is not None and not (end.status == 0 and not stage.reads):
            stays = "; a stage must stay in the foreground" if end.status == 0 else ""
            raise self.error(f"ended with {end} before it was ready{stays}")
        self.ready_at = time.monotonic_ns()
        self.processes.say(NodePhase.READY, pid=self.processes.alive().pid)

    def check_read(self) -> None:
        """Raise StageError if the wire does not read what the stage speaks: that voids the cell."""
        if self.readiness.is_unread():
            raise self.error("speaks what the wire does not read")

    def error(self, what: str) -> StageError:
        """Return an error about the stage, with what may explain it."""
        return self.readiness.error(what, ended=self.ended() is not None)

    def ended(self) -> Exit | None:
        """Return how this incarnation ended, or ``None``; the history notes the end once."""
        if (node := self.processes.node) is None:  # its start is still to come
            return None
        self.runtime.check()
        end, life = node.exit, self._life
        if end is not None and life.ended_s is None:
            life.ended_s = time.monotonic()
            self.processes.say(
                NodePhase.EXITED,
                pid=end.pid,
                status=end.status,
                signal=end.signal,
                asked=bool(life.asked),
                members=told(end.members),
                left=told(end.left),
            )
        return end

    @property
    def since(self) -> int:
        """When this incarnation was started (monotonic ns)."""
        return self._life.since

    @property
    def started(self) -> bool:
        """Whether it was ever started."""
        return self.processes.node is not None

    @property
    def asked(self) -> bool:
        """Whether this incarnation was sent a SIGTERM."""
        return self._life.asked

    def stopped_itself(self) -> bool:
        """Say whether this incarnation has ended by itself."""
        return self.ended() is not None

    def one(self, pid: int) -> OneProcess | CommandNode:
        """Return one process of this stage, to be crashed alone; the stage itself if it has no
        other process.
        """
        others = self.processes.members().keys() - {pid, tracer_of(pid)}
        if not others:
            return self
        gone = (lambda: self._put_out(pid)) if self.command.scaled else (lambda: None)
        return OneProcess(self.processes, self.tracer, pid, gone)

    def kill(self) -> None:
        """Send SIGKILL to all processes of the stage, and wait until they are reaped."""
        try:
            if self.ended() is None:
                self.processes.alive().kill()
                self.ended()
        finally:
            self.tracer.end()

    def tell_to_end(self) -> None:
        """Send SIGTERM to all processes of the stage, without waiting."""
        self._life.asked = self.processes.alive().tell_to_end()
        if self._life.asked:
            self.processes.say(NodePhase.TOLD, pid=self.processes.alive().pid)

    def await_end(self) -> None:
        """Wait until the stage has ended; kill it after the grace period that
        orchestrators give.
        """
        try:
            wait_until(
                self.ended, within_s=GRACE_S, because=f"the {self.name} to end after SIGTERM"
            )
        except WaitTimeoutError:
            self.kill()

    def pause(self) -> None:
        """Stop all processes of the stage (SIGSTOP)."""
        (node := self.processes.alive()).pause()
        others = [member for pid, member in self.processes.members().items() if pid != node.pid]
        self.processes.say(NodePhase.PAUSED, pid=node.pid, members=told(others))

    def resume(self) -> None:
        """Let all processes of the stage go on (SIGCONT)."""
        self.processes.alive().resume()
        self.processes.say(NodePhase.RESUMED, pid=self.processes.alive().pid)

    def restart(self) -> None:
        """Start the stage again and wait until it is ready. If it does not become ready,
        :meth:`supervise` raises that error.
        """
        self.begin_again()
        self.await_back()

    def begin_again(self) -> None:
        """Start the stage again after its ``down_s``; do not wait until it is ready."""
        self._buried()
        wait_until(
            lambda: not self._is_down(),
            within_s=self.command.stage.down_s + GONE_S,
            because=f"the {self.name} to come back",
        )
        self.start()

    def await_back(self) -> None:
        """Wait until it is ready. :meth:`supervise` tells that it does not come back."""
        try:
            self.await_ready()
        except StageError as error:
            self._life.unready = error

    def supervise(self) -> str | None:
        """Start the stage again if it ended and should go on; return a message about that, or
        ``None``.

        Raises:
            StageError: the stage ends again and again, or did not become ready after a restart.
        """
        end = self.ended()
        if end is None:
            if self._life.unready is not None and not self.readiness.is_ready(self.since):
                raise self._life.unready
            return None
        if end.status == 0 and not self.command.stage.reads:
            return None
        lives = self.processes.incarnation
        # the first start and those after a kill are no sign of a crash loop
        if not self.command.stage.restart or self.processes.supervised >= LIVES - 1:
            raise self.error(f"ended with {end}{f', started {lives} times' if lives > 1 else ''}")
        if self._is_down():
            down_s = self.command.stage.down_s
            return f"the {self.name} ended with {end}, and stays down for {down_s:g} s"
        self._buried()
        self.start(supervised=True)
        return f"the {self.name} ended with {end} and was started again"

    def _is_down(self) -> bool:
        ended_s = self._life.ended_s
        return ended_s is not None and time.monotonic() - ended_s < self.command.stage.down_s


@dataclass
class _Life:
    """What is known of one incarnation."""

    since: int = 0
    """When it was started (monotonic ns)."""
    ended_s: float | None = None
    """When its end was first seen (monotonic, seconds)."""
    asked: bool = False
    """Whether it was sent a SIGTERM."""
    unready: StageError | None = None
    """Why it did not become ready after a restart."""
