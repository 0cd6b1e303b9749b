"""Runtimes of processes that do one thing wrong each. The suite must be red with every
one of them.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import psutil

from harness.model.waiting import wait_until
from harness.runtimes.interface import Exit, NodeSpec, NodeStateError, StartError
from harness.runtimes.process.node import ProcessNode
from harness.runtimes.process.runtime import ProcessRuntime
from tests.narrow import narrow

if TYPE_CHECKING:
    from harness.runtimes.interface import Member

WITHIN_S = 10.0
LONG_S = 1.5
"""Longer than the suite lets anything take when it is tried on these."""


class Wrong(ProcessRuntime):
    """A runtime whose nodes are of another class."""

    node_class: type[ProcessNode] = ProcessNode

    def start(self, spec: NodeSpec) -> ProcessNode:
        """Start a node, and change what it is."""
        node = super().start(spec)
        node.__class__ = self.node_class
        return node


def wrong(node: type[ProcessNode]) -> type[Wrong]:
    """Return a runtime of such nodes."""
    return type(
        node.__name__,
        (Wrong,),
        {"node_class": node, "__doc__": node.__doc__, "__module__": __name__},
    )


class DoesNotReap(Wrong):
    """A killed node stays a zombie: its guardian is stopped, and what is said of its end is made
    up.
    """

    class node_class(ProcessNode):  # noqa: N801 - overrides an attribute
        """Dies, and is not waited for."""

        def kill(self) -> Exit:
            """Kill it."""
            os.kill(narrow(self._runtime, ProcessRuntime).guardian_pid, signal.SIGSTOP)
            os.kill(self.pid, signal.SIGKILL)
            wait_until(
                lambda: psutil.Process(self.pid).status() == psutil.STATUS_ZOMBIE,
                within_s=WITHIN_S,
                because="its death",
            )
            self._exit = Exit(self.pid, None, signal.SIGKILL, time.monotonic_ns())
            self._ended.set()
            return self._exit


@wrong
class SaysItLives(ProcessNode):
    """An ended node has no end."""

    alive = True


@wrong
class SaysAnotherEnd(ProcessNode):
    """Every end is said to be that of a kill."""

    def wait(self, within_s: float) -> Exit | None:
        """Say so."""
        end = super().wait(within_s)
        return end and replace(end, status=None, signal=signal.SIGKILL)


@wrong
class SaysAShellsStatus(ProcessNode):
    """A death by a signal has the status that a shell gives it."""

    def wait(self, within_s: float) -> Exit | None:
        """Say so."""
        end = super().wait(within_s)
        return replace(end, status=128 + end.signal, signal=None) if end and end.signal else end


@wrong
class HasAClockOfItsOwn(ProcessNode):
    """Its end is told by the clock on the wall."""

    def kill(self) -> Exit:
        """Kill it."""
        return replace(super().kill(), at_ns=time.time_ns())


@wrong
class IgnoresThatItHasEnded(ProcessNode):
    """What is asked of a dead node is done to nobody, without a word."""

    def pause(self) -> None:
        """Pause it, where it lives."""
        with contextlib.suppress(NodeStateError):
            super().pause()


@wrong
class TellsOfEachKill(ProcessNode):
    """Whoever kills it learns of an end of their own."""

    def kill(self) -> Exit:
        """Kill it."""
        return replace(super().kill(), at_ns=time.monotonic_ns())


@wrong
class KillsNobody(ProcessNode):
    """A kill is a word."""

    def kill(self) -> Exit:
        """Say that it is dead."""
        return Exit(self.pid, None, signal.SIGKILL, time.monotonic_ns())


@wrong
class HasNoMembers(ProcessNode):
    """Nobody knows which processes are its own."""

    def members(self) -> tuple[Member, ...]:
        """Return none."""
        return ()


@wrong
class KillsWhomItTellsToEnd(ProcessNode):
    """SIGTERM is SIGKILL."""

    def terminate(self, within_s: float) -> Exit:
        """Kill it."""
        del within_s
        return self.kill()

    def tell_to_end(self) -> bool:
        """Kill it."""
        self.kill()
        return True


@wrong
class IsDeafWhilePaused(ProcessNode):
    """A paused node is told to end, and not let go on."""

    def terminate(self, within_s: float) -> Exit:
        """Tell it to end, and kill it."""
        del within_s
        self.tell_to_end()
        return self.kill()


@wrong
class WaitsForEver(ProcessNode):
    """A wait takes longer than was asked for."""

    def wait(self, within_s: float) -> Exit | None:
        """Wait for longer."""
        return super().wait(max(within_s, LONG_S))


@wrong
class WaitsNotAtAll(ProcessNode):
    """A wait is over at once."""

    def wait(self, within_s: float) -> Exit | None:
        """Wait for nothing."""
        del within_s
        return super().wait(0)


@wrong
class PausesItsFirstProcessOnly(ProcessNode):
    """What it has started goes on."""

    def pause(self) -> None:
        """Stop one process."""
        os.kill(self.pid, signal.SIGSTOP)


@wrong
class StaysPaused(ProcessNode):
    """It is paused for good."""

    def resume(self) -> None:
        """Do nothing."""


@wrong
class CannotBeKilledWhilePaused(ProcessNode):
    """A paused node must be resumed first."""

    def kill(self) -> Exit:
        """Kill it, where it goes on."""
        if self.stands_still():
            raise NodeStateError(f"node {self.name} is paused")
        return super().kill()


@wrong
class SeesNobodyStandStill(ProcessNode):
    """A program that stops itself is not noticed."""

    def stands_still(self) -> bool:
        """Say that it goes on."""
        return False


@wrong
class LosesItsInput(ProcessNode):
    """What is written to it goes nowhere."""

    def write_stdin(self, data: bytes) -> None:
        """Drop it."""


@wrong
class StartsOverALivingOne(ProcessNode):
    """A restart ends whoever lives."""

    def restart(self) -> ProcessNode:
        """Kill the one that has the name."""
        for node in narrow(self._runtime, ProcessRuntime).nodes:
            if node.name == self.name:
                node.kill()
        return super().restart()


@wrong
class ForgetsItsLastLine(ProcessNode):
    """The last line is not read."""

    def log_tail(self, lines: int = 20) -> str:
        """Return those before it."""
        return "\n".join(super().log_tail(lines + 1).splitlines()[:-1])


@wrong
class SaysThatItIsSilent(ProcessNode):
    """A node that has said nothing has words of the harness in its log."""

    def log_tail(self, lines: int = 20) -> str:
        """Return what can be taken for its first words."""
        return super().log_tail(lines) or "(no log)"


class Changes(Wrong):
    """A runtime that changes what is to be started."""

    def change(self, spec: NodeSpec) -> NodeSpec:
        """Return the spec that is started instead."""
        return spec

    def start(self, spec: NodeSpec) -> ProcessNode:
        """Start something else."""
        return super().start(self.change(spec))


class ForgetsTheEnvironment(Changes):
    """A node has the environment of the harness."""

    def change(self, spec: NodeSpec) -> NodeSpec:
        """Leave it out."""
        return replace(spec, env={})


class ForgetsTheFolder(Changes):
    """A node runs wherever the harness does."""

    def change(self, spec: NodeSpec) -> NodeSpec:
        """Leave it out."""
        return replace(spec, cwd=None)


class KeepsTheInputOpen(Changes):
    """A node that has no input waits for it."""

    def change(self, spec: NodeSpec) -> NodeSpec:
        """Give it one."""
        return replace(spec, stdin_pipe=True)


class WritesTheLogElsewhere(Changes):
    """Where a log is wanted is nobody's business."""

    def change(self, spec: NodeSpec) -> NodeSpec:
        """Leave it out."""
        return replace(spec, log=None)


