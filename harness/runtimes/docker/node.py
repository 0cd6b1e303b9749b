"""A node of the runtime ``docker``: one life of a container. What happened to it is proved by the
engine's answers.
"""

from __future__ import annotations

import contextlib
import select
import signal
import socket
import threading
from typing import TYPE_CHECKING, Any, Final, Protocol

import psutil
from docker.errors import APIError

from harness.model.waiting import WaitTimeoutError, wait_until
from harness.runtimes.docker.engine import EngineError, explained, telling
from harness.runtimes.interface import Exit, Member, NodeSpec, NodeStateError, Room
from harness.runtimes.life import NodeLife
from harness.runtimes.process.processes import command_of, group_members

if TYPE_CHECKING:
    from pathlib import Path

    from docker.models.containers import Container

    from harness.runtimes.docker.disks import Disks

GONE_WITHIN_S: Final = 30.0
KILLED: Final = 128
"""The engine shows a death by signal n as exit code 128 + n."""
REASON_WITHIN_S: Final = 1.0
TAKES_S: Final = 10.0
"""How long the engine may take to take one line, once it takes any."""
STARVED_AT: Final = 48 << 20
"""How much memory (bytes) above its present use a container gets before it hits its limit."""


class Host(Protocol):
    """What a node needs from the runtime of containers."""

    @property
    def disks(self) -> Disks:
        """The small disks of the nodes that have one."""

    def check(self) -> None:
        """Raise the failure that makes the runtime unusable, if there is one."""

    def start(self, spec: NodeSpec) -> DockerNode:
        """Start a container."""

    def state(self, node: DockerNode) -> dict[str, Any]:
        """Return a container's state from the engine."""

    def disconnect(self, node: DockerNode) -> str:
        """Disconnect a container from the network; return the address that it had."""

    def connect(self, node: DockerNode) -> str:
        """Connect a container again; return its address."""


