"""A node of the runtime ``process``: one life of a process that is a child of the guardian."""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING, Protocol

import psutil

from harness.model.waiting import WaitTimeoutError
from harness.runtimes.interface import Exit, Member, NodeSpec, NodeStateError
from harness.runtimes.life import NodeLife
from harness.runtimes.process.link import ANSWER_WITHIN_S, GONE_WITHIN_S

if TYPE_CHECKING:
    from pathlib import Path

    from harness.runtimes.process.messages import Answer


class Host(Protocol):
    """What a node needs from the runtime of processes."""

    @property
    def id(self) -> str:
        """The runtime's unique id."""

    def start(self, spec: NodeSpec) -> ProcessNode:
        """Start a node."""

    def treat(self, node: ProcessNode, what: str, number: signal.Signals) -> Answer:
        """Let the guardian act on a node (``what``); return its answer."""

    def signal(self, node: ProcessNode, number: signal.Signals) -> bool:
        """Signal a node's group. Return false if the node has ended."""

    def members(self, node: ProcessNode) -> tuple[Member, ...]:
        """Return the living processes of a node."""

    def check(self) -> None:
        """Raise GuardianDiedError if the guardian is gone, so that the nodes' state is unknown."""


class ProcessNode(NodeLife):
    """One life of a node; see :class:`harness.runtimes.interface.Node`."""

    gone_within_s = GONE_WITHIN_S

    def __init__(
        self, runtime: Host, spec: NodeSpec, *, log_path: Path, incarnation: int, stdin: int | None
    ) -> None:
        super().__init__(spec, runtime.check, log_path=log_path, incarnation=incarnation)
        self.since = 0
        """Its start time in the kernel's ticks. A process with its id and another start time is not
        this one.
        """
        self.temporary = ""
        """The folder for its temporary files, without symbolic links; empty: it has none of its
        own.
        """
        self.cgroup = ""
        """The path of its cgroup; empty if it has none of its own."""
        self.token = f"{runtime.id}.{spec.name}.{incarnation}"
        """The token in the environment of all processes that it starts."""
        self._runtime = runtime
        self._stdin = stdin
        self._stdin_lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<node {self.name} ({self.role}), pid {self.pid}, {self._exit or 'alive'}>"

    def members(self) -> tuple[Member, ...]:
        """Return its living processes; none if it has ended."""
        return self._runtime.members(self)

    def kill(self) -> Exit:
        """Send SIGKILL, and wait until it and everything it started is gone. Return how it ended,
        also if that was before.
        """
        self._runtime.treat(self, "kill", signal.SIGKILL)
        return self._gone()

    def terminate(self, within_s: float) -> Exit:
        """Send SIGTERM, and SIGKILL if the node still lives ``within_s`` seconds later. A paused
        node is resumed first.
        """
        if self._runtime.signal(self, signal.SIGTERM) and self._runtime.signal(
            self, signal.SIGCONT
        ):
            return self.wait(within_s) or self.kill()
        return self._gone()

    def tell_to_end(self) -> bool:
        """Send SIGTERM to its group without waiting. Return false if the node has ended."""
        return self._runtime.signal(self, signal.SIGTERM)

    def pause(self) -> None:
        """Send SIGSTOP; return when the kernel shows every thread of every member stopped, and
        there are no new members.
        """
        self._must("pause", signal.SIGSTOP, "to stand still")

    def resume(self) -> None:
        """Send SIGCONT; return when the kernel shows no thread stopped."""
        self._must("resume", signal.SIGCONT, "to go on")

    def stands_still(self) -> bool:
        """Return whether the kernel shows it stopped."""
        try:
            return bool(psutil.Process(self.pid).status() == psutil.STATUS_STOPPED)
        except psutil.NoSuchProcess:  # it has just died, and will be reported in a moment
            return False

    def write_stdin(self, data: bytes) -> None:
        """Write to its standard input.

        Raises:
            NodeStateError: its standard input is closed, or takes no more (64 KiB are unread).
        """
        with self._stdin_lock:
            if self._stdin is None:
                raise NodeStateError(f"node {self.name} has no open standard input")
            try:
                written = os.write(self._stdin, data)
            except (BrokenPipeError, BlockingIOError):
                written = 0
        if written != len(data):
            raise NodeStateError(
                f"node {self.name} does not read its input ({written} of {len(data)} bytes taken)"
            )

    def close_stdin(self) -> None:
        """Close its standard input."""
        with self._stdin_lock:
            if self._stdin is not None:
                os.close(self._stdin)
                self._stdin = None

    def restart(self) -> ProcessNode:
        """Start the same spec again, as the next incarnation."""
        self._must_have_ended("its restart")
        return self._runtime.start(self.spec)

    def _must(self, what: str, number: signal.Signals, because: str) -> None:
        """Pause or resume all members.

        Raises:
            NodeStateError: the node has ended.
        """
        answer = self._runtime.treat(self, what, number)
        if answer.get("stage") == "still" and self.alive:
            raise WaitTimeoutError(
                f"node {self.name} {because} after {number.name}: {answer['error']}",
                ANSWER_WITHIN_S,
            )
        if "error" in answer or (not self.alive and number != signal.SIGCONT):
            raise NodeStateError(
                f"cannot send {number.name} to node {self.name}: it has ended by {self._gone()}"
            )

    def end(self, exit_: Exit | None) -> None:
        """Record how it ended; ``None`` if the guardian died before it could report that."""
        self.close_stdin()
        super().end(exit_)