class IsCalledSomethingElse(Wrong):
    """Its name selects another one."""

    name = "docker"


class SaysAWrongAddress(Wrong):
    """Nobody is at the address that it tells."""

    def address(self, node: str) -> str:
        """Return another one."""
        del node
        return "127.0.0.99"


class TakesItAsItComes(Wrong):
    """What cannot be started is told in the words of the library."""

    def start(self, spec: NodeSpec) -> ProcessNode:
        """Start it, or raise what nobody expects."""
        try:
            return super().start(spec)
        except StartError as error:
            raise OSError(str(error)) from error


class TellsItInTwoLines(Wrong):
    """What cannot be started is told at length."""

    def start(self, spec: NodeSpec) -> ProcessNode:
        """Start it, or raise two lines."""
        try:
            return super().start(spec)
        except StartError as error:
            raise StartError(f"{error}\nsee there") from error


class CountsFromZero(Wrong):
    """Every life is the first."""

    def start(self, spec: NodeSpec) -> ProcessNode:
        """Start it for the first time."""
        node = super().start(spec)
        node.incarnation = 1
        return node


class LeavesThemAlive(Wrong):
    """To close it ends nothing."""

    def close(self) -> None:
        """Leave it all."""


class ClosesOnce(Wrong):
    """To close it again is an error."""

    _closed = False

    def close(self) -> None:
        """Close it, the first time."""
        if self._closed:
            raise RuntimeError("it is closed")
        self._closed = True
        super().close()


class HidesErrors(Wrong):
    """Whatever goes wrong in its context is not told."""

    def __exit__(self, *_: object) -> bool:  # type: ignore[override]
        """Close it, and say that all is well."""
        self.close()
        return True


class ClearsOnce(Wrong):
    """There must be something to clear."""

    def clear(self, temporary: str) -> None:
        """Refuse."""
        raise FileNotFoundError(temporary)


def really_end(runtime: ProcessRuntime) -> None:
    """Close a runtime as it should be, whatever it does by itself."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(runtime.guardian_pid, signal.SIGCONT)
    ProcessRuntime.close(runtime)