class DockerNode(NodeLife):
    """One life of a container; see :class:`harness.runtimes.interface.Node`."""

    gone_within_s = GONE_WITHIN_S

    def __init__(self, runtime: Host, spec: NodeSpec, *, log_path: Path, incarnation: int) -> None:
        super().__init__(spec, runtime.check, log_path=log_path, incarnation=incarnation)
        self.container: Container = None
        self._runtime = runtime
        self._stdin: socket.socket | None = None
        self._attached: Any = None
        """The engine's answer, with which the connection would be closed."""
        self._stdin_lock = threading.Lock()
        self.oom_killed = False
        """Whether the kernel killed it for lack of memory, by the engine's report."""
        self.sent: set[int] = set()
        """The signals that the engine has accepted for it."""
        self.began_after: float | None = None
        """When the container's life before this one ended (seconds since 1970); ``None`` for a new
        container.
        """
        self.discarded = False
        """Whether its container was removed, so that a restart must make another."""

    def __repr__(self) -> str:
        return (
            f"<node {self.name} ({self.role}), container "
            f"{self.container and self.container.short_id}, {self._exit or 'alive'}>"
        )

    def members(self) -> tuple[Member, ...]:
        """Return the processes in the process group of the container's first process, with this
        machine's ids.
        """
        seen = (
            group_members(self.pid) if self.pid and self.alive else ()
        )  # the id of one that has ended may be given again
        return tuple(Member(pid, "group", command_of(pid)) for pid in seen)

    def kill(self) -> Exit:
        """Send SIGKILL, and wait until the engine says that the container has ended; return how it
        ended, also if before.
        """
        self._send(signal.SIGKILL)
        return self._gone()

    def terminate(self, within_s: float) -> Exit:
        """Send SIGTERM, and SIGKILL if the node still lives ``within_s`` seconds later. A paused
        node is resumed first.
        """
        if self._paused():
            self.resume()
        if self._send(signal.SIGTERM):
            return self.wait(within_s) or self.kill()
        return self._gone()

    def tell_to_end(self) -> bool:
        """Send SIGTERM to the first process, as ``docker stop`` does, without waiting. Return false
        if the node has ended.
        """
        return self._send(signal.SIGTERM)

    def _send(self, number: signal.Signals) -> bool:
        """Signal the container's first process. Return false if it has ended."""
        self._runtime.check()
        if not self.alive:
            return False
        self.sent.add(number)
        with telling(f"sending {number.name} to node {self.name}"):
            try:
                self.container.kill(signal=number.name)
            except APIError as error:
                if "is not running" in explained(error):
                    self.sent.discard(number)
                    return False
                raise
        return True

    def pause(self) -> None:
        """Freeze the container; return when the engine shows it paused.

        Raises:
            NodeStateError: the node has ended.
        """
        self._act("pause")
        if not self._runtime.state(self).get("Paused"):
            raise NodeStateError(
                f"node {self.name} is not paused, although the engine reported success"
            )

    def resume(self) -> None:
        """Unfreeze the container, and send SIGCONT if its program has stopped itself.

        Raises:
            NodeStateError: the node has ended.
        """
        if self.alive and self._runtime.state(self).get("Paused"):
            self._act("unpause")
        if self.stands_still():
            self._send(signal.SIGCONT)
            wait_until(
                lambda: not self.alive or not self.stands_still(),
                within_s=GONE_WITHIN_S,
                because=f"node {self.name} to go on after SIGCONT",
            )
        if not self.alive:
            raise NodeStateError(f"cannot resume node {self.name}: it has ended by {self.exit}")

    def stands_still(self) -> bool:
        """Return whether its processes are stopped by a signal (as by a failpoint), by the engine's
        ``top``.
        """
        if not self.alive:
            return False
        try:
            with telling(f"asking for the processes of node {self.name}"):
                rows = self.container.top(ps_args="-eo pid,stat")["Processes"] or ()
        except EngineError:  # it has just ended, and will be reported in a moment
            return False
        return any(row[1].startswith("T") for row in rows)

    def open_stdin(self) -> None:
        """Attach to its standard input, which is open once, from its start until it is closed."""
        with telling(f"attaching to the standard input of node {self.name}"):
            self._attached = self.container.attach_socket(params={"stdin": 1, "stream": 1})
            self._stdin = getattr(self._attached, "_sock", self._attached)
            self._stdin.settimeout(TAKES_S)

    def write_stdin(self, data: bytes) -> None:
        """Write to its standard input, by the engine.

        Raises:
            NodeStateError: its standard input is closed, or takes no more.
        """
        with self._stdin_lock:
            if self._stdin is None or not self.alive:
                raise NodeStateError(f"node {self.name} has no open standard input")
            if not select.select([], [self._stdin], [], 0)[1]:
                raise NodeStateError(f"node {self.name} does not read its input")
            try:
                self._stdin.sendall(data)
            except OSError as error:  # the engine has part of it: nothing more can follow
                self._hang_up()
                raise NodeStateError(f"node {self.name} does not read its input") from error

    def close_stdin(self) -> None:
        """Close its standard input."""
        with self._stdin_lock:
            self._hang_up()

    def _hang_up(self) -> None:
        if self._stdin is not None:
            with contextlib.suppress(OSError):  # the engine may have closed it
                self._stdin.shutdown(socket.SHUT_WR)
            self._stdin.close()
            self._stdin = None

    def restart(self) -> DockerNode:
        """Start the same container again, as the next incarnation."""
        self._must_have_ended("its restart")
        return self._runtime.start(self.spec)

    @property
    def container_id(self) -> str:
        """The container's short id in the engine."""
        return str(self.container.short_id)

    def starve(self) -> int:
        """Make the container exceed a memory limit, and wait for its end. Return the limit in
        bytes; the next life has none.

        The limit is set little above its present use, and a process inside it then allocates more.

        Raises:
            WaitTimeoutError: the container lives on.
        """
        self._runtime.check()
        first = psutil.Process(self.pid)
        used = sum(int(each.memory_info().rss) for each in (first, *first.children(recursive=True)))
        limit = used + STARVED_AT
        with telling(f"limiting the memory of node {self.name}"):
            self.container.update(mem_limit=limit, memswap_limit=limit)
            # tail keeps the last line of what it reads, and this has no end of a line; the kernel
            # ends who has most
            self.container.exec_run(
                ["sh", "-c", f"head -c {2 * limit} /dev/zero | tail"], detach=True
            )
        if self.wait(GONE_WITHIN_S) is None:
            raise WaitTimeoutError(
                f"node {self.name} to be killed for lack of memory", GONE_WITHIN_S
            )
        with telling(f"lifting the memory limit of node {self.name}"):
            plenty = psutil.virtual_memory().total
            self.container.update(mem_limit=plenty, memswap_limit=plenty)
        return limit

    def discard(self) -> None:
        """Remove the dead container; a restart makes another. Its files in folders of the host
        stay.
        """
        self._must_have_ended("it is removed")
        with telling(f"removing node {self.name}"):
            self.container.remove(v=True)
        self.discarded = True

    def fill_disk(self) -> Room:
        """Fill its small disk, and wait until the node has ended by itself. Return the size and
        free space of the full disk.
        """
        return self._runtime.disks.fill(self)

    def empty_disk(self) -> Room:
        """Make room on its small disk again; return the disk's size and free space."""
        return self._runtime.disks.act(self, "empty")

    def disconnect(self) -> str:
        """Disconnect it from the run's network; return the address that it had there."""
        return self._runtime.disconnect(self)

    def connect(self) -> str:
        """Connect it to the run's network again, by the same name; return its address."""
        return self._runtime.connect(self)

    def _paused(self) -> bool:
        return self.alive and self._runtime.state(self).get("Paused", False)

    def out_of_memory(self, code: int) -> bool:
        """Return whether the engine names memory as the reason. It may learn of a death a moment
        before the reason.
        """

        def said() -> bool:
            return bool(self._runtime.state(self).get("OOMKilled"))

        if code != KILLED + signal.SIGKILL or signal.SIGKILL in self.sent:
            return said()
        with contextlib.suppress(WaitTimeoutError):
            return wait_until(
                said,
                within_s=REASON_WITHIN_S,
                because="the engine to name the reason of the end",
                poll_s=0.05,
            )
        return False

    def signal_of(self, code: int, *, oom: bool) -> int | None:
        """Return the signal that ended a container; ``None`` if its program may have exited by
        itself.

        The engine shows a death by signal n as exit code 128 + n. But a shell whose child died by a
        signal, or any program, can exit with that code, too. It was a signal if lostack had sent
        that signal, if the engine names memory as the reason, or if the program is one that may
        kill itself at a failpoint, because such programs never exit with such a code.
        """
        number = code - KILLED
        if number not in set(signal.valid_signals()):
            return None
        if (
            number in self.sent
            or (oom and number == signal.SIGKILL)
            or self.spec.container.host_pids
        ):
            return number
        return None

    def end(self, exit_: Exit | None, *, oom_killed: bool = False) -> None:
        """Record how it ended; ``None`` if that is unknown."""
        self.oom_killed = oom_killed
        self.close_stdin()
        super().end(exit_)

    def _act(self, verb: str) -> None:
        self._runtime.check()
        try:
            if self.alive:
                getattr(self.container, verb)()
        except APIError as error:
            if "is not running" not in explained(error):
                raise EngineError(f"cannot {verb} node {self.name}: {explained(error)}") from error
            self.wait(GONE_WITHIN_S)
        if not self.alive:
            raise NodeStateError(f"cannot {verb} node {self.name}: it has ended by {self.exit}")
