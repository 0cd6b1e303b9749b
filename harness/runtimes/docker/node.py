"""A node of the runtime ``docker``: one life of a container, and what is done to it. The engine's word is the evidence."""

from __future__ import annotations

import contextlib
import signal
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

    from harness.runtimes.docker.disks import Disks

GONE_WITHIN_S: Final = 30.0
KILLED: Final = 128
"""The engine shows a death by signal n as exit code 128 + n."""
REASON_WITHIN_S: Final = 1.0
STARVED_AT: Final = 48 << 20
"""How much more memory than it has (bytes) a container that is to hit its limit may take."""


class Host(Protocol):
    """What a runtime of containers does for its nodes."""

    @property
    def disks(self) -> Disks:
        """The small disks of the nodes that have one."""

    def check(self) -> None:
        """Raise what makes the runtime useless."""

    def start(self, spec: NodeSpec) -> DockerNode:
        """Start a container."""

    def state(self, node: DockerNode) -> dict[str, Any]:
        """Return what the engine says of a container."""

    def disconnect(self, node: DockerNode) -> str:
        """Take a container from the network; return the address that it had."""

    def connect(self, node: DockerNode) -> str:
        """Connect a container again; return its address."""


class DockerNode(NodeLife):
    """One life of a container; see :class:`harness.runtimes.interface.Node`."""

    gone_within_s = GONE_WITHIN_S

    def __init__(self, runtime: Host, spec: NodeSpec, *, log_path: Path, incarnation: int) -> None:
        super().__init__(spec, runtime.check, log_path=log_path, incarnation=incarnation)
        self.container: Any = None
        self._runtime = runtime
        self.oom_killed = False
        """Whether the kernel ended it for want of memory, as the engine tells."""
        self.sent: set[int] = set()
        """The signals that the engine has taken for it."""
        self.began_after: float | None = None
        """When the same container's life before this one ended (seconds since 1970); ``None`` where it is new."""
        self.discarded = False
        """Whether its container is gone, although a restart would want it."""

    def __repr__(self) -> str:
        return (
            f"<node {self.name} ({self.role}), container {self.container and self.container.short_id}, {self._exit or 'alive'}>"
        )

    def members(self) -> tuple[Member, ...]:
        """Return the processes in the group of the container's first one, as this machine sees them."""
        seen = group_members(self.pid) if self.pid and self.alive else ()  # the id of one that has ended may be given again
        return tuple(Member(pid, "group", command_of(pid)) for pid in seen)

    def kill(self) -> Exit:
        """SIGKILL, and wait until the engine says that it is gone. Where it had ended before, say how."""
        self._send(signal.SIGKILL)
        return self._gone()

    def terminate(self, within_s: float) -> Exit:
        """SIGTERM, and SIGKILL where it is not gone ``within_s`` later. A paused node is resumed to hear it."""
        if self._paused():
            self.resume()
        if self._send(signal.SIGTERM):
            return self.wait(within_s) or self.kill()
        return self._gone()

    def tell_to_end(self) -> bool:
        """SIGTERM to its first process, as ``docker stop`` does; does not wait."""
        return self._send(signal.SIGTERM)

    def _send(self, number: signal.Signals) -> bool:
        """Signal its first process. False where it has ended."""
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
            raise NodeStateError(f"node {self.name} is not paused, though the engine said so")

    def resume(self) -> None:
        """Thaw it, and send SIGCONT where it has stopped itself.

        Raises:
            NodeStateError: the node has ended.
        """
        if self.alive and self._runtime.state(self).get("Paused"):
            self._act("unpause")
        if self.stands_still():
            self._send(signal.SIGCONT)
            wait_until(lambda: not self.alive or not self.stands_still(), within_s=GONE_WITHIN_S,
                       because=f"node {self.name} to go on after SIGCONT")  # fmt: skip
        if not self.alive:
            raise NodeStateError(f"cannot resume node {self.name}: it has ended by {self.exit}")

    def stands_still(self) -> bool:
        """Say whether its processes are stopped by a signal (a failpoint does that), as the engine's ``top`` shows."""
        if not self.alive:
            return False
        try:
            with telling(f"asking for the processes of node {self.name}"):
                rows = self.container.top(ps_args="-eo pid,stat")["Processes"] or ()
        except EngineError:  # it has just ended, and will be reported in a moment
            return False
        return any(row[1].startswith("T") for row in rows)

    def write_stdin(self, data: bytes) -> None:
        """Refuse: nothing is written into a container's input.

        Raises:
            NodeStateError: always.
        """
        raise NodeStateError(f"node {self.name} is a container: {len(data)} bytes cannot be written to its input")

    def close_stdin(self) -> None:
        """Do nothing: it has no input."""

    def restart(self) -> DockerNode:
        """Start the same container again, as the next incarnation."""
        self._must_have_ended("its restart")
        return self._runtime.start(self.spec)

    @property
    def container_id(self) -> str:
        """The engine's id of it, short."""
        return str(self.container.short_id)

    def starve(self) -> int:
        """Let it hit a limit of its memory, and wait for its end. Return the limit in bytes; the next life has none.

        The limit is little more than it has now, and something inside it wants more.

        Raises:
            WaitTimeoutError: it lives on.
        """
        self._runtime.check()
        first = psutil.Process(self.pid)
        used = sum(int(each.memory_info().rss) for each in (first, *first.children(recursive=True)))
        limit = used + STARVED_AT
        with telling(f"limiting the memory of node {self.name}"):
            self.container.update(mem_limit=limit, memswap_limit=limit)
            # tail keeps the last line of what it reads, and this has no end of a line; the kernel ends who has most
            self.container.exec_run(["sh", "-c", f"head -c {2 * limit} /dev/zero | tail"], detach=True)
        if self.wait(GONE_WITHIN_S) is None:
            raise WaitTimeoutError(f"node {self.name} to be ended for want of memory", GONE_WITHIN_S)
        with telling(f"giving node {self.name} its memory back"):
            plenty = psutil.virtual_memory().total
            self.container.update(mem_limit=plenty, memswap_limit=plenty)
        return limit

    def discard(self) -> None:
        """Remove the dead container: a restart makes another. What it kept in folders of the host stays."""
        self._must_have_ended("it is removed")
        with telling(f"removing node {self.name}"):
            self.container.remove(v=True)
        self.discarded = True

    def fill_disk(self) -> Room:
        """Fill its small disk, and wait until it has ended by itself. Return what the disk said once it was full."""
        return self._runtime.disks.fill(self)

    def empty_disk(self) -> Room:
        """Give the disk its room back; return what it says then."""
        return self._runtime.disks.act(self, "empty")

    def disconnect(self) -> str:
        """Take it from the network of the run; return the address that it had there."""
        return self._runtime.disconnect(self)

    def connect(self) -> str:
        """Give it back to the network, by the same name; return its address."""
        return self._runtime.connect(self)

    def _paused(self) -> bool:
        return self.alive and self._runtime.state(self).get("Paused", False)

    def out_of_memory(self, code: int) -> bool:
        """Say whether the engine names memory as the reason; it may learn of a death a moment before its reason."""

        def said() -> bool:
            return bool(self._runtime.state(self).get("OOMKilled"))

        if code != KILLED + signal.SIGKILL or signal.SIGKILL in self.sent:
            return said()
        with contextlib.suppress(WaitTimeoutError):
            return wait_until(said, within_s=REASON_WITHIN_S, because="the engine to say why", poll_s=0.05)
        return False

    def signal_of(self, code: int, *, oom: bool) -> int | None:
        """Return the signal that ended a container; ``None`` where its program may have left by itself.

        The engine shows a death by signal n as 128 + n, and so does a shell whose child has died so, or anybody who chooses such
        a number. It was a signal where the engine has taken that very one from us, where it says that memory was the reason, and
        where the program is one that a failpoint may let kill itself, for those never leave with such a status.
        """
        number = code - KILLED
        if number not in set(signal.valid_signals()):
            return None
        if number in self.sent or (oom and number == signal.SIGKILL) or self.spec.container.host_pids:
            return number
        return None

    def end(self, exit_: Exit | None, *, oom_killed: bool = False) -> None:
        """Note its end; None where nobody knows how."""
        self.oom_killed = oom_killed
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
